//! MQTT at a broker of which the test writes each packet.

mod receive;
mod script;
mod session;
mod write;

use std::sync::{Arc, Mutex};

use fieldbridge::{
    model::{Quality, Sample, TagId, Value},
    store::{Observation, Observer},
};
use script::Script;

use crate::plant::Plant;

/// The site's keys that make its broker keep a session.
const PERSISTENT: &str = "session = 'persistent'";

/// A plant at a scripted broker: `keys` are more of the connection's, `devices` the devices' tables.
fn start(script: &Script, keys: &str, devices: &str) -> Plant {
    Plant::start(&site(script, keys, devices))
}

fn site(script: &Script, keys: &str, devices: &str) -> String {
    format!(
        r#"
        [site]
        name = "test"
        writes = "allow"
        [[connections]]
        name = "broker"
        driver = "mqtt"
        address = "{address}"
        version = "{version}"
        client_id = "bridge"
        reconnect_min_ms = 10
        {keys}
        {devices}
        "#,
        address = script.address(),
        version = script.version.word(),
    )
}

/// A device of this name with a number `v` on a topic; `keys` are more of the tag's.
fn number(name: &str, topic: &str, keys: &str) -> String {
    device(name, "", &format!("name = 'v'\ntype = 'float64'\ntopic = '{topic}'\n{keys}"))
}

/// A device of this name with one tag; `keys` are more of the device's.
fn device(name: &str, keys: &str, tag: &str) -> String {
    format!("[[devices]]\nname = '{name}'\nconnection = 'broker'\n{keys}\n[[devices.tags]]\n{tag}\n")
}

/// A device `plug` with a switch `on`, whose command has `keys`.
fn switch(keys: &str) -> String {
    switch_of("plug", WORDS, keys)
}

const WORDS: &str = "words = { ON = true, OFF = false }";

/// A device of this name with a switch `on`; `reading` says how its state is read.
fn switch_of(name: &str, reading: &str, keys: &str) -> String {
    let tag = format!(
        "name = 'on'\ntype = 'bool'\ntopic = 'stat/{name}/POWER'\n{reading}\naccess = 'read-write'\n\
         write = {{ topic = 'cmnd/{name}/POWER', {keys} }}"
    );
    device(name, "", &tag)
}

/// Every sample of a tag.
#[derive(Default, Clone)]
struct Log(Arc<Mutex<Vec<(Value, Quality)>>>);

impl Observer for Log {
    fn observe(&mut self, _tag: TagId, sample: Option<&Sample>) {
        self.0.lock().unwrap().extend(sample.map(|sample| (sample.value.clone(), sample.quality)));
    }
}

impl Log {
    fn of(plant: &Plant, path: &str) -> (Self, Observation) {
        let log = Self::default();
        let id = plant.app.store().catalogue().tag(path).unwrap().id;
        let observation = plant.app.store().observe(&[id], log.clone());
        (log, observation)
    }

    /// The values that were good, or retained.
    fn values(&self) -> Vec<Value> {
        let samples = self.0.lock().unwrap();
        let good = samples.iter().filter(|(_, quality)| *quality == Quality::Good);
        good.map(|(value, _)| value.clone()).collect()
    }
}
