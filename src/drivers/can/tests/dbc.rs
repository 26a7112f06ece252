//! Messages of DBC files: last frames, multiplexers and J1939.

use super::*;
use crate::model::{Outcome, Rule};

const HEAD: &str = "VERSION \"\"\nNS_ :\nBS_:\nBU_: A B\n";

/// A site whose one device has a DBC file.
pub(super) fn site_of(dbc: &str, profile: &str, connection: &str, device: &str) -> Site {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("devices/x")).unwrap();
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("devices/x/x.dbc"), format!("{HEAD}{dbc}")).unwrap();
    let profile = format!(
        "protocol = 'can'\nvendor = 'x'\nmodel = 'x'\ndbc = 'x.dbc'\nall_signals = true\n{profile}\n"
    );
    std::fs::write(folder.path().join("devices/x/x.toml"), profile).unwrap();
    let text = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'bus'\ndriver = 'can-virtual'\ninterface = 'a'\n{connection}\n[[devices]]\n\
         name = 'd'\nconnection = 'bus'\nprofile = 'x/x'\n{device}"
    );
    load_text(&folder.path().join("config/x.toml"), text, [("", ""); 0])
        .unwrap_or_else(|problems| panic!("{problems}"))
}

const DRIVE: &str = "BO_ 513 Command: 4 A\n SG_ Enable : 0|1@1+ (1,0) [0|1] \"\" B\n SG_ Counter : 4|4@1+ (1,0) [0|15] \"\" B\n\
                     \x20SG_ Speed : 8|16@1- (0.5,0) [-3000|3000] \"rpm\" B\n SG_ Crc : 24|8@1+ (1,0) [0|255] \"\" B\n\
                     BA_DEF_ SG_ \"GenSigStartValue\" FLOAT 0 100;\nBA_DEF_DEF_ \"GenSigStartValue\" 0;\n\
                     BA_ \"GenSigStartValue\" SG_ 513 Speed 10;\nVAL_ 513 Enable 0 \"stop\" 1 \"run\" ;\n";

const CYCLIC: &str = "[[messages]]\nmessage = 'Command'\ncounter = { signal = 'Counter' }\nchecksum = { signal = 'Crc', method = 'sum' }\n\
                      send = { period_ms = 100, limit_ms = 250, stop = { Enable = 'stop', Speed = 0 } }\n\
                      [[tags]]\nname = 'enable'\nsignal = 'Command.Enable'\naccess = 'read-write'\n\
                      [[tags]]\nname = 'speed'\nsignal = 'Command.Speed'\naccess = 'read-write'\n";

#[tokio::test(start_paused = true)]
async fn the_last_frame_is_sent_when_the_time_of_a_message_is_over() {
    let mut rig = Rig::start(site_of(DRIVE, CYCLIC, "send_ids = ['201']", ""), 100).await;
    let report = rig.write("enable", Value::U64(1));
    assert_eq!(rig.carry().await, "201#010A000B", "beside the initial value of the file");
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    assert_eq!(rig.carry().await, "201#110A001B");
    assert_eq!(rig.carry().await, "201#210A002B");
    let begin = Instant::now();
    assert_eq!(rig.carry().await, "201#30000030");
    assert_eq!(begin.elapsed().as_millis(), 50);
    rig.good("speed", Value::F64(0.0)).await;
    rig.good("enable", Value::U64(0)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(rig.is_quiet());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_frame_is_sent_when_the_program_stops() {
    let mut rig = Rig::start(site_of(DRIVE, CYCLIC, "send_ids = ['201']", ""), 100).await;
    let report = rig.write("enable", Value::U64(1));
    rig.carry().await;
    report.await.unwrap();
    rig.ask_to_stop();
    assert_eq!(rig.carry().await, "201#10000010");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_frame_is_sent_as_soon_as_there_is_room() {
    let mut rig = Rig::start(site_of(DRIVE, CYCLIC, "send_ids = ['201']", ""), 1).await;
    let report = rig.write("enable", Value::U64(1));
    assert_eq!(rig.carry().await, "201#010A000B");
    report.await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    rig.trouble(|told| told.is_some_and(|told| told.contains("no room"))).await;
    assert_eq!(rig.carry().await, "201#110A001B", "all that had room");
    assert_eq!(rig.carry().await, "201#20000020");
    rig.trouble(|told| told.is_none()).await;
    rig.good("enable", Value::U64(0)).await;

    let report = rig.write("enable", Value::U64(1));
    rig.carry().await;
    report.await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    rig.ask_to_stop();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.carry().await, "201#41000041");
    assert_eq!(rig.carry().await, "201#50000050");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_renews_the_time_of_a_message() {
    let mut rig = Rig::start(site_of(DRIVE, CYCLIC, "send_ids = ['201']", ""), 100).await;
    let report = rig.write("enable", Value::U64(1));
    rig.carry().await;
    report.await.unwrap();
    tokio::time::sleep(Duration::from_millis(90)).await;
    let begin = Instant::now();
    let report = rig.write("speed", Value::F64(50.0));
    assert_eq!(rig.carry().await, "201#11640075");
    report.await.unwrap();
    for expected in ["201#21640085", "201#31640095"] {
        assert_eq!(rig.carry().await, expected);
    }
    assert_eq!(rig.carry().await, "201#40000040");
    assert_eq!(begin.elapsed().as_millis(), 250);
    rig.stop().await;
}

const PAGES: &str = "BO_ 256 Pages: 8 A\n SG_ Page M : 0|8@1+ (1,0) [0|3] \"\" B\n SG_ One m1 : 8|8@1+ (1,0) [0|200] \"\" B\n\
                     \x20SG_ Two m2 : 8|8@1+ (1,0) [0|200] \"\" B\n SG_ Also m2 : 16|8@1+ (1,0) [0|200] \"\" B\n\
                     BA_DEF_ BO_ \"GenMsgCycleTime\" INT 0 1000;\nBA_DEF_DEF_ \"GenMsgCycleTime\" 0;\n\
                     BA_ \"GenMsgCycleTime\" BO_ 256 100;\n";

#[tokio::test(start_paused = true)]
async fn a_multiplexer_is_set_for_what_is_written_behind_it() {
    let tags = ["Page", "One", "Two", "Also"]
        .map(|name| format!("[[tags]]\nname = '{name}'\nsignal = 'Pages.{name}'\naccess = 'read-write'\n"));
    let profile = format!("[[messages]]\nmessage = 'Pages'\nsend = {{}}\n{}", tags.concat());
    let site = site_of(PAGES, &profile, "send_ids = ['100']", "");
    let mut rig = Rig::start(site, 100).await;
    let report = rig.write("Two", Value::U64(7));
    assert_eq!(rig.carry().await, "100#0207000000000000");
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    let reports = rig.write_all(&[("Two", Value::U64(8), Ok(())), ("Also", Value::U64(9), Ok(()))]);
    assert_eq!(rig.carry().await, "100#0208090000000000");
    for report in reports {
        report.await.unwrap();
    }
    let reports = rig.write_all(&[("One", Value::U64(1), Ok(())), ("Two", Value::U64(2), Ok(()))]);
    let mut outcomes = Vec::new();
    for report in reports {
        outcomes.push(report.await.unwrap().outcome);
    }
    assert!(outcomes.contains(&Outcome::Rejected(Rule::Companions)), "{outcomes:?}");
    let reports = rig.write_all(&[("Page", Value::U64(3), Ok(())), ("Two", Value::U64(2), Ok(()))]);
    for report in reports {
        assert!(!report.await.unwrap().outcome.is_success());
    }
    assert!(rig.is_quiet());
    rig.stop().await;
}

#[test]
fn pages_take_turns_so_what_is_on_them_may_be_older() {
    let site = site_of(PAGES, "", "", "");
    let device = site.connections.first().unwrap().devices.first().unwrap();
    let ages =
        device.tags().iter().map(|tag| tag.definition.stale_after.unwrap().as_millis()).collect::<Vec<_>>();
    assert_eq!(ages, [300, 600, 600, 600]);
}

const ENGINE: &str = "BO_ 2364540158 EEC1: 8 A\n SG_ Torque : 16|8@1+ (1,-125) [-125|125] \"%\" B\n\
                      \x20SG_ Speed : 24|16@1+ (0.125,0) [0|8031.875] \"rpm\" B\nBO_ 2348810494 TSC1: 8 B\n\
                      \x20SG_ Mode : 0|2@1+ (1,0) [0|3] \"\" A\n SG_ Wanted : 8|16@1+ (0.125,0) [0|8031.875] \"rpm\" A\n\
                      BO_ 2566834942 Long: 20 A\n SG_ Last : 152|8@1+ (1,0) [0|250] \"\" B\n\
                      BA_DEF_ BO_ \"VFrameFormat\" ENUM \"StandardCAN\",\"ExtendedCAN\",\"reserved\",\"J1939PG\";\n\
                      BA_DEF_DEF_ \"VFrameFormat\" \"J1939PG\";\n";

#[tokio::test(start_paused = true)]
async fn parameter_groups_are_known_by_their_sender() {
    let rig = Rig::start(site_of(ENGINE, "", "", "source_address = 5"), 100).await;
    rig.hear("0CF00400#FFFFFF0010FFFFFF").await;
    rig.hear("18F00405#FFFF964020FFFFFF").await;
    rig.good("EEC1/Speed", Value::F64(1032.0)).await;
    rig.good("EEC1/Torque", Value::F64(25.0)).await;
    rig.hear("0CF00405#FFFFFFFFFFFFFFFF").await;
    rig.quality("EEC1/Speed", Quality::Bad(Reason::NotAvailable)).await;
    rig.hear("0CF00405#FFFFFE00FEFFFFFF").await;
    rig.quality("EEC1/Speed", Quality::Bad(Reason::DeviceError)).await;
    rig.quality("EEC1/Torque", Quality::Bad(Reason::DeviceError)).await;
    // A group with a destination, whoever that is.
    rig.hear("0C00AB05#FE0010FFFFFFFFFF").await;
    rig.good("TSC1/Wanted", Value::F64(512.0)).await;
    // A message of three packets.
    for text in [
        "1CECFF05#201400 03FFCA FE00".replace(' ', ""),
        "1CEBFF05#01000102030405 06".replace(' ', ""),
        "1CEBFF05#0207080910111213".to_owned(),
        "1CEBFF05#03141516171819FF".to_owned(),
    ] {
        rig.hear(&text).await;
    }
    rig.good("Long/Last", Value::U64(0x19)).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_parameter_group_is_sent_from_our_address_to_the_device() {
    let profile = "[[messages]]\nmessage = 'TSC1'\nsend = {}\n[[tags]]\nname = 'wanted'\nsignal = 'TSC1.Wanted'\naccess = 'read-write'\n";
    let connection = "source_address = 33\nsend_ids = ['0C000521']";
    let mut rig = Rig::start(site_of(ENGINE, profile, connection, "source_address = 5"), 100).await;
    let report = rig.write("wanted", Value::F64(800.0));
    assert_eq!(rig.carry().await, "0C000521#FF0019FFFFFFFFFF", "what is not written is not available");
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    rig.good("wanted", Value::F64(800.0)).await;
    rig.stop().await;
}
