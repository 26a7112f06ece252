//! Reads and writes against the simulated PLC.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fieldbridge::{
    control::WriteRequest,
    model::{Outcome, Party, Quality, Reason, Rule, Value},
};
use simulators::modbus::{Server, Tables};

use crate::plant::Plant;

fn local() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn plc() -> Server {
    let mut tables = Tables::new();
    tables.set_holdings(10, &[650]);
    tables.set_inputs(0, &[234]);
    Server::start(local(), [(1, tables)]).unwrap()
}

fn boiler(address: SocketAddr) -> String {
    format!(
        r#"
        [site]
        name = "test"
        writes = "allow"
        [[connections]]
        name = "plc"
        driver = "modbus-tcp"
        address = "{address}"
        timeout_ms = 300
        [[devices]]
        name = "boiler"
        connection = "plc"
        unit_id = 1
        scan_ms = 20
        [[devices.tags]]
        name = "temperature"
        register = {{ table = "input", address = 0 }}
        type = "int16"
        scale = 0.1
        [[devices.tags]]
        name = "setpoint"
        register = {{ table = "holding", address = 10 }}
        type = "uint16"
        scale = 0.1
        access = "read-write"
        write = {{ min = 20.0, max = 95.0 }}
        "#
    )
}

#[tokio::test]
async fn a_write_is_confirmed_by_what_the_device_holds() {
    let plc = plc();
    let plant = Plant::start(&boiler(plc.local_addr()));
    assert_eq!(plant.until_good("boiler/temperature").await.sample.value, Value::F64(23.4));
    plant.until_good("boiler/setpoint").await;
    let report = plant.write("boiler/setpoint", "71.26").await;
    assert_eq!(report.outcome, Outcome::Confirmed);
    assert_eq!((report.requested, report.value), (Some(Value::F64(71.26)), Some(Value::F64(71.3))));
    assert_eq!((report.previous, report.acknowledged_by), (Some(Value::F64(65.0)), Some(Party::Device)));
    assert_eq!(plc.handle().unit(1).unwrap().holding(10), Some(713));
    assert_eq!(
        plant.value("boiler/setpoint"),
        Value::F64(71.3),
        "read back into the store before the answer"
    );
    assert_eq!(plc.handle().writes().len(), 1);
    plant.app.stop().await;
}

#[tokio::test]
async fn what_is_rejected_never_reaches_the_wire() {
    let plc = plc();
    let plant = Plant::start(&boiler(plc.local_addr()));
    plant.until_good("boiler/setpoint").await;
    assert_eq!(plant.write("boiler/setpoint", "95.1").await.outcome, Outcome::Rejected(Rule::Limits));
    assert_eq!(plant.write("boiler/temperature", "50").await.outcome, Outcome::Rejected(Rule::Access));
    let request = WriteRequest { expect: Some("66".into()), ..plant.request("boiler/setpoint", "70") };
    let report = Arc::clone(plant.app.control()).write(request).await;
    assert_eq!(
        (report.outcome, report.value),
        (Outcome::Rejected(Rule::Expectation), Some(Value::F64(65.0)))
    );
    assert_eq!(plc.handle().writes().len(), 0);
    plant.app.stop().await;
}

#[tokio::test]
async fn a_stopped_plc_makes_tags_bad_until_they_are_read_again() {
    let plc = plc();
    let (address, handle) = (plc.local_addr(), plc.handle().clone());
    let plant = Plant::start(&boiler(address));
    let before = plant.until_good("boiler/temperature").await;
    plc.stop().await;
    let lost = plant.until("boiler/temperature", |r| r.sample.quality != Quality::Good).await;
    assert_eq!(lost.sample.quality, Quality::Bad(Reason::NotConnected));
    assert_eq!(lost.sample.value, Value::F64(23.4));
    assert!(lost.sample.source_time >= before.sample.source_time);
    assert_eq!(plant.write("boiler/setpoint", "70").await.outcome, Outcome::NotSent);

    handle.unit(1).unwrap().set_inputs(0, &[235]);
    let plc = Server::serve(address, &handle).unwrap();
    assert_eq!(plant.until_good("boiler/temperature").await.sample.value, Value::F64(23.5));
    assert_eq!(plc.handle().writes().len(), 0, "nothing is sent late");
    plant.app.stop().await;
}

#[tokio::test]
async fn a_silent_device_makes_a_write_unknown_and_it_is_not_repeated() {
    let plc = plc();
    let plant = Plant::start(&boiler(plc.local_addr()));
    plant.until_good("boiler/setpoint").await;
    let unit = plc.handle().unit(1).unwrap();
    unit.silence(true);
    let report = plant.write("boiler/setpoint", "70").await;
    assert_eq!(report.outcome, Outcome::Unknown, "{}", report.message);
    let silent =
        plant.until("boiler/setpoint", |r| r.sample.quality.reason() == Some(Reason::DeviceSilent)).await;
    assert_eq!(silent.sample.value, Value::F64(65.0));
    unit.silence(false);
    plant.until_good("boiler/setpoint").await;
    assert_eq!(plc.handle().writes().len(), 1);
    plant.app.stop().await;
}

#[tokio::test]
async fn many_writes_end_with_the_one_that_arrived_last() {
    let plc = plc();
    let plant = Plant::start(&boiler(plc.local_addr()));
    plant.until_good("boiler/setpoint").await;
    for pair in 0..50 {
        // Stamped in order, but started the other way round.
        let [first, second] = ["30", "40"].map(|value| plant.request("boiler/setpoint", value));
        let control = Arc::clone(plant.app.control());
        let second = tokio::spawn({
            let control = Arc::clone(&control);
            async move { control.write(second).await }
        });
        tokio::task::yield_now().await;
        let first = control.write(first).await;
        assert_eq!(second.await.unwrap().outcome, Outcome::Confirmed);
        let late =
            first.outcome == Outcome::Rejected(Rule::Superseded) || first.outcome == Outcome::Confirmed;
        assert!(late, "pair {pair}: {first:?}");
        assert_eq!(plc.handle().unit(1).unwrap().holding(10), Some(400), "pair {pair}");
    }
    plant.app.stop().await;
}

#[tokio::test]
async fn the_deadline_of_a_write_is_kept_behind_a_slow_device() {
    let plc = plc();
    let site = boiler(plc.local_addr()).replace("max = 95.0", "max = 95.0, timeout_ms = 200");
    let plant = Plant::start(&site.replace("timeout_ms = 300", "timeout_ms = 1000"));
    plant.until_good("boiler/setpoint").await;
    let unit = plc.handle().unit(1).unwrap();
    let before = unit.requests();
    unit.delay(Duration::from_millis(600));
    unit.wait_for(|unit| unit.requests() > before).await;
    // A poll is under way and will not be answered before the deadline: the write never leaves.
    let report = plant.write("boiler/setpoint", "70").await;
    assert_eq!(report.outcome, Outcome::NotSent, "{}", report.message);
    unit.delay(Duration::ZERO);
    let polled = unit.requests();
    unit.wait_for(|unit| unit.requests() > polled + 2).await;
    assert_eq!(plc.handle().writes().len(), 0);
    plant.app.stop().await;
}

#[tokio::test]
async fn the_function_that_writes_is_the_one_that_the_profile_names() {
    let mut tables = Tables::new();
    tables.set_holdings(0, &[0; 8]);
    tables.set_coils(0, &[false; 8]);
    let plc = Server::start(local(), [(1, tables)]).unwrap();
    let tag = |name: &str, table: &str, address: u16, kind: &str, write: &str| {
        format!(
            "[[devices.tags]]\nname = \"{name}\"\nregister = {{ table = \"{table}\", address = {address} }}\n\
             type = \"{kind}\"\naccess = \"read-write\"\nwrite = {{ {write} }}\n"
        )
    };
    let site = boiler(plc.local_addr());
    let (head, _) = site.split_once("[[devices.tags]]").unwrap();
    let plant = Plant::start(
        &(head.to_owned()
            + &tag("coil", "coil", 0, "bool", "")
            + &tag("coils", "coil", 1, "bool", "function = \"multiple\"")
            + &tag("word", "holding", 0, "uint16", "function = \"single\"")
            + &tag("words", "holding", 1, "uint16", "function = \"multiple\"")
            + &tag("long", "holding", 2, "uint32", "")),
    );
    for (name, value, function) in
        [("coil", "on", 5), ("coils", "on", 15), ("word", "7", 6), ("words", "7", 16), ("long", "70000", 16)]
    {
        let path = format!("boiler/{name}");
        plant.until_good(&path).await;
        let report = plant.write(&path, value).await;
        assert_eq!(report.outcome, Outcome::Confirmed, "{name}: {}", report.message);
        assert_eq!(plc.handle().writes().last().unwrap().function, function, "{name}");
    }
    assert_eq!(plc.handle().unit(1).unwrap().holding(3), Some(4464));
    plant.app.stop().await;
}
