//! The report as people see it.

use std::collections::BTreeMap;

use super::*;
use crate::{
    drivers::modbus::scan::survey::{Counts, Crowd, Identity},
    profile::modbus::Table,
};

pub(crate) fn extent(table: Table, ranges: &[(u16, u16)], state: State) -> Extent {
    let addresses = ranges.iter().flat_map(|(first, last)| *first..=*last);
    let value = |address: u16| if table.is_bits() { address % 2 } else { address.wrapping_mul(257) };
    Extent {
        region: Region { table, first: 0, last: 999 },
        values: addresses.map(|address| (address, value(address))).collect(),
        state,
        cap: None,
        in_pairs: false,
        seams: Vec::new(),
        refusals: BTreeMap::new(),
    }
}

fn identity(objects: &[(u8, &str)]) -> Identity {
    Identity(objects.iter().map(|(object, text)| (*object, (*text).to_owned())).collect())
}

pub(crate) fn survey() -> Survey {
    let mut holding = extent(Table::Holding, &[(0, 1), (10, 99), (500, 500)], State::Done);
    holding.cap = Some(Cap { answered: 32, refused: 33 });
    holding.refusals = BTreeMap::from([(Refusal::Exception(2), 930), (Refusal::Silent, 2)]);
    holding.seams = vec![Region { table: Table::Holding, first: 48, last: 63 }];
    let mut input = extent(Table::Input, &[(0, 9)], State::Open(620));
    input.in_pairs = true;
    input.cap = Some(Cap { answered: 80, refused: 100 });
    let mut blank = extent(Table::Coil, &[(0, 999)], State::Done);
    blank.values.values_mut().for_each(|value| *value = 0);
    let mut empty = extent(Table::Discrete, &[], State::Done);
    empty.refusals = BTreeMap::from([(Refusal::Exception(2), 1009), (Refusal::Unusable, 1)]);
    let found = |unit, identity, extents, state| Found { unit, identity, extents, state };
    let names = [(0, "Acme"), (1, "AX-1"), (2, "V2.1"), (4, "Flow meter")];
    Survey {
        units: vec![
            found(1, identity(&names), vec![holding, blank, empty], Progress::Done),
            found(
                17,
                identity(&[(1, "SDM")]),
                vec![extent(Table::Holding, &[], State::Unsupported), input],
                Progress::Gone,
            ),
            found(20, identity(&[]), Vec::new(), Progress::Called),
        ],
        crowd: Some(Crowd { unit: 1, count: 240, has_data: true }),
        counts: Counts { requests: 4321, silent: 12, exceptions: 3000, late: 1 },
        is_complete: false,
        given_up: None,
        hint: None,
    }
}

#[test]
fn all_that_can_be_found_is_told() {
    insta::assert_snapshot!("report", render(&survey(), "192.168.0.10:502"));
}

#[test]
fn nothing_found_is_told_as_well() {
    let counts = Counts { requests: 988, silent: 988, exceptions: 0, late: 0 };
    let nothing = Survey { counts, is_complete: true, ..Survey::default() };
    insta::assert_snapshot!(
        render(&nothing, "/dev/ttyUSB0"),
        @"no unit answers at /dev/ttyUSB0; 988 requests, all of them reads: 988 not answered, 0 answered with an exception"
    );
    let counts = Counts { requests: 32, silent: 32, exceptions: 0, late: 0 };
    let given_up = Some("an HTTP server answers here, no Modbus TCP device".to_owned());
    let closed = Survey { counts, given_up, ..Survey::default() };
    insta::assert_snapshot!(render(&closed, "web:80"));
}
