//! What tags say of values and addresses.

use serde_json::Value as Json;

use super::*;
use crate::codec::value::Order;

/// The one tag of a site, of which this much is said.
fn tag(register: &str, rest: &str) -> Result<Site, Problems> {
    text(&with_tag(&format!("register = {register}\n{rest}")))
}

const HOLDING: &str = "{ table = 'holding', address = 0 }";

#[test]
fn every_kind_of_value_is_listed_as_it_was_understood() {
    let site = file("tests/cases/config/sites/values.toml").unwrap();
    insta::assert_snapshot!("values", check::render(&site));
}

#[test]
fn every_rule_of_values_and_addresses_has_its_words() {
    let problems = file("tests/cases/config/sites/misvalued.toml").unwrap_err();
    let listed: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let source = std::fs::read_to_string("tests/cases/config/sites/misvalued.toml").unwrap();
    let tags = source.lines().filter(|line| line.starts_with("  { name"));
    for (index, tag) in tags.enumerate() {
        let key = format!("devices[0].tags[{index}].");
        assert!(listed.iter().any(|problem| problem.contains(&key)), "taken: {tag}");
    }
    insta::assert_snapshot!("misvalued", check::render_problems(&problems));
}

#[test]
fn byte_orders_of_a_width_are_taken_at_its_types_only() {
    let flags = |bytes, words, dwords| Some(Order { bytes, words, dwords });
    for (kind, written, order) in [
        ("int16", "BA", Some(Order::BADC)),
        ("int16", "DCBA", Some(Order::BADC)),
        ("int16", "CDAB", Some(Order::ABCD)),
        ("float32", "CDAB", Some(Order::CDAB)),
        ("int48", "EFCDAB", Some(Order::CDAB)),
        ("int48", "FEDCBA", Some(Order::DCBA)),
        ("float64", "CDAB", Some(Order::CDAB)),
        ("float64", "HGFEDCBA", Some(Order::DCBA)),
        ("float64", "CDABGHEF", flags(false, true, false)),
        ("float64", "EFGHABCD", flags(false, false, true)),
        ("float64", "DCBAHGFE", flags(true, true, false)),
        ("float64", "FEHGBADC", flags(true, false, true)),
        ("float32", "HGFEDCBA", None),
        ("float32", "BA", None),
        ("float32", "ABCDEF", None),
        ("int48", "ABCDEFGH", None),
        ("int16", "GHEFCDAB", None),
        ("int16", "abcd", None),
    ] {
        let site = tag(HOLDING, &format!("type = '{kind}'\nbyte_order = '{written}'"));
        assert_eq!(site.ok().map(|site| point(&site).format.order), order, "{kind} {written}");
    }
}

#[test]
fn exchanges_are_orders_by_another_name() {
    for (kind, swap, order) in [
        ("int16", "['byte']", "BADC"),
        ("int32", "['word']", "CDAB"),
        ("int32", "['byte', 'word']", "DCBA"),
        ("int48", "['word']", "EFCDAB"),
        ("int64", "['word']", "CDABGHEF"),
        ("int64", "['dword']", "EFGHABCD"),
        ("int64", "['word', 'dword']", "GHEFCDAB"),
        ("int64", "['byte', 'word', 'dword']", "HGFEDCBA"),
        ("int64", "['byte', 'dword']", "FEHGBADC"),
        ("int64", "[]", "ABCDEFGH"),
    ] {
        let named = tag(HOLDING, &format!("type = '{kind}'\nbyte_order = '{order}'")).unwrap();
        let swapped = tag(HOLDING, &format!("type = '{kind}'\nswap = {swap}")).unwrap();
        assert_eq!(named, swapped, "{kind} {swap}");
    }
}

#[test]
fn a_part_takes_the_order_of_its_register() {
    let site = tag("{ reference = '40011', bit = 3 }", "type = 'bool'\nbyte_order = 'BA'").unwrap();
    let Point { table, address, format, .. } = point(&site);
    assert_eq!((*table, *address, format.mask()), (Table::Holding, 10, Some(0x0800)));
    assert_eq!(format.decode(&[0x0800]), Ok(crate::model::Value::Bool(true)));
}

#[test]
fn sentinels_are_bit_patterns() {
    for (kind, written, patterns) in [
        ("int16", "0x8000", vec![0x8000]),
        ("int16", "-32768", vec![0x8000]),
        ("int16", "[-1, 65535]", vec![0xFFFF]),
        ("uint16", "[0xFFFF, 0]", vec![0xFFFF, 0]),
        ("int32", "0x80000000", vec![0x8000_0000]),
        ("int48", "-1", vec![0xFFFF_FFFF_FFFF]),
        ("uint64", "'0xFFFFFFFFFFFFFFFF'", vec![u64::MAX]),
        ("int64", "'0x8000000000000000'", vec![1 << 63]),
        ("int64", "-1", vec![u64::MAX]),
        ("float32", "'0x7FC00000'", vec![0x7FC0_0000]),
        ("float32", "-999.9", vec![0xC479_F99A]),
        ("float32", "0", vec![0, 0x8000_0000]),
        ("float32", "'0x0'", vec![0]),
        ("float64", "9.96921e36", vec![9.96921e36_f64.to_bits()]),
        ("float16", "1", vec![0x3C00]),
        ("bcd16", "9999", vec![0x9999]),
        ("bcd16", "'0xFFFF'", vec![0xFFFF]),
    ] {
        let site = tag(HOLDING, &format!("type = '{kind}'\nnot_available = {written}\nscale = 0.1")).unwrap();
        assert_eq!(point(&site).format.not_available, patterns, "{kind} {written}");
    }
}

/// Case A05, vectors 1 to 23, each through the reader of profiles.
#[test]
fn a05_addresses() {
    let cases: Json =
        serde_json::from_str(&std::fs::read_to_string("tests/cases/cases.json").unwrap()).unwrap();
    let vectors = cases["vectors"].as_array().unwrap().iter();
    let mut seen = 0;
    for vector in vectors.filter(|vector| vector["case"] == "A05" && vector["op"] == "address") {
        seen += 1;
        let id = vector["id"].as_str().unwrap();
        let notation = &vector["notation"];
        let plain = notation.as_str().map_or_else(|| notation.to_string(), str::to_owned);
        if !vector["expect_error"].is_null() {
            for register in [
                plain.clone(),
                format!("'{plain}'"),
                format!("{{ reference = '{plain}' }}"),
                format!("{{ table = 'holding', address = '{plain}' }}"),
            ] {
                let problems = tag(&register, "type = 'uint16'").unwrap_err();
                assert_eq!(problems.len(), 1, "{id}: {problems}");
                assert!(problems.to_string().contains("devices[0].tags[0].register"), "{id}: {problems}");
            }
            continue;
        }
        let register = if notation.is_object() {
            format!("{{ table = {}, address = {} }}", notation["table"], notation["address"])
        } else {
            format!("{{ reference = '{plain}' }}")
        };
        let table = vector["table"].as_str().unwrap();
        let kind = if ["coil", "discrete"].contains(&table) { "bool" } else { "uint16" };
        let site = tag(&register, &format!("type = '{kind}'")).unwrap_or_else(|no| panic!("{id}: {no}"));
        let Point { table: understood, address, .. } = point(&site);
        let expected = u16::try_from(vector["pdu_address"].as_u64().unwrap()).unwrap();
        assert_eq!((understood.name(), *address), (table, expected), "{id}");
    }
    assert_eq!(seen, 23);
}

#[test]
fn no_other_notation_is_read() {
    for written in ["40001", "'4x0001'", "'40001'", "4_0001", "0x9C40", "-1", "70000", "40001.0", "40001.3"] {
        let problems = tag(written, "type = 'uint16'").unwrap_err();
        assert_eq!(problems.len(), 1, "{written}: {problems}");
    }
    for written in ["-1", "65536", "'9C40'", "'0x10000'", "'0x'", "'0x+1'", "1.0", "true", "'40001'", "'0.3'"]
    {
        let register = format!("{{ table = 'holding', address = {written} }}");
        let problems = tag(&register, "type = 'uint16'").unwrap_err();
        assert_eq!(problems.len(), 1, "{written}: {problems}");
    }
    for written in [
        "''",
        "'4'",
        "'4000'",
        "'40001 '",
        "'+40001'",
        "'4x'",
        "'4x65537'",
        "'4x-1'",
        "'4x000001'",
        "'2x1'",
        "'4y1'",
        "'40001.3'",
        "'40001:3'",
        "'x40001'",
        "'４0001'",
        "40001",
        "40001.0",
    ] {
        let problems = tag(&format!("{{ reference = {written} }}"), "type = 'uint16'").unwrap_err();
        assert_eq!(problems.len(), 1, "{written}: {problems}");
    }
}

#[test]
fn letters_and_zeros_are_one_address() {
    for written in ["40010", "400010", "4x10", "4X10", "4x010", "4x00010"] {
        let site = tag(&format!("{{ reference = '{written}' }}"), "type = 'uint16'").unwrap();
        let Point { table, address, .. } = point(&site);
        assert_eq!((*table, *address), (Table::Holding, 9), "{written}");
    }
    // In a reference this is the coil table, whatever it looks like.
    let site = tag("{ reference = '0x100' }", "type = 'bool'").unwrap();
    assert_eq!((point(&site).table, point(&site).address), (Table::Coil, 99));
}

/// Tags of devices that share a profile are noted once.
#[test]
fn shared_registers_are_noted_once_a_profile() {
    let tags = "tags = [{ name = 'a', register = { reference = '40001' }, type = 'uint32' }, \
                { name = 'b', register = { reference = '40002' }, type = 'uint16' }]";
    let site = with_tag("register = { reference = '30001' }\ntype = 'uint16'");
    let site = site
        .replace("[[devices.tags]]\nname = 't'\n", "")
        .replace("register = { reference = '30001' }\ntype = 'uint16'", tags);
    let warnings = text(&site).unwrap().warnings;
    insta::assert_snapshot!(
        warnings.join("\n"),
        @"config/test.toml:11: devices[0].tags[1].name = 'b': it shares holding register 1 with tag `a`"
    );
}
