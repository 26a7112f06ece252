//! The families, stepped by hand.

use std::time::UNIX_EPOCH;

use super::*;
use crate::mqtt::model::{Message, Part, Publication};

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

fn now() -> SystemTime {
    UNIX_EPOCH + std::time::Duration::from_millis(1_767_225_601_880)
}

fn said(publications: &[Publication]) -> Vec<(&str, &str)> {
    publications.iter().map(|one| (one.message.topic.as_str(), one.message.text())).collect()
}

/// The JSON that was said to a topic, the last of several.
fn at(publications: &[Publication], topic: &str) -> Value {
    let found = publications.iter().rfind(|one| one.message.topic == topic).unwrap();
    serde_json::from_slice(&found.message.payload).unwrap()
}

fn order(model: &mut impl Model, topic: &str, payload: &str) -> Vec<Publication> {
    model.obey(&Message::new(topic, payload.to_owned()), now())
}

#[test]
fn every_family_can_be_made_and_says_its_status_first_and_last() {
    for (family, id, speaks, listens) in FAMILIES {
        let mut models = make(family, &Opening::default());
        assert_eq!(models[0].id(), *id);
        for model in &mut models {
            let birth = model.birth(now());
            assert_eq!(birth[0].part, Part::Status, "{family}");
            assert!(birth[0].message.retain, "{family}");
            let will = model.will().unwrap();
            assert!(will.retain && will.topic == birth[0].message.topic, "{family}");
            assert!(birth.iter().any(|one| one.part == Part::Value), "{family}");
            assert_eq!(model.farewell()[0].message.topic, will.topic, "{family}");
            for one in &birth {
                let topic = one.message.topic.as_str();
                let mut told = speaks.split(", ");
                assert!(told.any(|filter| mqtt5::topic_matches_filter(topic, filter)), "{topic}");
            }
        }
        let filters = models.iter().flat_map(Model::filters).collect::<Vec<_>>();
        for filter in &filters {
            assert!(mqtt5::is_valid_topic_filter(filter), "{filter}");
        }
        for told in listens.split(", ").filter(|listens| *listens != "nothing") {
            assert!(
                filters.iter().any(|filter| mqtt5::topic_matches_filter(told, filter) || filter == told),
                "{told}"
            );
        }
    }
    assert!(make("modbus", &Opening::default()).is_empty());
}

#[test]
fn the_same_steps_say_the_same() {
    for (family, ..) in FAMILIES {
        let run = || {
            let mut model = make(family, &Opening::default()).swap_remove(0);
            let mut all = model.birth(now());
            for _ in 0..20 {
                all.extend(model.beat(SECOND, now()));
            }
            all
        };
        assert_eq!(run(), run(), "{family}");
    }
}

#[test]
fn a_plug_speaks_as_tasmota_does() {
    let mut plug = Plug::new("shed");
    assert_eq!(plug.will().unwrap(), Message::new("tele/shed/LWT", "Offline").retained());
    assert_eq!(
        said(&plug.birth(now()))[..3],
        [("tele/shed/LWT", "Online"), ("stat/shed/RESULT", r#"{"POWER":"OFF"}"#), ("stat/shed/POWER", "OFF"),]
    );
    for (payload, word) in [("ON", "ON"), ("", "ON"), ("toggle", "OFF"), ("1", "ON"), ("bright", "ON")] {
        let answer = order(&mut plug, "cmnd/shed/POWER", payload);
        assert_eq!(said(&answer)[1], ("stat/shed/POWER", word), "{payload}");
    }
    let beat = plug.beat(SECOND, now());
    let sensor = at(&beat, "tele/shed/SENSOR");
    assert_eq!(sensor["Time"], "2026-01-01T00:00:01");
    assert!((45.0..=49.0).contains(&sensor["ENERGY"]["Power"].as_f64().unwrap()), "{sensor}");
    assert!((226.0..=230.0).contains(&sensor["ENERGY"]["Voltage"].as_f64().unwrap()), "{sensor}");
    assert_eq!(at(&beat, "tele/shed/STATE")["POWER"], "ON");
    let answer = order(&mut plug, "cmnd/shed/DIMMER", "5");
    assert_eq!(said(&answer), [("stat/shed/RESULT", r#"{"Command":"Unknown"}"#)]);
}

#[test]
fn a_bulb_takes_what_it_can_of_a_wish() {
    let mut bulb = Bulb::new("b");
    let birth = bulb.birth(now());
    assert_eq!(said(&birth)[0], ("zigbee2mqtt/b/availability", r#"{"state":"online"}"#));
    let state = at(&birth, "zigbee2mqtt/b");
    assert_eq!((&state["state"], &state["update"]["state"]), (&"OFF".into(), &"idle".into()));
    let answer = order(&mut bulb, "zigbee2mqtt/b/set", r#"{"state":"ON","brightness":255,"color_temp":200}"#);
    let state = at(&answer, "zigbee2mqtt/b");
    assert_eq!((state["brightness"].as_u64(), state["color_temp"].as_u64()), (Some(254), Some(200)));
    assert!(bulb.is_on());
    order(&mut bulb, "zigbee2mqtt/b/set", r#"{"brightness":0}"#);
    assert!(!bulb.is_on() && bulb.brightness() == 0);
    assert!(order(&mut bulb, "zigbee2mqtt/b/set", r#"{"state":"#).is_empty());
}

#[test]
fn a_switch_answers_requests_where_they_say() {
    let mut switch = Switch::new("pm-5");
    let request = |method: &str, params: &str| {
        format!(r#"{{"id":1,"src":"bridge-7","method":"{method}","params":{params}}}"#)
    };
    let answer = order(&mut switch, "pm-5/rpc", &request("Switch.Set", r#"{"id":0,"on":true}"#));
    let topics: Vec<_> = answer.iter().map(|one| one.message.topic.as_str()).collect();
    assert_eq!(topics, ["bridge-7/rpc", "pm-5/status/switch:0", "pm-5/events/rpc"]);
    assert_eq!(
        answer[0].message.text(),
        r#"{"dst":"bridge-7","id":1,"result":{"was_on":false},"src":"pm-5"}"#
    );
    let status = at(&answer, "pm-5/status/switch:0");
    assert_eq!((&status["output"], &status["source"]), (&true.into(), &"MQTT".into()));
    let notice = at(&answer, "pm-5/events/rpc");
    assert_eq!(notice["method"], "NotifyStatus");
    assert_eq!(notice["params"]["ts"], 1_767_225_601.88);
    assert_eq!(notice["params"]["switch:0"].get("voltage"), None, "only what has changed");

    for (method, params, code) in [
        ("Switch.Set", r#"{"id":0}"#, -103),
        ("Switch.Set", r#"{"id":3,"on":true}"#, -105),
        ("Cover.Open", "{}", 404),
    ] {
        let answer = order(&mut switch, "pm-5/rpc", &request(method, params));
        assert_eq!(at(&answer, "bridge-7/rpc")["error"]["code"], code);
        assert_eq!(answer.len(), 1);
    }
    let asked = Message {
        response_topic: Some("answers/1".into()),
        correlation: Some("c-9".into()),
        ..Message::new("pm-5/rpc", request("Switch.GetStatus", r#"{"id":0}"#))
    };
    let answer = switch.obey(&asked, now());
    assert_eq!(answer[0].message.topic, "answers/1");
    assert_eq!(answer[0].message.correlation.as_deref(), Some(&b"c-9"[..]));
    assert_eq!(at(&answer, "answers/1")["result"]["output"], true);
    order(&mut switch, "pm-5/command/switch:0", "off");
    assert!(!switch.is_on());
}

#[test]
fn a_node_describes_itself_before_it_is_ready() {
    let mut node = Node::new("boiler");
    let birth = node.birth(now());
    let said = said(&birth);
    assert_eq!(said.first(), Some(&("homie/boiler/$state", "init")));
    assert_eq!(said.last(), Some(&("homie/boiler/$state", "ready")));
    for expected in [
        ("homie/boiler/$homie", "4.0.0"),
        ("homie/boiler/tank/$properties", "temp,pump,mode"),
        ("homie/boiler/tank/temp/$format", "0:80"),
        ("homie/boiler/tank/temp", "48.25"),
        ("homie/boiler/tank/pump", "true"),
        ("homie/boiler/tank/mode", "eco"),
    ] {
        assert!(said.contains(&expected), "{expected:?}");
    }
    assert!(birth.iter().all(|one| one.message.retain && !one.message.payload.is_empty()));
    assert_eq!(node.farewell()[0].message.text(), "disconnected");
}

#[test]
fn a_node_echoes_what_it_took_only() {
    let mut node = Node::new("boiler");
    let mut set = |property: &str, payload: &str| {
        let answer = order(&mut node, &format!("homie/boiler/tank/{property}/set"), payload);
        answer.first().map(|one| one.message.text().to_owned())
    };
    assert_eq!(set("temp", "50").as_deref(), Some("50"));
    assert_eq!(set("pump", "false").as_deref(), Some("false"));
    assert_eq!(set("mode", "comfort").as_deref(), Some("comfort"));
    for (property, payload) in [("temp", "80.5"), ("temp", "nan"), ("pump", "ON"), ("mode", "turbo")] {
        assert_eq!(set(property, payload), None, "{property} {payload}");
    }
    assert_eq!((node.temp(), node.pump(), node.mode()), (50.0, false, "comfort"));
}

#[test]
fn a_meter_stamps_its_messages() {
    let mut meter = Meter::new("m");
    let first = at(&meter.birth(now()), "meters/m/data");
    assert_eq!((&first["ts"], &first["seq"]), (&"2026-01-01T00:00:01.880Z".into(), &0.into()));
    meter.set_behind(std::time::Duration::from_secs(3600));
    let second = at(&meter.beat(SECOND, now()), "meters/m/data");
    assert_eq!((&second["ts"], &second["seq"]), (&"2025-12-31T23:00:01.880Z".into(), &1.into()));
    assert_eq!(second["voltage_v"].as_array().unwrap().len(), 3);
}

#[test]
fn a_valve_travels_to_its_setpoint() {
    let mut valve = Valve::new("v");
    let answer = order(&mut valve, "valves/v/set", r#"{"position":72.5}"#);
    let state = at(&answer, "valves/v/state");
    assert_eq!(state.to_string(), r#"{"moving":true,"position":50.0,"setpoint":72.5}"#);
    let positions: Vec<_> = (0..6)
        .map(|_| at(&valve.beat(SECOND, now()), "valves/v/state")["position"].as_f64().unwrap())
        .collect();
    assert_eq!(positions, [55.0, 60.0, 65.0, 70.0, 72.5, 72.5]);
    for refused in ["101", "-1", "open", "", r#"{"position":"5"}"#] {
        let state = at(&order(&mut valve, "valves/v/set", refused), "valves/v/state");
        assert_eq!(state.to_string(), r#"{"moving":false,"position":72.5,"setpoint":72.5}"#, "{refused}");
    }
    order(&mut valve, "valves/v/set", "0");
    assert!((valve.setpoint() - 0.0).abs() < f64::EPSILON);
}

#[test]
fn a_valve_warms_its_room() {
    let opening = Opening::default();
    let mut valve = Valve::new("v").with_opening(opening.clone());
    let mut room = Climate::new("r").heated_by(opening);
    for (setpoint, expected) in [("100", 24.0), ("0", 18.0)] {
        order(&mut valve, "valves/v/set", setpoint);
        for _ in 0..600 {
            valve.beat(SECOND, now());
            room.beat(SECOND, now());
        }
        assert!((room.temperature() - expected).abs() < 0.05, "{}", room.temperature());
    }
    let state = at(&room.beat(SECOND, now()), "zigbee2mqtt/r");
    assert!((state["temperature"].as_f64().unwrap() - 18.0).abs() < 0.2, "{state}");
}
