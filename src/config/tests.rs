//! Whole files, good and broken.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test may panic")]

mod can;
mod connections;
mod mqtt;

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::Value as Json;

use super::{
    DeviceSpec, Endpoint, ModbusDevice, ModbusEndpoint, Origin, Polled, Problems, Site, TagSpec, What, Wire,
    WriteMode, load, load_text, profile_schema, site_schema,
};
use crate::{
    cli::check,
    codec::value::{Order, Scale},
    model::{Access, Kind},
    profile::modbus::{Point, Table},
};

mod values;

const NO_ENV: [(&str, &str); 0] = [];

fn file(path: &str) -> Result<Site, Problems> {
    load(Path::new(path), NO_ENV)
}

fn text(text: &str) -> Result<Site, Problems> {
    load_text(Path::new("config/test.toml"), text.to_owned(), NO_ENV)
}

/// A site whose one device has the tag that `tag` declares.
fn with_tag(tag: &str) -> String {
    format!(
        "[site]\nname = 'test'\n[[connections]]\nname = 'plc'\ndriver = 'modbus-tcp'\naddress = '10.0.0.1:502'\n\
         [[devices]]\nname = 'd'\nconnection = 'plc'\nunit_id = 1\n[[devices.tags]]\nname = 't'\n{tag}\n"
    )
}

fn modbus(device: &DeviceSpec) -> &ModbusDevice {
    let Wire::Modbus(device) = &device.wire else { panic!("a Modbus device") };
    device
}

fn point(site: &Site) -> &Point {
    &modbus(&site.connections[0].devices[0]).tags[0].source.point
}

/// Kept once for a hundred devices, a profile costs their memory once; but what a device sets for itself is its own.
#[test]
fn devices_of_one_profile_share_what_is_alike() {
    let device = |name: &str, rest: &str| {
        format!("[[devices]]\nname = '{name}'\nconnection = 'plc'\nprofile = 'demo/boiler'\n{rest}\n")
    };
    let site = text(&format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'plc'\ndriver = 'modbus-tcp'\naddress = '10.0.0.1:502'\n{}{}{}",
        device("one", "unit_id = 1"),
        device("slow", "unit_id = 2\nscan_ms = 9000\nbyte_order = 'CDAB'"),
        device("two", "unit_id = 3"),
    ))
    .unwrap();
    let [one, slow, two] = site.connections[0].devices.as_slice() else { panic!() };
    let [ones, slows, twos] = [one, slow, two].map(|device| &modbus(device).tags);
    for ((one, slow), two) in ones.iter().zip(slows).zip(twos) {
        let definition = |spec: &TagSpec<Polled>| Arc::as_ptr(&spec.tag.definition);
        let point = |spec: &TagSpec<Polled>| Arc::as_ptr(&spec.source.point);
        assert_eq!((definition(one), point(one)), (definition(two), point(two)), "{}", one.tag.path);
        assert_ne!(one.tag.path, two.tag.path);
        assert_ne!(definition(one), definition(slow), "{}", one.tag.path);
        assert_eq!(slow.tag.definition.stale_after, Some(Duration::from_secs(27)));
    }
    let order = |device: &DeviceSpec| {
        let mut tags = modbus(device).tags.iter();
        tags.find(|spec| spec.tag.definition.kind == Kind::Float32).unwrap().source.point.format.order
    };
    assert_eq!([one, slow, two].map(order), [Order::ABCD, Order::CDAB, Order::ABCD]);
}

fn folder(path: &str, extension: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path().display().to_string();
        if Path::new(&path).is_dir() {
            paths.extend(folder(&path, extension));
        } else if path.ends_with(extension) {
            paths.push(path);
        }
    }
    paths.sort();
    paths
}

#[test]
fn every_shipped_site_and_profile_loads() {
    for path in folder("config", ".toml") {
        file(&path).unwrap_or_else(|problems| panic!("{problems}"));
    }
    let mut names = Vec::new();
    for path in folder("devices", ".toml") {
        let document = super::Document::new(path.clone(), std::fs::read_to_string(&path).unwrap());
        let mut found = super::problem::Findings::default();
        let profile = crate::profile::parse(
            document,
            |file| std::fs::read(Path::new(&path).with_file_name(file)),
            &mut found,
        );
        assert_eq!(found.problems, [], "{path}");
        assert!(found.warnings.is_empty(), "{path}: {:?}", found.warnings);
        let profile = profile.unwrap();
        assert!(!profile.tags.is_empty() && !profile.description.is_empty(), "{path}");
        names.push(path.trim_start_matches("devices/").trim_end_matches(".toml").to_owned());
    }
    assert_eq!(
        crate::profile::embedded_names(),
        names,
        "touch src/profile/library.rs: a profile came or went"
    );
}

#[test]
fn the_example_site_means_what_it_says() {
    let site = file("config/boiler-house.toml").unwrap();
    assert_eq!(site.writes, WriteMode::Allow);
    assert_eq!(site.write_timeout, Duration::from_secs(5));
    let Endpoint::Modbus(ModbusEndpoint { transport, timeout, .. }) = &site.connections[0].endpoint else {
        panic!()
    };
    let address = transport.address();
    assert_eq!((address, *timeout), ("127.0.0.1:5020", Duration::from_secs(1)));
    let setpoint = &modbus(&site.connections[0].devices[0]).tags[6];
    assert_eq!(setpoint.tag.path.as_str(), "boiler/setpoint");
    assert_eq!(setpoint.tag.definition.access, Access::ReadWrite);
    assert_eq!(setpoint.tag.definition.limits.max, Some("95".parse().unwrap()));
    assert_eq!(setpoint.source.scan, Duration::from_millis(500));
    assert_eq!(setpoint.tag.definition.stale_after, Some(Duration::from_millis(1500)));
    assert_eq!(site, file("config/boiler-house.toml").unwrap());
    insta::assert_snapshot!("example_site", check::render(&site));
}

#[test]
fn warnings_and_merged_tags_are_listed() {
    let site = file("tests/cases/config/sites/warnings.toml").unwrap();
    insta::assert_snapshot!("warnings", check::render(&site));
}

#[test]
fn every_problem_comes_at_once() {
    let problems = file("tests/cases/config/sites/broken.toml").unwrap_err();
    insta::assert_snapshot!("broken_site", check::render_problems(&problems));
}

#[test]
fn errors_of_syntax_have_line_and_column() {
    let problems = file("tests/cases/config/sites/syntax.toml").unwrap_err();
    insta::assert_snapshot!("syntax", check::render_problems(&problems));
}

#[test]
fn a_missing_file_is_a_problem() {
    let problems = file("config/nowhere.toml").unwrap_err();
    assert!(matches!(problems.iter().next().unwrap().what, What::Unreadable(_)));
    insta::assert_snapshot!(
        text("").unwrap_err(),
        @"config/test.toml: site: missing: allowed is a table with name, writes, write"
    );
}

#[test]
fn the_environment_wins_for_site_and_server_only() {
    let base = std::fs::read_to_string("config/boiler-house.toml").unwrap();
    let with =
        |env: &[(&str, &str)]| load_text(Path::new("config/test.toml"), base.clone(), env.iter().copied());
    let site = with(&[
        ("FIELDBRIDGE__SITE__WRITES", "off"),
        ("FIELDBRIDGE__SITE__WRITE__TIMEOUT_MS", "3000"),
        ("FIELDBRIDGE__SERVER__HTTP", "[::1]:9000"),
        ("FIELDBRIDGE__SERVER__NOTIFY_MIN_MS", "250"),
        ("FIELDBRIDGE_OTHER", "x"),
        ("HOME", "/"),
    ])
    .unwrap();
    assert_eq!(site.writes, WriteMode::Off);
    assert_eq!(site.write_timeout, Duration::from_secs(3));
    assert_eq!(site.server.http, Some("[::1]:9000".parse().unwrap()));
    assert_eq!(site.server.notify_min, Duration::from_millis(250));
    let problems = with(&[
        ("FIELDBRIDGE__SITE__WRITES", "yes"),
        ("FIELDBRIDGE__SITE__NAM", "x"),
        ("FIELDBRIDGE__SITE__WRITE__TIMEOUT", "3"),
        ("FIELDBRIDGE__SERVER__NOTIFY_MIN_MS", "1.5"),
        ("FIELDBRIDGE__DEVICES__0__UNIT_ID", "3"),
        ("FIELDBRIDGE__SITE", "3"),
        ("FIELDBRIDGE__SERVR__HTTP", "127.0.0.1:1"),
    ])
    .unwrap_err();
    let deep = format!("FIELDBRIDGE__SITE{}", "__A".repeat(100_000));
    assert_eq!(with(&[(&deep, "x")]).unwrap_err().len(), 1);
    assert!(problems.iter().all(|problem| matches!(problem.origin, Origin::Variable(_))));
    insta::assert_snapshot!("environment", check::render_problems(&problems));
}

#[test]
fn decimals_are_those_that_were_written() {
    for (written, scale) in
        [("0.1", "0.1"), ("1e-6", "0.000001"), ("10", "10"), ("-0.10", "-0.1"), ("1_0.5", "10.5")]
    {
        let site = text(&with_tag(&format!(
            "register = {{ table = 'input', address = 0 }}\ntype = 'int16'\nscale = {written}"
        )))
        .unwrap();
        let point = &modbus(&site.connections[0].devices[0]).tags[0].source.point;
        let Scale::Linear { factor, .. } = point.format.scale else { panic!("{written}") };
        assert_eq!(factor.to_string(), scale, "{written}");
    }
    for refused in ["true", "'0.1'", "nan", "inf", "1e300", "1e-300", "0", "0.0", "[1]", "1979-05-27"] {
        let problems = text(&with_tag(&format!(
            "register = {{ table = 'input', address = 0 }}\ntype = 'int16'\nscale = {refused}"
        )))
        .unwrap_err();
        assert_eq!(problems.len(), 1, "{problems}");
        let problem = problems.iter().next().unwrap();
        assert_eq!(problem.key, "devices[0].tags[0].scale");
        assert_eq!(problem.value.as_deref(), Some(refused));
        assert!(matches!(problem.origin, Origin::File { line: Some(15), .. }), "{problem}");
    }
}

/// A number that its double does not tell is refused wherever one is taken, and never another number taken for it.
#[test]
fn numbers_with_more_digits_than_a_double_holds_are_refused() {
    let tag = |rest: &str| {
        let register = "register = { table = 'holding', address = 0 }";
        text(&with_tag(&format!("{register}\ntype = 'int32'\naccess = 'read-write'\n{rest}")))
    };
    for key in [
        "scale = #",
        "offset = #",
        "scaling = { raw = [0, 7], value = [0, #] }",
        "scaling = { raw = [0, #], value = [0, 7] }",
        "range = [0, #]",
        "deadband = #",
        "not_available = #",
        "not_available = [0, #]",
        "write = { min = # }",
        "write = { max = # }",
    ] {
        for number in
            ["1234567890.123456789", "1_234_567_890.1234567890e0", "0.30000000000000000001", "1e-400"]
        {
            let written = key.replace('#', number);
            let problems = tag(&written).unwrap_err();
            assert_eq!(problems.len(), 1, "{written}: {problems}");
            let problem = problems.iter().next().unwrap();
            assert!(problem.value.as_ref().is_some_and(|value| value.contains(number)), "{problem}");
            assert!(matches!(problem.origin, Origin::File { line: Some(16), .. }), "{problem}");
            assert!(problem.to_string().contains("at most 15 significant digits"), "{problem}");
        }
    }
    for key in ["scale", "offset", "deadband"] {
        for number in ["1234567890.12345", "0.300000", "+5.0e-1", "1e20", "123456789012345", "17.0E+00"] {
            assert!(tag(&format!("{key} = {number}")).is_ok(), "{key} {number}");
        }
    }
    // Whole numbers are exact, but where they become doubles.
    assert!(tag("offset = 9007199254740993").is_ok());
    assert!(tag("range = [0, 9007199254740993]").is_err() && tag("deadband = 9007199254740993").is_err());
    assert!(tag("range = [0, 9007199254740992]").is_ok());
}

#[test]
fn addresses_are_compared_in_one_spelling() {
    for (one, other) in [
        ("localhost:502", "127.0.0.1:502"),
        ("LocalHost.:502", "[::ffff:127.0.0.1]:0502"),
        ("PLC.plant:502", "plc.plant:502"),
        ("[0:0::1]:502", "[::1]:502"),
    ] {
        let site = format!(
            "[site]\nname = 'test'\n[[connections]]\nname = 'a'\ndriver = 'modbus-tcp'\naddress = '{one}'\n\
             [[connections]]\nname = 'b'\ndriver = 'modbus-tcp'\naddress = '{other}'\n"
        );
        let problems = text(&site).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems}");
        assert!(matches!(problems.iter().next().unwrap().what, What::Duplicate { .. }), "{problems}");
    }
    for wrong in [
        "10.0.0.1",
        "10.0.0.300:502",
        "10.0.0.1:0",
        "10.0.0.1:70000",
        "::1:502",
        "tcp://a:502",
        "a b:502",
        ":502",
    ] {
        let site = format!(
            "[site]\nname = 'test'\n[[connections]]\nname = 'a'\ndriver = 'modbus-tcp'\naddress = '{wrong}'\n"
        );
        assert!(text(&site).is_err(), "{wrong}");
    }
}

#[test]
fn a_site_that_serves_nothing_is_warned_of() {
    let site = "[site]\nname = 'test'\nwrites = 'confirm'\n[[connections]]\nname = 'a'\ndriver = 'modbus-tcp'\n\
                address = '10.0.0.1:502'\n";
    insta::assert_snapshot!(text(site).unwrap().warnings.join("\n"), @r"
    config/test.toml:2: site.name = 'test': the site has no device, so nothing is served
    config/test.toml:3: site.writes = 'confirm': nobody can confirm yet, so every write is refused
    config/test.toml:5: connections[0].name = 'a': no device uses this connection
    ");
}

proptest::proptest! {
    #[test]
    fn damaged_files_give_problems_and_no_panic(at in 0_usize..2000, length in 0_usize..40, with in "\\PC{0,6}") {
        let whole = std::fs::read_to_string("tests/cases/config/sites/warnings.toml").unwrap();
        let mut damaged: Vec<char> = whole.chars().collect();
        let start = at.min(damaged.len());
        let end = (start + length).min(damaged.len());
        damaged.splice(start..end, with.chars());
        if let Err(problems) = text(&damaged.into_iter().collect::<String>()) {
            assert!(!problems.is_empty());
        }
    }
}

/// One rule: `devices/` beside the folder that holds the site file, then the program's own.
#[test]
fn profiles_are_looked_for_beside_the_folder_of_the_site() {
    let model = |site: &str| {
        let text = "[site]\nname = 'x'\n[[connections]]\nname = 'c'\ndriver = 'modbus-tcp'\naddress = '10.0.0.1:502'\n\
                    [[devices]]\nname = 'd'\nconnection = 'c'\nunit_id = 1\nprofile = 'demo/boiler'\n";
        let site = load_text(Path::new(site), text.to_owned(), NO_ENV).unwrap();
        site.connections[0].devices[0].device.model.clone()
    };
    let root = std::env::temp_dir().join(format!("fieldbridge-profiles-{}", std::process::id()));
    let folder = root.join("devices/demo");
    std::fs::create_dir_all(&folder).unwrap();
    let shipped = std::fs::read_to_string("devices/demo/boiler.toml").unwrap();
    std::fs::write(folder.join("boiler.toml"), shipped.replace("Demo boiler", "Own boiler")).unwrap();
    assert_eq!(model(root.join("sites/site.toml").to_str().unwrap()), "Own boiler");
    assert_eq!(model(root.join("site.toml").to_str().unwrap()), "Demo boiler");
    assert_eq!(model("config/site.toml"), "Demo boiler");
    assert_eq!(model("site.toml"), "Demo boiler");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn quoted_keys_are_no_paths() {
    let problems = text("\"site.name\" = 'x'\n[site]\nname = 'y'\n").unwrap_err();
    insta::assert_snapshot!(
        problems,
        @r#"config/test.toml:1: "site.name" = 'x': unknown key: allowed are `site`, `server`, `connections`, `devices`"#
    );
}

#[test]
fn words_of_profiles_are_the_names_of_types() {
    use super::leaf::Words as _;
    assert!(Kind::WORDS.iter().all(|(word, kind)| *word == kind.name()));
    assert!(Table::WORDS.iter().all(|(word, table)| *word == table.name()));
    assert!(WriteMode::WORDS.iter().all(|(word, mode)| *word == mode.name()));
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    for (path, schema) in
        [("config/site.schema.json", site_schema()), ("config/profile.schema.json", profile_schema())]
    {
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(path, &schema).unwrap();
        }
        // As values: the order of keys depends on the features of serde_json that others switch on.
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            serde_json::from_str::<Json>(&committed).ok() == serde_json::from_str(&schema).ok(),
            "{path} is not what the types say: run `UPDATE_SCHEMAS=1 cargo test --lib committed_schemas` and commit it"
        );
    }
}

fn validator(schema: &str) -> jsonschema::Validator {
    let schema: Json = serde_json::from_str(schema).unwrap();
    assert!(jsonschema::meta::is_valid(&schema));
    jsonschema::validator_for(&schema).unwrap()
}

fn json(toml: &str) -> Json {
    serde_json::to_value(toml.parse::<toml::Table>().unwrap()).unwrap()
}

#[test]
fn the_schemas_take_what_the_readers_take() {
    let (site, profile) = (validator(&site_schema()), validator(&profile_schema()));
    for path in folder("config", ".toml")
        .into_iter()
        .chain(["warnings", "values"].map(|name| format!("tests/cases/config/sites/{name}.toml")))
    {
        let instance = json(&std::fs::read_to_string(&path).unwrap());
        let errors: Vec<String> = site.iter_errors(&instance).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
    }
    for path in folder("devices", ".toml") {
        let instance = json(&std::fs::read_to_string(&path).unwrap());
        let errors: Vec<String> = profile.iter_errors(&instance).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
    }
}

#[test]
fn the_schemas_refuse_what_the_readers_refuse() {
    let schema = validator(&site_schema());
    let tag = "register = { table = 'holding', address = 0 }\ntype = 'uint16'";
    assert!(schema.is_valid(&json(&with_tag(tag))));
    for (from, to) in [
        ("name = 'test'", "name = ''"),
        ("name = 'test'", "name = 1"),
        ("name = 'test'", "nam = 'test'"),
        ("name = 'test'", "name = 'test'\nwrites = 'on'"),
        ("name = 'test'", "name = 'test'\nwrite = { timeout_ms = 10.6 }"),
        ("unit_id = 1", "unit_id = 256"),
        ("unit_id = 1", "unit_id = '1'"),
        ("name = 'd'", "name = 'd d'"),
        ("'10.0.0.1:502'", "'10.0.0.1'"),
        ("'modbus-tcp'", "'modbus-udp'"),
        ("name = 't'", "name = 't/'"),
        ("name = 't'", "name = 't'\nunti = 'm'"),
        ("name = 't'", "name = 't'\nscale = 0"),
        ("name = 't'", "name = 't'\nscale = true"),
        ("name = 't'", "name = 't'\nrange = [1]"),
        ("name = 't'", "name = 't'\ndeadband = -1"),
        ("name = 't'", "name = 't'\nbyte_order = 'abcd'"),
        ("{ table = 'holding', address = 0 }", "40001"),
        ("address = 0 }", "address = 65536 }"),
        ("address = 0 }", "address = '40001' }"),
        ("address = 0 }", "address = 0, bit = 16 }"),
        ("address = 0 }", "address = 0, bits = [1] }"),
        ("address = 0 }", "address = 0, byte = 'left' }"),
        ("address = 0 }", "address = 0, reference = '40001' }"),
        ("{ table = 'holding', address = 0 }", "{ table = 'holding' }"),
        ("{ table = 'holding', address = 0 }", "{ reference = 40001 }"),
        ("{ table = 'holding', address = 0 }", "{ reference = '50001' }"),
        ("{ table = 'holding', address = 0 }", "{ reference = '4000001' }"),
        ("{ table = 'holding', address = 0 }", "{ reference = '40001.3' }"),
        ("'uint16'", "'word'"),
        ("'uint16'", "'uint16'\nswap = ['words']"),
        ("'uint16'", "'uint16'\ncount = 0"),
        ("'uint16'", "'text'\nlength = 251"),
        ("'uint16'", "'text'\nlength = 2\nencoding = 'ebcdic'"),
        ("'uint16'", "'uint16'\nscaling = { raw = [0, 1] }"),
        ("'uint16'", "'uint16'\nscaling = { raw = [0, 1], value = [0, 1], clamp = 1 }"),
        ("'uint16'", "'uint16'\nlabels = { x = 'on' }"),
        ("'uint16'", "'uint16'\nlabels = { 1 = '' }"),
        ("'uint16'", "'uint16'\nlabels = {}"),
        ("'uint16'", "'uint16'\nnot_available = 'FFFF'"),
        ("'uint16'", "'uint16'\nnot_available = [true]"),
        ("'uint16'", "'uint16'\naccess = 'read-write'\nwrite = { settle_ms = -1 }"),
    ] {
        let broken = with_tag(tag).replace(from, to);
        assert!(text(&broken).is_err(), "read: {to}");
        assert!(!schema.is_valid(&json(&broken)), "schema: {to}");
    }
}
