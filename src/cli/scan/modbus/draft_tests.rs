//! Drafts are profiles that our own reader takes, and no file is lost to one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;

use super::{super::report::tests::survey, *};
use crate::{
    cli::scan::file::{DraftError, Drafts},
    config::{DeviceSpec, Wire, load},
    drivers::modbus::scan::survey::Identity,
    model::Access,
};

/// A device with the draft as its profile, as a site has it.
fn device(text: &str) -> DeviceSpec {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("devices/scan")).unwrap();
    fs::create_dir(folder.path().join("config")).unwrap();
    fs::write(folder.path().join("devices/scan/draft.toml"), text).unwrap();
    let site = "[site]\nname = 'x'\n[[connections]]\nname = 'c'\ndriver = 'modbus-tcp'\naddress = '10.0.0.1:502'\n\
                [[devices]]\nname = 'd'\nconnection = 'c'\nunit_id = 1\nprofile = 'scan/draft'\n";
    let file = folder.path().join("config/site.toml");
    fs::write(&file, site).unwrap();
    let site = load(&file, [("", ""); 0]).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(site.warnings.is_empty(), "{:?}", site.warnings);
    site.connections.first().unwrap().devices.first().unwrap().clone()
}

#[test]
fn a_draft_of_each_unit_is_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let survey = survey();
    let drafts = Drafts::claim(folder.path().join("pump.toml"), "unit").unwrap();
    let files = drafts.write(&all(&survey)).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    // Of unit 20 nothing is known.
    assert_eq!(names, ["pump-unit-1.toml", "pump-unit-17.toml"]);
    let [first, second] = [0, 1].map(|at| fs::read_to_string(files.get(at).unwrap()).unwrap());
    let meter = device(&first);
    assert_eq!((meter.device.vendor.as_str(), meter.device.model.as_str()), ("Acme", "Flow meter"));
    let Wire::Modbus(unit) = &meter.wire else { panic!("a Modbus device") };
    assert_eq!((unit.tags.len(), unit.dialect.reads.max_registers), (TAGS, 32));
    assert!(meter.tags().iter().all(|tag| tag.definition.access == Access::ReadOnly));
    insta::assert_snapshot!(
        "draft_head",
        first.split("\n[[tags]]").take(3).collect::<Vec<_>>().join("\n[[tags]]")
    );
    assert_eq!(device(&second).tags().len(), 5);
    insta::assert_snapshot!("draft_pairs", second);
}

#[test]
fn a_draft_of_one_unit_has_the_name_that_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let mut survey = survey();
    survey.units.truncate(1);
    let file = folder.path().join("pump.toml");
    let drafts = Drafts::claim(file.clone(), "unit").unwrap();
    assert_eq!(drafts.write(&all(&survey)).unwrap(), std::slice::from_ref(&file));
    let told = drafts.write(&all(&survey)).unwrap_err().to_string();
    assert!(
        told.ends_with(
            "pump.toml is there already and is not overwritten: allowed is the name of a new file"
        )
    );
    assert!(matches!(Drafts::claim(file, "unit"), Err(DraftError::Exists(_))));
}

#[test]
fn names_that_would_fail_at_the_end_fail_at_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pump-unit-3.toml"), "kept").unwrap();
    assert!(matches!(Drafts::claim(folder.path().join("pump.toml"), "unit"), Err(DraftError::Exists(_))));
    let nowhere = folder.path().join("nowhere").join("x.toml");
    assert!(matches!(Drafts::claim(nowhere, "unit"), Err(DraftError::Folder(..))));
    assert!(matches!(Drafts::claim(folder.path().join(".."), "unit"), Err(DraftError::Exists(_))));
}

#[test]
fn whatever_a_device_says_of_itself_is_quoted() {
    let mut survey = survey();
    let found = survey.units.first_mut().unwrap();
    found.identity = Identity([(0, "a\"b\\c'''".to_owned()), (1, "\u{fffd} # x".to_owned())].into());
    let meter = device(&render(found)).device;
    assert_eq!((meter.vendor.as_str(), meter.model.as_str()), ("a\"b\\c'''", "\u{fffd} # x"));
}
