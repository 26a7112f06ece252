//! What the tools and resources answer.

use serde_json::{Value as Json, json};

use super::{client::Pipes, plant::Plant};
use crate::{
    link::Host,
    model::{LinkState, Quality, Reason, Value},
};

/// A call's structured content, which its text must repeat.
fn content(result: &Json) -> Json {
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Json>(text).unwrap(), result["structuredContent"]);
    result["structuredContent"].clone()
}

#[tokio::test]
async fn values_leave_exact() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    plant.publish("boiler/frequency", Value::F32(49.98));
    plant.publish("boiler/energy", Value::U64(u64::MAX));
    plant.publish("boiler/temperature", Value::F64(30.3));
    let read = client.call("read_tags", json!({ "tags": ["boiler/*"] })).await;
    let text = read["content"][0]["text"].as_str().unwrap();
    for part in [
        r#"{"tag":"boiler/energy","value":"18446744073709551615","#,
        r#"{"tag":"boiler/frequency","value":49.98,"#,
        r#"{"tag":"boiler/temperature","value":30.3,"unit":"°C","quality":"good","source_time":""#,
        r#"{"tag":"boiler/setpoint","value":null,"unit":"°C","quality":"bad","reason":"never_read"}"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let energy =
        content(&read)["tags"].as_array().unwrap().iter().find(|row| row["tag"] == "boiler/energy").cloned();
    assert!(energy.unwrap()["age_ms"].is_u64());
    assert_eq!(read["isError"], false);
}

#[tokio::test]
async fn numbers_with_words_have_both_and_arrays_are_arrays() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    plant.publish("boiler/mode", Value::U64(1));
    plant.publish("boiler/curve", Value::Array([Value::F32(0.1), Value::F32(-2.5)].into()));
    let read = client.call("read_tags", json!({ "tags": ["boiler/mode", "boiler/curve"] })).await;
    let rows = content(&read)["tags"].clone();
    assert_eq!((&rows[0]["tag"], &rows[0]["value"]), (&json!("boiler/curve"), &json!([0.1, -2.5])));
    assert!(rows[0]["label"].is_null());
    assert_eq!((&rows[1]["value"], &rows[1]["label"]), (&json!(1), &json!("auto")));
    let listed = client.call("list_tags", json!({ "filter": "boiler/[mc]*" })).await;
    let rows = content(&listed)["tags"].clone();
    assert_eq!((&rows[0]["type"], &rows[0]["count"]), (&json!("float32"), &json!(2)));
    assert_eq!(rows[1]["labels"], json!({ "0": "off", "1": "auto" }));
    assert!(rows[1]["count"].is_null() && rows[0]["labels"].is_null());
    let resource = client.request("resources/read", json!({ "uri": "fieldbridge://tags/boiler/mode" })).await;
    let text = resource["result"]["contents"][0]["text"].as_str().unwrap();
    let tag: Json = serde_json::from_str(text).unwrap();
    assert_eq!(
        (&tag["value"], &tag["label"], &tag["labels"]["0"]),
        (&json!(1), &json!("auto"), &json!("off"))
    );
}

/// What a driver says beside a good value is its label; beside any other it says why.
#[tokio::test]
async fn a_detail_is_a_label_where_all_is_well() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    for (quality, label, detail) in [
        (Quality::Good, json!("warm"), Json::Null),
        (Quality::Bad(Reason::NotAvailable), Json::Null, json!("warm")),
    ] {
        plant.say("boiler/temperature", Value::F64(71.5), quality, "warm");
        let read = client.call("read_tags", json!({ "tags": ["boiler/temperature"] })).await;
        let row = content(&read)["tags"][0].clone();
        assert_eq!((&row["label"], &row["detail"]), (&label, &detail), "{row}");
    }
}

#[tokio::test]
async fn unknown_tags_do_not_fail_the_others() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    let read =
        client.call("read_tags", json!({ "tags": ["boiler/temprature", "boiler/setpoint", "x*"] })).await;
    assert_eq!(read["isError"], false);
    let answer = content(&read);
    assert_eq!(answer["tags"].as_array().unwrap().len(), 1);
    assert_eq!(
        answer["errors"],
        json!([
            { "tag": "boiler/temprature", "message": "no such tag; the nearest is boiler/temperature" },
            { "tag": "x*", "message": "no tag matches" }
        ])
    );
    let read = client.call("read_tags", json!({ "tags": ["zzz"] })).await;
    assert_eq!((&read["isError"], &content(&read)["tags"]), (&json!(true), &json!([])));
}

#[tokio::test]
async fn pages_follow_each_other_and_survive_a_reload() {
    let plant = Plant::new(250);
    let mut client = Pipes::open(&plant.mcp).await;
    for (tool, arguments) in [
        ("read_tags", json!({ "tags": ["many/*", "boiler/setpoint"] })),
        ("list_tags", json!({ "filter": "*" })),
        ("list_tags", json!({ "device": "many", "filter": "LINE-1", "limit": 7 })),
    ] {
        let (mut seen, mut arguments) = (Vec::new(), arguments);
        loop {
            let answer = content(&client.call(tool, arguments.clone()).await);
            seen.extend(
                answer["tags"].as_array().unwrap().iter().map(|row| row["tag"].as_str().unwrap().to_owned()),
            );
            if answer["next_cursor"].is_null() {
                break;
            }
            arguments["cursor"] = answer["next_cursor"].clone();
            plant.reload(250);
        }
        assert!(seen.is_sorted(), "{tool}");
        let expected = match (tool, arguments["device"].as_str()) {
            ("read_tags", _) => 251,
            (_, Some(_)) => 250,
            _ => 256,
        };
        assert_eq!(seen.len(), expected, "{tool}");
    }
}

#[tokio::test]
async fn tags_and_devices_are_listed() {
    let plant = Plant::new(10);
    let mut client = Pipes::open(&plant.mcp).await;
    let listed = content(&client.call("list_tags", json!({ "writable": true })).await);
    assert_eq!(
        listed,
        json!({ "writes": "allow", "total": 1, "tags": [{
            "tag": "boiler/setpoint", "description": "What boiler/setpoint measures", "type": "uint16", "unit": "°C",
            "access": "read-write", "range": [0.0, 150.0], "min": "20", "max": "95" }] })
    );
    let listed = content(&client.call("list_devices", json!({})).await);
    let devices = listed["devices"].as_array().unwrap();
    let names = devices.iter().map(|device| device["device"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, ["boiler", "many", "spare"]);
    assert_eq!(devices[1]["tags"], json!({ "good": 0, "uncertain": 0, "bad": 10 }));
    assert_eq!((&devices[1]["link"], &devices[1]["state"]), (&json!("connected"), &json!("waiting")));
    let listed = client.call("list_tags", json!({ "device": "boilr" })).await;
    assert_eq!(listed["isError"], true);
    assert!(content(&listed)["error"].as_str().unwrap().contains("the nearest is `boiler`"));
    let page = content(&client.call("list_devices", json!({ "limit": 1 })).await);
    let page = content(&client.call("list_devices", json!({ "cursor": page["next_cursor"] })).await);
    assert_eq!(page["devices"][0]["device"], "many");
}

#[tokio::test]
async fn writes_say_how_they_ended() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    plant.publish("boiler/setpoint", Value::F64(60.0));
    for value in [json!(72.5), json!("72.5")] {
        let written = client.call("write_tag", json!({ "tag": "boiler/setpoint", "value": value })).await;
        assert_eq!(written["isError"], false);
        assert_eq!(
            content(&written),
            json!({ "tag": "boiler/setpoint", "outcome": "confirmed", "requested": 72.5, "value": 72.5,
                "previous": 60.0, "unit": "°C", "acknowledged_by": "device", "message": "read back equal" })
        );
    }
    let dry =
        client.call("write_tag", json!({ "tag": "boiler/setpoint", "value": 50, "dry_run": true })).await;
    assert_eq!((&dry["isError"], &content(&dry)["outcome"]), (&json!(false), &json!("dry_run")));
    for (arguments, rule) in [
        (json!({ "tag": "boiler/setpoint", "value": 96 }), "limits"),
        (json!({ "tag": "boiler/setpoint", "value": "warm" }), "type"),
        (json!({ "tag": "boiler/setpoint", "value": true }), "type"),
        (json!({ "tag": "boiler/temperature", "value": 50 }), "access"),
        (json!({ "tag": "boiler/nothing", "value": 50 }), "tag"),
        (json!({ "tag": "boiler/setpoint" }), "arguments"),
        (json!({ "value": 50 }), "arguments"),
        (json!({ "tag": "boiler/setpoint", "value": 50, "dryRun": true }), "arguments"),
    ] {
        let rejected = client.call("write_tag", arguments.clone()).await;
        let answer = content(&rejected);
        assert_eq!(
            (&rejected["isError"], &answer["rule"]),
            (&json!(true), &json!(rule)),
            "{arguments} {answer}"
        );
        assert_eq!(answer["outcome"], "rejected");
    }
    assert_eq!(*plant.written.lock(), [Value::F64(72.5), Value::F64(72.5)]);
}

#[tokio::test]
async fn of_pipelined_writes_the_last_one_wins() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    for round in 0..200 {
        for (id, value) in [(2 * round, 30), (2 * round + 1, 40)] {
            let arguments = json!({ "tag": "boiler/setpoint", "value": value });
            let params = json!({ "name": "write_tag", "arguments": arguments });
            client
                .send(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
                .await;
        }
        for _ in 0..2 {
            let answer = client.receive().await;
            let outcome = &answer["result"]["structuredContent"]["outcome"];
            assert!(outcome == "confirmed" || answer["id"] == 2 * round, "{answer}");
        }
        assert_eq!(plant.written.lock().last(), Some(&Value::F64(40.0)), "round {round}");
    }
}

#[tokio::test]
async fn resources_show_states_and_what_a_tag_is() {
    let plant = Plant::new(120);
    let mut client = Pipes::open(&plant.mcp).await;
    let read = async |client: &mut Pipes, uri: &str| -> Json {
        let answer = client.request("resources/read", json!({ "uri": uri })).await;
        assert_eq!(answer["result"]["contents"][0]["mimeType"], "application/json", "{answer}");
        serde_json::from_str(answer["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
    };
    let tag = read(&mut client, "fieldbridge://tags/boiler/setpoint").await;
    assert_eq!(
        tag,
        json!({ "tag": "boiler/setpoint", "value": null, "unit": "°C", "quality": "bad", "reason": "never_read",
            "description": "What boiler/setpoint measures", "type": "uint16", "access": "read-write",
            "range": [0.0, 150.0], "min": "20", "max": "95" })
    );
    let device = read(&mut client, "fieldbridge://devices/many").await;
    assert_eq!(device["first_tags"].as_array().unwrap().len(), 50);
    assert_eq!(device["tags"], json!({ "good": 0, "uncertain": 0, "bad": 120 }));
    let next = &device["next"];
    let page = content(&client.call(next["tool"].as_str().unwrap(), next["arguments"].clone()).await);
    assert_eq!(page["tags"][0]["tag"], "many/line-1/t00050");
    let device = read(&mut client, "fieldbridge://devices/spare").await;
    assert_eq!((&device["first_tags"], device.get("next")), (&json!([]), None));
    for (uri, nearest) in [
        ("fieldbridge://tags/boiler/temprature", "fieldbridge://tags/boiler/temperature"),
        ("fieldbridge://devices/boilr", "fieldbridge://devices/boiler"),
        ("file:///etc/passwd", "fieldbridge://tags/{+path}"),
    ] {
        let answer = client.request("resources/read", json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(nearest), "{answer}");
        let answer = client.request("resources/subscribe", json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
}

#[tokio::test]
async fn a_device_is_updated_on_a_change_of_state_only() {
    let plant = Plant::new(0);
    let mut client = Pipes::open(&plant.mcp).await;
    let uri = "fieldbridge://devices/boiler";
    client.request("resources/subscribe", json!({ "uri": uri })).await;
    plant.publish("boiler/temperature", Value::F64(1.0));
    plant.link.state(LinkState::BackingOff, Some("connection refused"));
    assert_eq!(client.receive().await["params"]["uri"], uri);
    let answer = content(&client.call("list_devices", json!({})).await);
    assert_eq!(answer["devices"][0]["link_detail"], "connection refused");
    let read = content(&client.call("read_tags", json!({ "tags": ["boiler/temperature"] })).await);
    assert_eq!(read["tags"][0]["value"], 1.0);
    assert_eq!(read["tags"][0]["reason"], "not_connected");
    assert!(client.finish().await.0.is_empty(), "one change, one notification");
}
