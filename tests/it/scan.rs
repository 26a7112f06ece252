//! `fieldbridge scan` as a program, against simulated PLCs and a broker.

use std::{collections::BTreeSet, path::Path, process::Output};

use simulators::{
    boiler, meter,
    modbus::{Handle, Server},
    mqtt::{Broker, Device, Message, Settings, family::Plug},
};
use tokio::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fieldbridge");

async fn scan(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["scan", "modbus"]).args(arguments).env_remove("RUST_LOG").output().await.unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The boiler as unit 1; nothing moves, since nobody lets time pass.
fn boiler() -> Server {
    Server::start(([127, 0, 0, 1], 0).into(), [(boiler::UNIT, boiler::tables())]).unwrap()
}

/// The function codes that reached any unit.
fn functions(handle: &Handle) -> BTreeSet<u8> {
    let reached = |function: &u8| (0..=u8::MAX).any(|unit| handle.count(unit, *function) > 0);
    (0..=u8::MAX).filter(reached).collect()
}

#[tokio::test]
async fn the_boiler_is_found_by_reads_alone() {
    let server = boiler();
    let address = server.local_addr().to_string();
    let folder = tempfile::tempdir().unwrap();
    let draft = folder.path().join("boiler.toml");
    let connection = format!("tcp://{address}");
    let output = scan(&[
        "--connection",
        &connection,
        "--addresses",
        "0-63",
        "--units",
        "0-3,255",
        "--rate",
        "1000",
        "--draft",
        draft.to_str().unwrap(),
    ])
    .await;
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("boiler", stdout(&output).replace(&address, "(address)"));
    assert_eq!(functions(server.handle()), BTreeSet::from([1, 2, 3, 4, 43]));
    assert!(server.handle().writes().is_empty());
    let profile = std::fs::read_to_string(&draft).unwrap();
    assert_eq!(profile.matches("[[tags]]").count(), 12);
    // It is what the site of a plant can use.
    check(folder.path(), &profile, &address).await;
    // The draft is somebody's work by now.
    let asked = server.handle().requests();
    let again = scan(&["--connection", &connection, "--draft", draft.to_str().unwrap()]).await;
    assert!(stderr(&again).contains("is there already and is not overwritten"), "{}", stderr(&again));
    assert_eq!((again.status.code(), server.handle().requests()), (Some(1), asked));
    server.stop().await;
}

/// RTU frames, and a unit that says what it is.
#[tokio::test]
async fn the_meter_is_found_behind_a_serial_server() {
    let handle = Handle::new([(meter::UNIT, meter::tables())]);
    meter::prepare(&handle.unit(meter::UNIT).unwrap());
    let server = Server::rtu_over_tcp(([127, 0, 0, 1], 0).into(), &handle).unwrap();
    let address = server.local_addr().to_string();
    let output = scan(&[
        "--connection",
        &format!("rtu-tcp://{address}"),
        "--units",
        &meter::UNIT.to_string(),
        "--tables",
        "input,holding",
        "--addresses",
        "0-39",
        "--rate",
        "1000",
    ])
    .await;
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = stdout(&output).replace(&address, "(address)");
    // What the meter measures is no matter of this test.
    let shown: Vec<&str> = shown.lines().map(|row| row.split("29     ").next().unwrap().trim_end()).collect();
    insta::assert_snapshot!("meter", shown.join("\n"));
    assert_eq!(functions(&handle), BTreeSet::from([3, 4, 43]));
    server.stop().await;
}

/// Has `fieldbridge check` look at a site whose only device has the profile.
async fn check(folder: &Path, profile: &str, address: &str) {
    std::fs::create_dir_all(folder.join("devices/draft")).unwrap();
    std::fs::create_dir(folder.join("config")).unwrap();
    std::fs::write(folder.join("devices/draft/boiler.toml"), profile).unwrap();
    let site = folder.join("config/site.toml");
    let text = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'plc'\ndriver = 'modbus-tcp'\naddress = '{address}'\n\
         timeout_ms = 2000\n[[devices]]\nname = 'd'\nconnection = 'plc'\nunit_id = 1\nprofile = 'draft/boiler'\n"
    );
    std::fs::write(&site, text).unwrap();
    let output = Command::new(PROGRAM).arg("check").arg("--config").arg(&site).output().await.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("12 tags (0 writable)"), "{}", stdout(&output));
    // The connection of the site can be scanned by its name.
    let site = site.to_str().unwrap();
    let output = scan(&["--config", site, "--connection", "plc", "--units", "1", "--addresses", "0-1"]).await;
    assert!(stdout(&output).starts_with("UNIT"), "{}", stderr(&output));
    let output = scan(&["--config", site, "--connection", "plk"]).await;
    assert!(
        stderr(&output).contains("no connection is named `plk`: allowed is `plc`"),
        "{}",
        stderr(&output)
    );
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_ends_it_and_shows_what_was_found() {
    let mut tables = simulators::modbus::Tables::new();
    tables.set_holdings(0, &[0x1234; 3000]);
    let server = Server::start(([127, 0, 0, 1], 0).into(), [(7, tables)]).unwrap();
    let child = Command::new(PROGRAM)
        .args(["scan", "modbus", "--units", "7", "--tables", "holding", "--rate", "20"])
        .args(["--addresses", "0-65535", "--connection"])
        .arg(format!("tcp://{}", server.local_addr()))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    server.handle().wait_for(|handle| handle.count(7, 3) >= 5).await;
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    let output = child.wait_with_output().await.unwrap();
    let shown = stdout(&output);
    assert!(shown.contains("1234 1234 1234 1234 …"), "{shown}");
    assert!(shown.contains("-65535 were not looked at"), "{shown}");
    assert!(shown.ends_with("not all was looked at\n"), "{shown}");
    assert_eq!(output.status.code(), Some(1));
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_argument_is_told_with_what_is() {
    let mut told = Vec::new();
    for arguments in [
        &["--connection", "plc"][..],
        &["--connection", "rtu:///dev/ttyUSB0?parity=mark"],
        &["--connection", "tcp://127.0.0.1:502", "--units", "1-300"],
        &["--connection", "tcp://127.0.0.1:502", "--tables", "coils"],
        &["--connection", "tcp://127.0.0.1:502", "--addresses", "10-1"],
        &["--connection", "tcp://127.0.0.1:502", "--rate", "0"],
        &["--connection", "rtu-tcp://127.0.0.1:502", "--units", "0-3"],
    ] {
        let output = scan(arguments).await;
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
        let errors = stderr(&output);
        let error = errors.lines().filter(|line| line.contains("fieldbridge:") || line.contains("error:"));
        told.push(format!("{}\n  {}", arguments.join(" "), error.collect::<Vec<_>>().join("\n  ")));
    }
    insta::assert_snapshot!("arguments", told.join("\n"));
    let output = scan(&["--connection", "rtu:///dev/no-such-port"]).await;
    assert!(stderr(&output).contains("/dev/no-such-port: no such serial port"), "{}", stderr(&output));
    assert!(!output.status.success() && output.stdout.is_empty());
}

async fn scan_mqtt(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["scan", "mqtt"]).args(arguments).env_remove("RUST_LOG").output().await.unwrap()
}

/// Devices of two families at a broker, of which the site knows one.
#[tokio::test]
async fn topics_are_found_at_a_broker_and_become_drafts() {
    let broker = Broker::start(([127, 0, 0, 1], 0).into()).await.unwrap();
    let device = Device::start(&broker.url(), Plug::new("shed"), Settings::by_hand());
    device.wait_for(Device::connected).await;
    for name in ["plug_3", "plug_4"] {
        let state = Message::new(format!("zigbee2mqtt/{name}"), r#"{"state":"ON","power":4.5}"#);
        device.publish(state.retained()).await.unwrap();
    }
    broker.handle().wait_for(|broker| broker.retained("zigbee2mqtt/plug_4").is_some()).await;
    let before = broker.handle().published();
    let folder = tempfile::tempdir().unwrap();
    let draft = folder.path().join("plug.toml");
    let address = format!("mqtt://{}", broker.local_addr());
    let arguments = ["--connection", &address, "--filter", "zigbee2mqtt/{device}", "--seconds", "1"];
    let output = scan_mqtt(&[&arguments[..], &["--draft", draft.to_str().unwrap()]].concat()).await;
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("mqtt", stdout(&output));
    insta::assert_snapshot!("mqtt_draft", std::fs::read_to_string(&draft).unwrap());
    assert_eq!(broker.handle().published(), before, "it publishes nothing");
    let output = scan_mqtt(&["--connection", &address, "--filter", "a/{b"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a/{b"), "{}", stderr(&output));
    broker.stop().await;
    let output = scan_mqtt(&["--connection", &address]).await;
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert!(stderr(&output).contains("refused"), "{}", stderr(&output));
}
