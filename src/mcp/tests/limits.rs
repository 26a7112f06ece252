//! Case D05: what real clients can take, with few tags and with many.

use std::collections::HashSet;

use serde_json::{Value as Json, json};

use super::{client::Pipes, plant::Plant};
use crate::model::Value;

const TOOLS: [&str; 5] = ["list_devices", "list_tags", "read_tags", "write_tag", "write_tags"];

async fn tools(many: usize) -> Json {
    let plant = Plant::new(many);
    let mut client = Pipes::open(&plant.mcp).await;
    client.request("tools/list", json!({})).await["result"].take()
}

fn check_input(schema: &Json, path: &str) {
    let object = schema.as_object().unwrap();
    for keyword in object.keys() {
        let known = ["type", "properties", "required", "items", "description", "minimum", "maximum", "enum"];
        assert!(known.contains(&keyword.as_str()), "{path}: {keyword}");
    }
    assert!(schema["type"].is_string(), "{path}: one type");
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.iter().all(Json::is_string) && values.len() < 20, "{path}");
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let good = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        assert!((1..=64).contains(&name.len()) && name.chars().all(good), "{path}.{name}");
        assert!(property["description"].is_string(), "{path}.{name}: a description");
        check_input(property, &format!("{path}.{name}"));
    }
    if !schema["items"].is_null() {
        check_input(&schema["items"], &format!("{path}[]"));
    }
}

#[tokio::test]
async fn the_tools_are_few_plain_and_do_not_depend_on_the_tags() {
    let listed = tools(10).await;
    assert_eq!(listed, tools(5000).await, "the same list, in the same order");
    assert!(listed.to_string().len() < 32 * 1024);
    let tools = listed["tools"].as_array().unwrap();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(names, TOOLS);
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert!(name.len() <= 40 && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(tool["title"].is_string() && tool["description"].as_str().unwrap().len() < 1024, "{name}");
        let input = &tool["inputSchema"];
        assert_eq!(input["type"], "object", "{name}");
        assert!(input["properties"].is_object(), "{name}");
        check_input(input, name);
        let read_only = !name.starts_with("write_tag");
        let hints = &tool["annotations"];
        assert_eq!(hints["readOnlyHint"], read_only, "{name}");
        assert_eq!(hints["destructiveHint"], !read_only, "{name}");
        assert_eq!(hints["idempotentHint"], true, "{name}");
        assert!(hints["openWorldHint"].is_boolean(), "{name}");
        let output = &tool["outputSchema"];
        assert_eq!(output["type"], "object", "{name}");
        jsonschema::validator_for(output).expect("a schema");
    }
    for (tool, fields) in [(3, ["requested", "value", "previous"].as_slice()), (2, &["value"])] {
        let mut properties = &tools[tool]["outputSchema"]["properties"];
        if tool == 2 {
            properties = &properties["tags"]["items"]["properties"];
        }
        for field in fields {
            let field = properties[*field].as_object().unwrap();
            assert_eq!(field.keys().collect::<Vec<_>>(), ["description"]);
        }
    }
}

#[tokio::test]
async fn the_name_is_short_and_so_are_the_instructions() {
    let plant = Plant::new(10);
    let mut client = Pipes::new(&plant.mcp);
    client.send(super::client::INITIALIZE).await;
    let result = client.receive().await["result"].take();
    assert_eq!(result["serverInfo"]["name"], "fieldbridge");
    let lines = result["instructions"].as_str().unwrap().lines().count();
    assert!(lines <= 15, "{lines}");
    assert_eq!(result["capabilities"]["resources"], json!({ "subscribe": true, "listChanged": true }));
}

/// Calls that go well and calls that do not.
fn calls() -> Vec<(&'static str, Json)> {
    let (long, endless) = ("x".repeat(300), "x".repeat(100_000));
    let hundred = (0..100).map(|n| format!("boiler/nothing-{n}-{}", "y".repeat(60))).collect::<Vec<_>>();
    vec![
        ("list_devices", json!({})),
        ("list_devices", json!({ "limit": 0 })),
        ("list_devices", json!({ "cursor": "tag:a/b" })),
        ("list_tags", json!({})),
        ("list_tags", json!({ "limit": 1000 })),
        ("list_tags", json!({ "device": "boiler", "filter": "temp", "writable": false })),
        ("list_tags", json!({ "filter": "[" })),
        ("list_tags", json!({ "device": long })),
        ("list_tags", json!({ "cursor": 7 })),
        ("read_tags", json!({ "tags": ["*"] })),
        ("read_tags", json!({ "tags": ["*"], "limit": 1000 })),
        ("read_tags", json!({ "tags": ["boiler/temperature", "nothing"] })),
        ("read_tags", json!({ "tags": hundred })),
        ("read_tags", json!({ "tags": [] })),
        ("read_tags", json!({ "tags": ["{a"] })),
        ("read_tags", json!({ "tags": ["*"], "cursor": "next" })),
        ("read_tags", json!({})),
        ("read_tags", json!({ "tag": "boiler/temperature" })),
        ("write_tag", json!({ "tag": "boiler/setpoint", "value": "50" })),
        (
            "write_tag",
            json!({ "tag": "boiler/setpoint", "value": 50.25, "dry_run": true, "reason": "a try" }),
        ),
        ("write_tag", json!({ "tag": "boiler/setpoint", "value": 500 })),
        ("write_tag", json!({ "tag": "boiler/energy", "value": 50 })),
        ("write_tag", json!({ "tag": "nothing", "value": 50 })),
        ("write_tag", json!({ "tag": 7, "value": 50 })),
        ("write_tag", json!({ "tag": endless, "value": 50 })),
        ("write_tag", json!({ "tag": "boiler/setpoint", "value": endless })),
        ("write_tag", json!({ endless.as_str(): 50 })),
        ("read_tags", json!({ "tags": [endless] })),
        ("list_tags", json!({ "filter": endless })),
        ("write_tag", json!({})),
        ("write_tags", json!({})),
        ("write_tags", json!({ "writes": [] })),
        ("write_tags", json!({ "writes": [{ "tag": "boiler/setpoint" }] })),
        ("write_tags", json!({ "writes": [{ "tag": "boiler/setpoint", "value": 50 }] })),
        (
            "write_tags",
            json!({ "writes": [{ "tag": "nothing", "value": 50 }, { "tag": "boiler/setpoint", "value": 50 }] }),
        ),
    ]
}

async fn answers_hold(many: usize) {
    let listed = tools(many).await;
    let plant = Plant::new(many);
    let mut client = Pipes::open(&plant.mcp).await;
    for value in [None, Some(Value::F64(71.5)), Some(Value::F64(f64::NAN))] {
        if let Some(value) = value {
            plant.publish_all(&value);
        }
        for (tool, arguments) in calls() {
            let result = client.call(tool, arguments.clone()).await;
            let index = TOOLS.iter().position(|name| *name == tool).unwrap();
            let schema = jsonschema::validator_for(&listed["tools"][index]["outputSchema"]).unwrap();
            let content = &result["structuredContent"];
            let errors = schema.iter_errors(content).map(|error| error.to_string()).collect::<Vec<_>>();
            assert!(errors.is_empty(), "{tool} {arguments}: {errors:?} in {content}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.len() < 25 * 1024, "{tool} {arguments}: {} bytes", text.len());
            assert_eq!(serde_json::from_str::<Json>(text).unwrap(), *content, "{tool} {arguments}");
        }
    }
}

#[tokio::test]
async fn every_answer_validates_and_is_short_with_10_tags() {
    answers_hold(10).await;
}

#[tokio::test]
async fn every_answer_validates_and_is_short_with_5000_tags() {
    answers_hold(5000).await;
}

async fn resources_are_paged(many: usize) {
    let plant = Plant::new(many);
    let mut client = Pipes::open(&plant.mcp).await;
    let (mut uris, mut params, mut pages) = (Vec::new(), json!({}), 0);
    loop {
        let result = client.request("resources/list", params).await["result"].take();
        assert!(result.to_string().len() < 256 * 1024);
        let page = result["resources"].as_array().unwrap();
        uris.extend(page.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()));
        pages += 1;
        if result["nextCursor"].is_null() {
            break;
        }
        params = json!({ "cursor": result["nextCursor"] });
    }
    assert_eq!(uris.len(), many + 6 + 3);
    assert_eq!(uris.iter().collect::<HashSet<_>>().len(), uris.len());
    assert_eq!(uris[0], "fieldbridge://devices/boiler");
    assert_eq!(pages > 1, many > 1000);
    for cursor in ["", "nonsense", "tag:", "3"] {
        let answer = client.request("resources/list", json!({ "cursor": cursor })).await;
        assert_eq!(answer["error"]["code"], -32602, "{cursor}");
    }
    for list in ["tools/list", "resources/templates/list"] {
        let answer = client.request(list, json!({ "cursor": "nonsense" })).await;
        assert_eq!(answer["error"]["code"], -32602, "{list}");
    }
    let templates = client.request("resources/templates/list", json!({})).await["result"].take();
    let templates = templates["resourceTemplates"].as_array().unwrap();
    assert_eq!(templates[0]["uriTemplate"], "fieldbridge://devices/{device}");
    assert_eq!(templates[1]["uriTemplate"], "fieldbridge://tags/{+path}");
}

#[tokio::test]
async fn resources_are_paged_with_10_tags() {
    resources_are_paged(10).await;
}

#[tokio::test]
async fn resources_are_paged_with_5000_tags() {
    resources_are_paged(5000).await;
}
