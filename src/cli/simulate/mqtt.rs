//! `simulate --mqtt`: a broker, and devices that are its clients.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use clap::{Args, builder::PossibleValuesParser};
use simulators::mqtt::{
    Broker, Device, FAULTS, Fault, Model, Settings,
    family::{FAMILIES, Opening, make},
};
use tracing::{info, warn};

use super::table;

#[derive(Debug, Args)]
pub struct MqttArgs {
    /// Where a broker listens for MQTT 3.1.1 and 5, to which simulated devices are connected
    #[arg(long, value_name = "ADDR")]
    mqtt: Option<SocketAddr>,
    /// Which devices there are [default: one of each family]
    #[arg(
        long = "mqtt-device",
        value_name = "FAMILY",
        requires = "mqtt",
        value_parser = PossibleValuesParser::new(FAMILIES.iter().map(|(family, ..)| *family))
    )]
    mqtt_devices: Vec<String>,
    /// How often they publish
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 1000,
        requires = "mqtt",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    mqtt_interval_ms: u64,
    /// What goes wrong with every device, such as slow-confirm=3s; several apply in their order (--help lists all)
    #[arg(long = "mqtt-fault", value_name = "FAULT", requires = "mqtt", long_help = fault_help())]
    mqtt_faults: Vec<Fault>,
}

fn fault_help() -> String {
    table("What goes wrong with every MQTT device. Several apply in their order.", FAULTS)
}

/// What runs.
pub(super) struct Plant {
    broker: Broker,
    devices: Vec<Device<Box<dyn Model>>>,
}

impl MqttArgs {
    pub(super) fn is_none(&self) -> bool {
        self.mqtt.is_none()
    }

    /// Starts what was asked for.
    pub(super) async fn start(&self) -> anyhow::Result<Option<Plant>> {
        let Some(address) = self.mqtt else { return Ok(None) };
        let broker =
            Broker::start(address).await.with_context(|| format!("cannot listen for MQTT at {address}"))?;
        info!("broker: MQTT 3.1.1 and 5 at {}, no password", broker.local_addr());
        for fault in &self.mqtt_faults {
            warn!("fault of every MQTT device: {fault}");
        }
        let settings = Settings::every(Duration::from_millis(self.mqtt_interval_ms));
        let opening = Opening::default();
        let mut devices = Vec::new();
        for (family, _, speaks, listens) in FAMILIES {
            if !self.mqtt_devices.is_empty() && !self.mqtt_devices.iter().any(|asked| asked == family) {
                continue;
            }
            let Some(model) = make(family, &opening) else { continue };
            info!("{family} publishes {speaks}; listens to {listens}");
            let (url, faults) = (broker.url(), self.mqtt_faults.clone());
            devices.push(Device::with_faults(&url, model, settings.clone(), faults));
        }
        Ok(Some(Plant { broker, devices }))
    }
}

impl Plant {
    pub(super) async fn stop(self) {
        for device in self.devices {
            device.stop().await;
        }
        self.broker.stop().await;
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        crate::cli::Cli::command().debug_assert();
    }
}
