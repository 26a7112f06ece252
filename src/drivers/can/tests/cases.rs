//! Cases C02, C04, C06, C08, C10 and C12, vector by vector: through profile, driver and tags.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::*;
use crate::{config::Problems, model::Setpoint};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/");

fn vectors(operation: &str) -> Vec<Json> {
    let cases: Json = serde_json::from_str(include_str!("../../../../tests/cases/cases.json")).unwrap();
    let vectors = cases["vectors"].as_array().unwrap().iter();
    vectors.filter(|vector| vector["proto"] == "can" && vector["op"] == operation).cloned().collect()
}

fn text<'a>(vector: &'a Json, key: &str) -> &'a str {
    vector[key].as_str().unwrap_or_else(|| panic!("{vector}: {key}"))
}

/// A site whose one device has all signals of a DBC file, and what else the profile says.
fn with_dbc(dbc: &str, profile: &str, connection: &str) -> Result<Site, Problems> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("devices/x")).unwrap();
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    std::fs::copy(format!("{FOLDER}{dbc}"), folder.path().join("devices/x/x.dbc")).unwrap();
    let profile = format!(
        "protocol = 'can'\nvendor = 'x'\nmodel = 'x'\ndbc = 'x.dbc'\nall_signals = true\n{profile}\n"
    );
    std::fs::write(folder.path().join("devices/x/x.toml"), profile).unwrap();
    let text = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'bus'\ndriver = 'can-virtual'\ninterface = 'a'\n{connection}\n[[devices]]\n\
         name = 'd'\nconnection = 'bus'\nprofile = 'x/x'\n"
    );
    load_text(&folder.path().join("config/x.toml"), text, [("", ""); 0])
}

/// A signal of a vector as the tag that it is.
fn tag_of(name: &str, names: &[String]) -> String {
    let ending = match name {
        "Same(901).X" => "d/Same-901/X".to_owned(),
        "Same(902).X" => "d/Same-902/X".to_owned(),
        name => format!("/{}", name.replace("[m", "-m").replace(']', "")),
    };
    let fits = names.iter().filter(|own| own.ends_with(&ending)).collect::<Vec<_>>();
    // Two messages of one file have a signal of this name: the vectors are about the first.
    fits.first().unwrap_or_else(|| panic!("{name} of {names:?}")).trim_start_matches("d/").to_owned()
}

/// Waits until nothing is left to do.
async fn idle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

#[tokio::test(start_paused = true)]
async fn frames_are_decoded_as_the_field_cases_say() {
    let vectors = vectors("decode-frame");
    assert_eq!(vectors.len(), 30);
    for vector in vectors {
        let id = text(&vector, "id").to_owned();
        let rig = Rig::start(with_dbc(text(&vector, "dbc"), "", "").unwrap(), 10).await;
        rig.hear(text(&vector, "candump")).await;
        idle().await;
        let updates = rig.told.updates.lock().unwrap().clone();
        let told = updates.into_iter().filter(|update| update.value.is_some());
        let mut told = told.map(|update| (update.tag, update)).collect::<BTreeMap<_, _>>();
        let Some(expected) = vector["expected"].as_object() else {
            assert!(told.is_empty() && rig.counters.dropped.load(Ordering::Relaxed) == 1, "{id}");
            continue;
        };
        for (name, value) in expected {
            let tag = rig.tag(&tag_of(name, &rig.names));
            let update = told.remove(&tag).unwrap_or_else(|| panic!("{id}: {name}"));
            let got = update.value.unwrap();
            let Some(value) = value.as_f64() else {
                assert!(got == Value::Null && update.quality != Quality::Good, "{id}: {name}");
                continue;
            };
            assert_eq!(got.as_f64(), Some(value), "{id}: {name}");
            if let Some(text) = vector["expected_text"][name].as_str() {
                assert_eq!(got.to_string(), text, "{id}: {name}");
            }
            match vector["labels"][name].as_str() {
                Some(label) => assert_eq!(update.detail.as_deref(), Some(label), "{id}: {name}"),
                None if update.quality == Quality::Good => assert_eq!(update.detail, None, "{id}: {name}"),
                None => {}
            }
        }
        if let Some(also) = vector["also"].as_object() {
            for name in also.keys() {
                told.remove(&rig.tag(&tag_of(name, &rig.names)));
            }
        }
        assert!(told.is_empty(), "{id}: nothing but {expected:?} was in the frame, not {told:?}");
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_outside_the_range_of_a_scaled_signal_is_a_bad_value() {
    let rig = Rig::start(with_dbc("files/C06_values.dbc", "", "").unwrap(), 10).await;
    rig.hear("280#0102FFFF03000000").await;
    let open = rig.quality("Drive/Temp", Quality::Bad(Reason::OutOfRange)).await;
    assert_eq!((open.value, open.detail.as_deref()), (Some(Value::F64(6503.5)), Some("sensor open")));
    rig.stop().await;
}

/// The payload that a write to one signal sends, or why it cannot be.
async fn sent(dbc: &str, signal: &str, value: &Json) -> Result<String, String> {
    let message = ["Drive", "DoubleExt", "Zero", "Odd"].into_iter().find(|message| {
        std::fs::read_to_string(format!("{FOLDER}{dbc}")).unwrap().contains(&format!(" {message}: 8"))
            && (*message != "Drive" || dbc.contains("C06"))
    });
    let message = message.unwrap();
    let profile = format!(
        "[[messages]]\nmessage = '{message}'\nsend = {{}}\n[[tags]]\nname = 'x'\nsignal = '{message}.{signal}'\naccess = \
         'read-write'\n"
    );
    let connection = "send_ids = ['000-7FF', '00000000-1FFFFFFF']";
    let site = with_dbc(dbc, &profile, connection).map_err(|problems| problems.to_string())?;
    let device = site.connections.first().unwrap().devices.first().unwrap();
    let Wire::Can(device) = &device.wire else { panic!("CAN") };
    let spec = device.tags.iter().find(|spec| spec.tag.path.as_str() == "d/x").unwrap();
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let accepted = spec.source.signal.accept(&text).map_err(|refusal| refusal.to_string())?;
    let mut rig = Rig::start(site, 10).await;
    let report = rig.write("x", accepted.effective);
    let frame = rig.carry().await;
    assert!(report.await.unwrap().outcome.is_success());
    rig.stop().await;
    Ok(frame.split_once('#').unwrap().1.to_owned())
}

#[tokio::test(start_paused = true)]
async fn frames_are_encoded_as_the_field_cases_say() {
    let vectors = vectors("encode-frame");
    assert_eq!(vectors.len(), 6);
    for vector in vectors {
        let id = text(&vector, "id");
        let (signal, value) = vector["write"].as_object().unwrap().iter().next().unwrap();
        let got = sent(text(&vector, "dbc"), signal, value).await;
        if let Some(error) = vector["expect_error"].as_str() {
            let got = got.unwrap_err();
            let word =
                if error.starts_with("factor 0") { "factor 0 cannot be written" } else { "0 = Neutral" };
            assert!(got.contains(word), "{id}: {got}");
            continue;
        }
        let got = got.unwrap();
        if let Some(data) = vector["expected_data_hex"].as_str() {
            assert_eq!(got, data, "{id}");
        }
        if let Some(prefix) = vector["expected_data_prefix"].as_str() {
            assert!(got.starts_with(prefix), "{id}: {got}");
        }
        if let Some(mask) = vector["expected_data_hex_mask"].as_str() {
            let fits = mask.chars().zip(got.chars()).all(|(mask, got)| mask == '?' || mask == got);
            assert!(fits && mask.len() == got.len(), "{id}: {got}");
        }
    }
}

#[test]
fn files_load_as_the_field_cases_say() {
    let site = with_dbc("files/C06_odd_lines.dbc", "", "").unwrap();
    let tags = |site: &Site| {
        let device = site.connections.first().unwrap().devices.first().unwrap();
        device.tags().iter().map(|tag| tag.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(tags(&site), ["d/Drive/Gear", "d/Drive/Alarm", "d/Drive/Temp", "d/Drive/Empty", "d/After/G"]);
    // Without the folder, which is another each time.
    let warnings = |site: &Site| {
        let warnings =
            site.warnings.iter().map(|warning| warning.split_once("/x/x.toml").unwrap().1.to_owned());
        warnings.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("odd_lines", warnings(&site));
    let site = with_dbc("files/C08_independent.dbc", "", "").unwrap();
    assert_eq!((tags(&site), site.warnings), (vec!["d/Real/Level".to_owned()], Vec::new()));
    let site = with_dbc("files/C12_duplicates.dbc", "", "").unwrap();
    insta::assert_snapshot!("duplicates", format!("{}\n\n{}", tags(&site).join("\n"), warnings(&site)));
}
