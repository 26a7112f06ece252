//! Rules between a dialect and tags of a size or part.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test may panic")]

use std::{path::Path, sync::Arc};

use config::{Value, ValueKind};

use super::*;
use crate::{
    config::{
        Document, Wire, load_text,
        read::{Node, Read},
    },
    profile::raw::ProfileFile,
};

fn keys(text: &str) -> Keys {
    let text = format!("protocol = 'modbus'\nvendor = 'v'\nmodel = 'm'\n{text}");
    let document = Arc::new(Document::new("profile".to_owned(), text));
    let tree = Value::new(None, ValueKind::Table(document.tree().unwrap()));
    let found = &mut Findings::default();
    let ProfileFile { reads, writes, .. } = Read::read(&Node::root(&tree, &document), found).unwrap();
    Keys::new(reads.as_ref(), writes.as_ref(), found)
}

/// A writable tag in `table`, whose source `change` changes.
fn tags(table: &str, kind: &str, change: impl Fn(&mut Point)) -> Vec<TagSpec<Polled>> {
    let site = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'c'\ndriver = 'modbus-tcp'\naddress = '10.0.0.1:502'\n\
         [[devices]]\nname = 'd'\nconnection = 'c'\nunit_id = 1\n[[devices.tags]]\nname = 't'\ntype = '{kind}'\n\
         register = {{ table = '{table}', address = 10 }}\naccess = 'read-write'\n"
    );
    let mut site = load_text(Path::new("x.toml"), site, [("", ""); 0]).unwrap();
    let Wire::Modbus(device) = &mut site.connections[0].devices[0].wire else { panic!("a Modbus device") };
    let mut tags = std::mem::take(&mut device.tags);
    for tag in &mut tags {
        change(Arc::make_mut(&mut tag.source.point));
    }
    tags
}

fn told(check: impl Fn(&mut Findings)) -> String {
    let mut found = Findings::default();
    check(&mut found);
    // The same for a second device.
    check(&mut found);
    found.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_array_of_bits_takes_as_many() {
    let array = tags("coil", "bool", |point| point.format.count = Some(9));
    let reads = |text| told(|found| keys(text).check_reads(&array, found));
    insta::assert_snapshot!(
        reads("reads = { max_bits = 8 }"),
        @"profile:4: reads.max_bits = 8: does not go with the tag `t`, which takes 9 bits: allowed is at least 9"
    );
    assert_eq!(reads("reads = { max_bits = 9, max_registers = 1 }"), "");
    // Coils 10 to 18.
    assert_eq!(reads("reads = { forbidden = [{ table = 'coil', first = 19, last = 19 }] }"), "");
    assert_ne!(reads("reads = { forbidden = [{ table = 'coil', first = 18, last = 19 }] }"), "");
    assert_eq!(reads("reads = { forbidden = [{ table = 'discrete', first = 0, last = 99 }] }"), "");
    assert_eq!(reads("reads = { groups = [{ table = 'coil', first = 10, last = 18 }] }"), "");
    assert_ne!(reads("reads = { groups = [{ table = 'coil', first = 11, last = 18 }] }"), "");
    let single = tags("coil", "bool", |point| {
        point.format.count = Some(9);
        point.function = WriteFunction::Single;
    });
    let writes = told(|found| keys("writes = { function = 'single' }").check_writes(&single, false, found));
    insta::assert_snapshot!(
        writes,
        @r#"profile:4: writes.function = 'single': does not go with the tag `t`, which takes 9 bits: allowed is "multiple" for it, here or as the tag's `write.function`, since two frames are not one write"#
    );
}

#[test]
fn a_part_of_a_register_is_not_read_for_a_broadcast() {
    let bit = tags("holding", "uint16", |point| point.format.part = Part::Bits { low: 0, high: 3 });
    let whole = tags("holding", "uint16", |_| {});
    let writes = |part: &str, tags: &[TagSpec<Polled>], broadcast| {
        let keys = keys(&format!("writes = {{ part = '{part}' }}"));
        told(|found| keys.check_writes(tags, broadcast, found))
    };
    insta::assert_snapshot!(
        writes("read-modify-write", &bit, true),
        @r#"profile:4: writes.part = 'read-modify-write': does not go with the tag `t` of a broadcast, which cannot be read: allowed is "mask""#
    );
    assert_eq!(writes("read-modify-write", &bit, false), "");
    assert_eq!(writes("read-modify-write", &whole, true), "");
    assert_eq!(writes("mask", &bit, true), "");
}
