//! Drafts are profiles that our own reader takes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;

use super::*;
use crate::{
    cli::scan::mqtt::report::tests::heard,
    codec::topic::Pattern,
    config::{DeviceSpec, load},
};

/// A device with the draft as its profile, as a site has it.
fn device(text: &str, captures: &str) -> DeviceSpec {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("devices/scan")).unwrap();
    fs::create_dir(folder.path().join("config")).unwrap();
    fs::write(folder.path().join("devices/scan/draft.toml"), text).unwrap();
    let site = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'c'\ndriver = 'mqtt'\naddress = '10.0.0.1:1883'\n\
         [[devices]]\nname = 'd'\nconnection = 'c'\nprofile = 'scan/draft'\n{captures}\n"
    );
    let file = folder.path().join("config/site.toml");
    fs::write(&file, site).unwrap();
    let site = load(&file, [("", ""); 0]).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    site.connections.first().unwrap().devices.first().unwrap().clone()
}

#[test]
fn a_draft_of_each_kind_of_device_is_a_profile() {
    let filters =
        ["zigbee2mqtt/{device}/#", "{prefix}/{device}/POWER"].map(|text| Pattern::parse(text).unwrap());
    let devices = Devices::of(&heard(), &filters);
    let drafts = all(&devices);
    let names: Vec<_> = drafts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["plug_3", "thermo", "stat_shed"]);
    for (_, text) in &drafts {
        let captures = text.lines().find_map(|line| line.strip_prefix("#   ")).unwrap();
        device(text, captures);
    }
    let shown = drafts.iter().map(|(name, text)| format!("=== {name}\n{text}")).collect::<Vec<_>>();
    insta::assert_snapshot!("drafts", shown.join("\n"));
}

#[test]
fn without_names_all_topics_are_one_draft() {
    let devices = Devices::of(&heard(), &[Pattern::parse("#").unwrap()]);
    let drafts = all(&devices);
    let [(_, text)] = &drafts[..] else { panic!("one draft") };
    let spec = device(text, "");
    assert!(spec.tags().iter().any(|tag| tag.path.to_string() == "d/stat/shed/POWER"), "{text}");
}
