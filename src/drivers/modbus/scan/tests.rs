//! Whole scans against scripted networks: without I/O, and over a pipe under paused time.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod pipe;

use std::{cell::RefCell, collections::BTreeMap};

use super::{
    probe::{Level, Objects},
    survey::{Crowd, Found, Progress, Refusal, State},
    *,
};

const ALL: [Table; 4] = [Table::Holding, Table::Input, Table::Coil, Table::Discrete];

fn scope(units: impl IntoIterator<Item = u8>, tables: &[Table], last: u16) -> Scope {
    Scope { units: units.into_iter().collect(), tables: tables.to_vec(), addresses: (0, last) }
}

/// Asks `network` until nothing is left.
fn run(
    scope: &Scope,
    may_crowd: bool,
    mut network: impl FnMut(u8, Probe) -> Reply,
) -> (Survey, Vec<Question>) {
    let mut search = Search::new(scope, may_crowd);
    let mut asked = Vec::new();
    while let Some(question) = search.next() {
        asked.push(question);
        assert!(asked.len() < 20_000, "no end");
        search.heard(network(question.unit, question.probe));
    }
    assert_eq!(search.most_left(), 0);
    (search.survey(), asked)
}

fn units(survey: &Survey) -> Vec<u8> {
    survey.units.iter().map(|found| found.unit).collect()
}

/// Registers and bits from 0 on, as many as `there`; no identity.
fn device(probe: Probe, there: u16, value: u16) -> Reply {
    match probe {
        Probe::Read { first, count, .. } if first + count <= there => {
            Reply::Cells(vec![value; usize::from(count)])
        }
        Probe::Read { .. } => Reply::Exception(2),
        Probe::Identify { .. } => Reply::Exception(1),
    }
}

fn is_call(question: Question, table: Table) -> bool {
    question.probe == Probe::Read { table, first: 0, count: 1 }
}

#[test]
fn any_answer_proves_a_unit_but_not_that_of_a_gateway() {
    let network = |unit: u8, probe: Probe| match unit {
        1 => device(probe, 3, 7),
        2 => Reply::Exception(1),
        3 => Reply::Exception(2),
        4 => Reply::Exception(3),
        5 => Reply::Exception(4),
        6 => Reply::Exception(6),
        7 => Reply::Unusable("odd".to_owned()),
        8 => Reply::Exception(0x0A),
        9 => Reply::Exception(0x0B),
        10 => Reply::Lost("closed by the device".to_owned()),
        _ => Reply::Silent,
    };
    let (survey, asked) = run(&scope(1..=12, &ALL, 3), false, network);
    assert_eq!(units(&survey), [1, 2, 3, 4, 5, 6, 7]);
    assert!(survey.is_complete);
    let calls = |unit| asked.iter().filter(|question| question.unit == unit).count();
    // A gateway that has no way to a unit has none for other tables either.
    assert_eq!((calls(8), calls(9), calls(10), calls(11)), (1, 4, 4, 4));
}

#[test]
fn all_ids_are_called_by_one_table_before_the_next() {
    let network = |unit: u8, probe: Probe| match (unit, probe) {
        (3, Probe::Read { table: Table::Coil, .. }) => device(probe, 3, 1),
        _ => Reply::Silent,
    };
    let (survey, asked) = run(&scope(1..=4, &ALL, 3), true, network);
    assert_eq!(units(&survey), [3]);
    let order: Vec<u8> = asked.iter().take(16).map(|question| question.unit).collect();
    assert_eq!(order, [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 4, 3]);
    assert!(asked[..4].iter().all(|question| is_call(*question, Table::Holding)));
    let extents = &survey.units[0].extents;
    let readable: Vec<_> = extents.iter().map(|extent| (extent.table(), extent.values.len())).collect();
    assert_eq!(readable, [(Table::Holding, 0), (Table::Input, 0), (Table::Coil, 3), (Table::Discrete, 0)]);
    assert!(extents[0].refusals.contains_key(&Refusal::Silent));
}

#[test]
fn a_device_that_answers_to_every_id_is_listed_once() {
    let every = || [255].into_iter().chain(0..=247);
    let (survey, asked) = run(&scope(every(), &ALL, 9), true, |_, probe| device(probe, 5, 7));
    assert_eq!(units(&survey), [1]);
    assert_eq!(survey.crowd, Some(Crowd { unit: 1, count: 249, has_data: true }));
    assert!(asked[249..].iter().all(|question| question.unit == 1));
    // On a line each id is a station of its own.
    let (survey, _) = run(&scope(1..=20, &[Table::Holding], 9), false, |_, probe| device(probe, 5, 7));
    assert_eq!((survey.units.len(), survey.crowd), (20, None));
    // A few ids that were asked for by name are looked at.
    let (survey, _) = run(&scope(1..=10, &[Table::Holding], 9), true, |_, probe| device(probe, 5, 7));
    assert_eq!((survey.units.len(), survey.crowd), (10, None));
}

#[test]
fn values_that_change_make_no_other_device() {
    let now = RefCell::new(0_u16);
    let network = |unit: u8, probe: Probe| {
        *now.borrow_mut() += 1;
        if unit == 0 { Reply::Silent } else { device(probe, 5, *now.borrow()) }
    };
    let (survey, _) = run(&scope(0..=247, &[Table::Holding], 9), true, network);
    assert_eq!(survey.crowd, Some(Crowd { unit: 1, count: 247, has_data: true }));
    assert_eq!(units(&survey), [1]);
    // It changes once, in the middle: the few behind are asked again, right after the one that stands for all.
    let calls = RefCell::new(0);
    let network = |_: u8, probe: Probe| {
        *calls.borrow_mut() += 1;
        device(probe, 5, u16::from(*calls.borrow() > 15))
    };
    let (survey, asked) = run(&scope(1..=20, &[Table::Holding], 9), true, network);
    assert_eq!(survey.crowd, Some(Crowd { unit: 1, count: 20, has_data: true }));
    let compared: Vec<u8> = asked[20..30].iter().map(|question| question.unit).collect();
    assert_eq!(compared, [1, 16, 1, 17, 1, 18, 1, 19, 1, 20]);
}

#[test]
fn units_that_differ_from_all_others_are_listed_beside_them() {
    let network = |unit: u8, probe: Probe| match unit {
        5 => device(probe, 5, 99),
        6 => Reply::Exception(2),
        _ => device(probe, 5, 7),
    };
    let (survey, _) = run(&scope(1..=247, &[Table::Holding], 9), true, network);
    assert_eq!(units(&survey), [1, 5, 6]);
    assert_eq!(survey.crowd, Some(Crowd { unit: 1, count: 245, has_data: true }));
}

/// A gateway that answers another exception than 0x0B for units that it does not reach.
#[test]
fn a_crowd_of_exceptions_hides_no_unit() {
    let network = |unit: u8, probe: Probe| match unit {
        3 | 20..=40 => device(probe, 5, unit.into()),
        _ => Reply::Exception(4),
    };
    let (survey, _) = run(&scope(1..=247, &[Table::Holding], 9), true, network);
    assert_eq!(survey.crowd, Some(Crowd { unit: 1, count: 225, has_data: false }));
    assert_eq!(units(&survey), [1, 3].into_iter().chain(20..=40).collect::<Vec<_>>());
}

#[test]
fn identity_in_parts_and_levels() {
    let object = |id: u8, text: &str| (id, text.as_bytes().to_vec());
    let network = |_: u8, probe: Probe| match probe {
        Probe::Identify { level: Level::Basic, object: 0 } => Reply::Identity(Objects {
            objects: vec![object(0, "Acme\0\0"), object(1, " X-1 ")],
            regular: true,
            next: Some(2),
        }),
        Probe::Identify { level: Level::Basic, object: 2 } => {
            Reply::Identity(Objects { objects: vec![object(2, "V1\r\n2")], regular: true, next: None })
        }
        Probe::Identify { level: Level::Regular, object: 3 } => Reply::Identity(Objects {
            objects: vec![object(4, "Meter")],
            regular: true,
            // Goes back, as if for ever.
            next: Some(3),
        }),
        Probe::Identify { .. } => panic!("{probe:?}"),
        Probe::Read { .. } => Reply::Exception(2),
    };
    let (survey, _) = run(&scope([1], &[Table::Holding], 0), false, network);
    let identity = &survey.units[0].identity;
    assert_eq!(
        (identity.vendor(), identity.product(), identity.revision()),
        (Some("Acme"), Some("Meter"), Some("V1 2"))
    );
    assert_eq!(identity.0.get(&1).map(String::as_str), Some("X-1"));
}

#[test]
fn an_identity_without_end_is_ended() {
    let network = |_: u8, probe: Probe| match probe {
        Probe::Identify { object, .. } => Reply::Identity(Objects {
            objects: vec![(object, vec![b'x'])],
            regular: false,
            next: object.checked_add(1),
        }),
        Probe::Read { .. } => Reply::Exception(2),
    };
    let (survey, _) = run(&scope([1], &[Table::Holding], 0), false, network);
    assert_eq!(survey.units[0].identity.0.len(), 16);
}

/// Frames get lost; a question that was not answered is asked again, and nothing is taken for unreadable.
#[test]
fn a_lost_frame_costs_a_request_and_no_address() {
    let count = RefCell::new(0_u32);
    let network = |_: u8, probe: Probe| {
        *count.borrow_mut() += 1;
        match *count.borrow() % 3 {
            0 => Reply::Silent,
            1 if *count.borrow() > 1 => Reply::Exception(6),
            _ => device(probe, 1000, 7),
        }
    };
    let network = RefCell::new(network);
    // Never two failures in a row for one question.
    let last = RefCell::new(None);
    let (survey, _) = run(&scope([1], &ALL, 999), false, |unit, probe| {
        if last.replace(Some(probe)) == Some(probe) {
            return device(probe, 1000, 7);
        }
        network.borrow_mut()(unit, probe)
    });
    for extent in &survey.units[0].extents {
        assert_eq!((extent.ranges(), extent.refusals.len()), (vec![(0, 999)], 0), "{:?}", extent.table());
    }
    assert!(survey.counts.silent > 0);
}

/// Some devices do not answer at all to what they do not have.
#[test]
fn silence_to_what_is_not_there_is_told_from_a_unit_that_is_gone() {
    let mute = |_: u8, probe: Probe| match device(probe, 4, 7) {
        Reply::Cells(cells) => Reply::Cells(cells),
        _ => Reply::Silent,
    };
    let (survey, asked) = run(&scope([9], &[Table::Holding], 19), false, mute);
    let Found { extents, state, .. } = &survey.units[0];
    assert_eq!((extents[0].ranges(), *state), (vec![(0, 3)], Progress::Done));
    assert_eq!(extents[0].state, State::Done);
    // The identity, the first block, and then every eighth in a row has it shown that it is there.
    let shown = asked.iter().filter(|question| is_call(**question, Table::Holding)).count();
    assert!((3..=6).contains(&shown), "{shown}");

    let left = RefCell::new(40);
    let gone = |_: u8, probe: Probe| {
        let mut left = left.borrow_mut();
        *left -= 1;
        if *left > 0 { device(probe, 4, 7) } else { Reply::Silent }
    };
    let (survey, asked) = run(&scope([9], &ALL, 99), false, gone);
    let Found { extents, state, .. } = &survey.units[0];
    assert_eq!(*state, Progress::Gone);
    assert!(matches!(extents[0].state, State::Open(_)), "{:?}", extents[0].state);
    // Two tries, and one look.
    assert_eq!(asked.len(), 39 + 3);
}

#[test]
fn a_peer_that_only_hangs_up_is_given_up() {
    let network = |_: u8, _: Probe| Reply::Lost("closed by the device".to_owned());
    let (survey, asked) = run(&scope(1..=247, &ALL, 9), true, network);
    assert_eq!((asked.len(), survey.is_complete), (32, false));
    assert_eq!(survey.given_up.as_deref(), Some("closed by the device"));
}

#[test]
fn what_was_found_is_there_at_any_moment() {
    let scope = scope(1..=3, &[Table::Holding, Table::Coil], 9);
    let mut search = Search::new(&scope, false);
    let mut seen = BTreeMap::new();
    while let Some(question) = search.next() {
        search.heard(device(question.probe, 5, 7));
        let survey = search.survey();
        for found in survey.units {
            let readable: usize = found.extents.iter().map(|extent| extent.values.len()).sum();
            let before = seen.insert(found.unit, readable).unwrap_or_default();
            assert!(readable >= before, "unit {} loses what was found", found.unit);
        }
    }
    assert_eq!(seen, BTreeMap::from([(1, 10), (2, 10), (3, 10)]));
}
