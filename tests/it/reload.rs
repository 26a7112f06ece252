//! Reloads: what changed restarts, what did not goes on, and answers stay right.

use fieldbridge::model::{Outcome, Quality, Reason, Rule, Value};
use simulators::modbus::{Server, Tables};

use crate::plant::{Plant, site};

fn plc(first: u16) -> Server {
    let mut tables = Tables::new();
    tables.set_holdings(0, &[first, first + 1]);
    Server::start(([127, 0, 0, 1], 0).into(), [(1, tables)]).unwrap()
}

fn two(first: &Server, second: &Server, tags: &str) -> String {
    let (first, second) = (first.local_addr(), second.local_addr());
    format!(
        r#"
        [site]
        name = "test"
        writes = "allow"
        [[connections]]
        name = "one"
        driver = "modbus-tcp"
        address = "{first}"
        [[connections]]
        name = "two"
        driver = "modbus-tcp"
        address = "{second}"
        [[devices]]
        name = "left"
        connection = "one"
        unit_id = 1
        scan_ms = 20
        [[devices.tags]]
        name = "a"
        register = {{ table = "holding", address = 0 }}
        type = "uint16"
        [[devices]]
        name = "right"
        connection = "two"
        unit_id = 1
        scan_ms = 20
        {tags}
        "#
    )
}

fn tag(name: &str, address: u16) -> String {
    format!(
        "[[devices.tags]]\nname = \"{name}\"\nregister = {{ table = \"holding\", address = {address} }}\n\
         type = \"uint16\"\naccess = \"read-write\"\n"
    )
}

#[tokio::test]
async fn tags_that_change_places_answer_right_and_the_rest_goes_on() {
    let (one, two_plc) = (plc(100), plc(200));
    let text = two(&one, &two_plc, &(tag("b", 0) + &tag("c", 1)));
    let mut plant = Plant::start(&text);
    assert_eq!(plant.until_good("left/a").await.sample.value, Value::U64(100));
    assert_eq!(plant.until_good("right/b").await.sample.value, Value::U64(200));
    assert_eq!(plant.until_good("right/c").await.sample.value, Value::U64(201));
    let left = plant.app.store().catalogue().tag("left/a").unwrap().id;

    let text = two(&one, &two_plc, &(tag("b", 1) + &tag("c", 0)));
    plant.app.reload(site(&text)).await;
    let moved = plant.read("right/b").sample;
    assert!(
        moved.value == Value::U64(201)
            || (moved.value, moved.quality) == (Value::Null, Quality::Bad(Reason::NeverRead)),
        "the register's former value is not shown"
    );
    assert_eq!(plant.read("left/a").sample.quality, Quality::Good, "undisturbed");
    assert_eq!(plant.app.store().catalogue().tag("left/a").unwrap().id, left);
    assert_eq!(plant.until_good("right/b").await.sample.value, Value::U64(201));
    assert_eq!(plant.until_good("right/c").await.sample.value, Value::U64(200));
    assert_eq!(plant.write("right/b", "7").await.outcome, Outcome::Confirmed);
    assert_eq!(two_plc.handle().unit(1).unwrap().holding(1), Some(7));
    assert_eq!((one.handle().accepted(), two_plc.handle().accepted()), (1, 2));
    plant.app.stop().await;
}

#[tokio::test]
async fn an_unchanged_tag_keeps_its_value_over_a_restart_of_its_connection() {
    let (one, two_plc) = (plc(100), plc(200));
    let mut plant = Plant::start(&two(&one, &two_plc, &(tag("b", 0) + &tag("c", 1))));
    plant.until_good("right/b").await;
    two_plc.handle().unit(1).unwrap().silence(true);
    plant.app.reload(site(&two(&one, &two_plc, &tag("b", 0)))).await;
    let kept = plant.read("right/b").sample;
    assert_eq!((kept.value, kept.quality), (Value::U64(200), Quality::Bad(Reason::NotConnected)));
    assert!(plant.app.store().catalogue().tag("right/c").is_none());
    assert!(plant.write("right/c", "7").await.message.contains("no tag `right/c`"));
    two_plc.handle().unit(1).unwrap().silence(false);
    plant.until_good("right/b").await;
    plant.app.stop().await;
}

#[tokio::test]
async fn new_limits_hold_at_once_and_disturb_nothing() {
    let (one, two_plc) = (plc(100), plc(200));
    let text = two(&one, &two_plc, &tag("b", 0));
    let mut plant = Plant::start(&text);
    plant.until_good("right/b").await;
    assert_eq!(plant.write("right/b", "300").await.outcome, Outcome::Confirmed);
    plant.app.reload(site(&(text + "write = { max = 250 }\n"))).await;
    assert_eq!(plant.read("right/b").sample.quality, Quality::Good);
    assert_eq!(plant.write("right/b", "300").await.outcome, Outcome::Rejected(Rule::Limits));
    assert_eq!(plant.write("right/b", "250").await.outcome, Outcome::Confirmed);
    assert_eq!(two_plc.handle().accepted(), 1, "the connection went on");
    plant.app.stop().await;
}
