//! Brokers, and tags by topics.

use super::*;
use crate::{
    cli::check,
    config::{Endpoint, MqttEndpoint},
};

const BROKER: &str = "[[connections]]\nname = 'b'\ndriver = 'mqtt'\naddress = '10.0.0.1:1883'\n";

/// A site with one device at a broker, which has one tag.
fn with_topic(tag: &str) -> String {
    format!(
        "[site]\nname = 'test'\n{BROKER}[[devices]]\nname = 'd'\nconnection = 'b'\ncaptures = {{ device = 'x' }}\n\
         [[devices.tags]]\nname = 't'\n{tag}"
    )
}

fn told(text_of_site: &str) -> String {
    match text(text_of_site) {
        Ok(site) => {
            site.warnings.iter().map(|warning| format!("warning: {warning}")).collect::<Vec<_>>().join("\n")
        }
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn every_kind_of_topic_tag_is_listed_as_it_was_understood() {
    let tags = [
        "topic = 'tele/{device}/SENSOR'\npath = 'ENERGY.Power'\ntype = 'float64'\nunit = 'W'\ninterval_ms = 10_000",
        "topic = 'a/+/b'\ntype = 'text'\nqos = 0",
        "topic = 'a/#'\npath = '[\"switch:0\"].n[2]'\ntype = 'uint16'\nscale = 0.1\nencoding = 'cbor'",
        "topic = 's'\ntype = 'bool'\nwords = { ON = true, OFF = false }\naccess = 'read-write'\nwrite = { topic = 'c', qos = 2, confirm_ms = 0 }",
        "type = 'float64'\naccess = 'read-write'\nwrite = { topic = 'c/only', payload = '{\"v\": \"{value}\"}', retain = true, min = 0, max = 9 }",
        "topic = 'bin'\ntype = 'int32'\nbytes = { offset = 2, byte_order = 'CDAB' }",
        "topic = 's'\npath = 'v'\ntype = 'float32'\nalso = [{ topic = 's2' }]\ntime = { path = 'ts', clock = 'rfc3339' }",
    ];
    let tags = tags.iter().enumerate().map(|(at, tag)| format!("[[devices.tags]]\nname = 't{at}'\n{tag}\n"));
    let site = format!(
        "[site]\nname = 'test'\nwrites = 'allow'\n[[connections]]\nname = 'b'\ndriver = 'mqtt-ws'\naddress = '10.0.0.1:9001'\n\
         version = '3.1.1'\nclient_id = 'us'\nsession = 'persistent'\nusername = 'u'\npassword_env = 'PATH'\n\
         announce = {{ topic = 'fieldbridge/status' }}\n[[devices]]\nname = 'd'\nconnection = 'b'\n\
         captures = {{ device = 'x' }}\navailability = [{{ topic = '{{device}}/LWT', online = ['Online'], offline = ['Offline'] }}]\n{}",
        tags.collect::<String>()
    );
    let site = text(&site).unwrap_or_else(|problems| panic!("{problems}"));
    insta::assert_snapshot!("topics", check::render(&site));
}

#[test]
fn a_tag_that_is_only_written_has_no_topic_of_its_own() {
    let site =
        text(&with_topic("type = 'uint8'\naccess = 'read-write'\nwrite = { topic = 'cmnd' }")).unwrap();
    let Wire::Mqtt(device) = &site.connections[0].devices[0].wire else { panic!("an MQTT device") };
    assert!(device.tags[0].source.origins.is_empty());
}

#[test]
fn a_broker_has_the_defaults_of_its_keys() {
    let site = text(&with_topic("topic = 's'\ntype = 'text'")).unwrap();
    let Endpoint::Mqtt(own) = &site.connections[0].endpoint else { panic!("a broker") };
    let scanned = crate::config::mqtt_address("mqtt://10.0.0.1:1883").unwrap();
    assert!(own.client_id.starts_with("fieldbridge-"));
    assert_eq!(MqttEndpoint { client_id: String::new(), ..own.clone() }, scanned);
}

#[test]
fn every_rule_of_topics_has_its_words() {
    let mut lines = Vec::new();
    for tag in [
        "topic = 'a/{missing}'\ntype = 'text'",
        "topic = 'a/#/b'\ntype = 'text'",
        "topic = 'a/b+'\ntype = 'text'",
        "topic = ''\ntype = 'text'",
        "topic = 'a'\npath = 'a..b'\ntype = 'text'",
        "topic = 'a'\npath = 'v'\nencoding = 'text'\ntype = 'float64'",
        "topic = 'a'\nencoding = 'binary'\ntype = 'uint16'",
        "topic = 'a'\nbytes = { offset = 0 }\nencoding = 'json'\ntype = 'uint16'",
        "topic = 'a'\nbytes = { offset = 0 }\nalso = [{ topic = 'b' }]\ntype = 'uint16'",
        "topic = 'a'\ntype = 'bool'\nwords = { ON = 1 }",
        "topic = 'a'\ntype = 'bool'\nwords = { ON = true, on = 'yes' }",
        "topic = 'a'\ntype = 'float64'\nqos = 3",
        "topic = 'a'\ntype = 'text'\ntime = { path = 'ts', clock = 'unix' }",
        "topic = 'a'\ntype = 'text'\nwrite = { topic = 'c' }",
        "topic = 'a'\ntype = 'text'\naccess = 'read-write'",
        "topic = 'a'\ntype = 'text'\naccess = 'read-write'\nwrite = { topic = 'c/+' }",
        "topic = 'a'\ntype = 'text'\naccess = 'read-write'\nwrite = { topic = 'c', payload = 'no value' }",
        "topic = 'a'\ntype = 'text'\naccess = 'read-write'\nwrite = { topic = 'c', payload = '{\"v\": {value}', form = 'json' }",
        "topic = 'a'\ntype = 'float64'\naccess = 'read-write'\nwrite = { topic = 'c', retain = true }",
        "topic = 'a'\ntype = 'float64'\naccess = 'read-write'\nwrite = { topic = 'c', response = { topic = 'r', id = 'id' } }",
        "topic = 'a'\ntype = 'float64'\nregister = { table = 'input', address = 0 }",
        "type = 'float64'",
        "type = 'float64'\naccess = 'read-write'\ninterval_ms = 1000\nwrite = { topic = 'c' }",
    ] {
        lines.push(format!(
            "{}\n    {}",
            tag.replace('\n', ", "),
            told(&with_topic(tag)).replace('\n', "\n    ")
        ));
    }
    for keys in [
        "session = 'persistent'",
        "password_env = 'SECRET'",
        "username = 'u'\npassword_env = 'NO_SUCH_VARIABLE_HERE'\npassword_file = 'secret'",
        "tls = { ca = 'ca.pem' }",
        "path = '/mqtt'",
        "unit = 1",
        "baud = 9600",
        "version = '3.1'",
        "version = '3.1.1'\nsession_expiry_s = 60",
        "announce = { topic = 'a/#' }",
        "announce = { topic = 'a', offline = 'online' }",
        "max_payload_bytes = 1",
    ] {
        let site = with_topic("topic = 's'\ntype = 'text'").replace(BROKER, &format!("{BROKER}{keys}\n"));
        lines.push(format!("{}\n    {}", keys.replace('\n', ", "), told(&site).replace('\n', "\n    ")));
    }
    insta::assert_snapshot!("topic_rules", lines.join("\n"));
}
