//! `simulate --mqtt`: a broker, and devices that are its clients.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

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

/// Where the demo's broker is.
pub(in crate::cli) const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 18_830);
/// What the demo's site has of these.
const ROOMS: [&str; 2] = ["zigbee-climate", "valve"];
/// How often devices publish that nobody set.
const INTERVAL: Duration = Duration::from_secs(1);

/// What runs.
pub(in crate::cli) struct Plant {
    broker: Broker,
    devices: Vec<Device<Box<dyn Model>>>,
    /// What each family publishes, and what it listens to.
    families: Vec<(&'static str, &'static str, &'static str)>,
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
        for fault in &self.mqtt_faults {
            warn!("fault of every MQTT device: {fault}");
        }
        let settings = Settings::every(Duration::from_millis(self.mqtt_interval_ms));
        let is_asked = |family: &str| {
            self.mqtt_devices.is_empty() || self.mqtt_devices.iter().any(|asked| asked == family)
        };
        Ok(Some(Plant::of(broker, is_asked, &settings, &self.mqtt_faults)))
    }
}

impl Plant {
    fn of(broker: Broker, is_asked: impl Fn(&str) -> bool, settings: &Settings, faults: &[Fault]) -> Self {
        let opening = Opening::default();
        let mut devices = Vec::new();
        let mut families = Vec::new();
        for (family, _, speaks, listens) in FAMILIES.iter().filter(|(family, ..)| is_asked(family)) {
            families.push((*family, *speaks, *listens));
            for model in make(family, &opening) {
                let (url, faults) = (broker.url(), faults.to_vec());
                devices.push(Device::with_faults(&url, model, settings.clone(), faults));
            }
        }
        Self { broker, devices, families }
    }

    /// The sensors and the valve of the boiler house's rooms, at their usual broker; where its port is taken, at any.
    pub(in crate::cli) async fn rooms(can_move: bool) -> anyhow::Result<Self> {
        let broker = match Broker::start(USUAL).await {
            Err(error) if can_move && error.kind() == ErrorKind::AddrInUse => {
                Broker::start((Ipv4Addr::LOCALHOST, 0).into()).await
            }
            started => started,
        };
        let broker = broker.with_context(|| format!("cannot listen for MQTT at {USUAL}"))?;
        Ok(Self::of(broker, |family| ROOMS.contains(&family), &Settings::every(INTERVAL), &[]))
    }

    /// Says in the log what runs.
    pub(in crate::cli) fn tell(&self) {
        info!("broker: MQTT 3.1.1 and 5 at {}, no password", self.address());
        for (family, speaks, listens) in &self.families {
            info!("{family} publishes {speaks}; listens to {listens}");
        }
    }

    pub(in crate::cli) fn address(&self) -> SocketAddr {
        self.broker.local_addr()
    }

    pub(in crate::cli) async fn stop(self) {
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
