//! MQTT: what publishes and listens on topics of a broker.

use std::sync::Arc;

use crate::{
    config::{MqttEndpoint, Secret},
    link::{Counters, Driver, Inbox, LinkError, SessionEnd, Sink},
    model::{DeviceId, TagId},
    profile::mqtt::{Availability, Point},
};

/// One device at a broker.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    pub device: DeviceId,
    pub availability: Vec<Availability>,
    pub tags: Vec<Subscribed>,
}

/// One tag of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscribed {
    pub id: TagId,
    /// Lowest and highest value that the process can have.
    pub range: Option<(f64, f64)>,
    pub point: Arc<Point>,
}

/// The driver of one client at a broker.
#[derive(Debug)]
pub struct Mqtt {
    endpoint: MqttEndpoint,
}

impl Mqtt {
    #[must_use]
    pub fn new(endpoint: MqttEndpoint, _stations: &[Station], _counters: Arc<Counters>) -> Self {
        Self { endpoint }
    }
}

impl Driver for Mqtt {
    type Connection = ();

    async fn connect(&mut self) -> Result<(), LinkError> {
        let _unused = Secret::Variable(String::new());
        Err(LinkError {
            address: self.endpoint.address.clone(),
            problem: "not built".to_owned(),
            lasting: false,
        })
    }

    async fn run(&mut self, (): (), _inbox: &mut Inbox, _sink: &Sink) -> SessionEnd {
        SessionEnd::Stopped
    }
}
