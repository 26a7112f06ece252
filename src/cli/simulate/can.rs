//! `simulate --can…`: a CAN bus with devices, and ways to it from outside.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use simulators::can::{
    self, Bus, Device, FAULTS, Fault, battery::Battery, drive::Drive, engine::Engine, slcan, socketcand,
};
use tracing::{info, warn};

use super::table;
use crate::{app::simulated, drivers::can::Buses};

/// Name of the bus.
const NAME: &str = "drives";
/// Where the demo's site has its bus.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 29_536);

#[derive(Debug, Args)]
#[expect(
    clippy::struct_field_names,
    reason = "they are so on the command line, beside those of other protocols"
)]
pub struct CanArgs {
    /// Where a socketcand serves a CAN bus called `drives`, on which there are simulated devices
    #[arg(long, value_name = "ADDR")]
    can_socketcand: Option<SocketAddr>,
    /// Where an slcan adapter of that bus listens
    #[arg(long, value_name = "ADDR")]
    can_slcan_tcp: Option<SocketAddr>,
    /// Path of the serial port at which an slcan adapter of that bus hangs, a link that is made
    #[cfg(unix)]
    #[arg(long, value_name = "PATH")]
    can_slcan: Option<PathBuf>,
    /// CAN interface of this machine that the bus is tied to
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "NAME")]
    can_interface: Option<String>,
    /// Which devices there are [default: one of each]
    #[arg(long = "can-device", value_name = "DEVICE")]
    can_devices: Vec<Kind>,
    /// Bits a second of the bus; 0 is no pace
    #[arg(long, value_name = "BITRATE", default_value_t = 500_000)]
    can_bitrate: u32,
    /// What goes wrong on the bus, such as stuck-counter=181; several apply together (--help lists all)
    #[arg(long = "can-fault", value_name = "FAULT", long_help = fault_help())]
    can_faults: Vec<Fault>,
}

/// The devices there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A pump drive (profile demo/pump-drive)
    PumpDrive,
    /// A battery, with one message of CAN FD (profile demo/battery)
    Battery,
    /// A J1939 engine at address 0 (profile demo/engine)
    Engine,
}

fn fault_help() -> String {
    table("What goes wrong on the CAN bus. Several apply together.", FAULTS)
}

/// What runs.
pub(in crate::cli) struct Net {
    bus: Bus,
    devices: Vec<AnyDevice>,
    servers: Vec<Server>,
}

enum AnyDevice {
    Drive(Device<Drive>),
    Battery(Device<Battery>),
    Engine(Device<Engine>),
}

enum Server {
    Socketcand(socketcand::Server),
    Slcan(slcan::Server),
    #[cfg(unix)]
    Port(slcan::Port),
    #[cfg(target_os = "linux")]
    Interface(can::vcan::Bridge),
}

impl CanArgs {
    pub(super) fn is_none(&self) -> bool {
        #[cfg(unix)]
        let port = self.can_slcan.is_some();
        #[cfg(not(unix))]
        let port = false;
        #[cfg(target_os = "linux")]
        let interface = self.can_interface.is_some();
        #[cfg(not(target_os = "linux"))]
        let interface = false;
        !port && !interface && self.can_socketcand.or(self.can_slcan_tcp).is_none()
    }

    /// Starts what was asked for.
    pub(super) fn start(&self) -> anyhow::Result<Option<Net>> {
        if self.is_none() {
            return Ok(None);
        }
        let bus = if self.can_bitrate == 0 { Bus::new(NAME) } else { Bus::paced(NAME, self.can_bitrate) };
        for fault in &self.can_faults {
            warn!("fault on the CAN bus: {fault}");
        }
        bus.faults(&self.can_faults);
        let is_asked = |kind: Kind| self.can_devices.is_empty() || self.can_devices.contains(&kind);
        let mut net = Net::of(bus, is_asked);
        if let Some(address) = self.can_socketcand {
            net.serve(address)?;
        }
        if let Some(address) = self.can_slcan_tcp {
            let server = slcan::Server::start(&net.bus, address);
            let server = server.with_context(|| format!("cannot listen for slcan at {address}"))?;
            info!("CAN bus: slcan at {}", server.local_addr());
            net.servers.push(Server::Slcan(server));
        }
        #[cfg(unix)]
        if let Some(path) = &self.can_slcan {
            let port = slcan::Port::start_at(&net.bus, path);
            let port =
                port.with_context(|| format!("cannot start an slcan adapter at {}", path.display()))?;
            info!("CAN bus: slcan on {}", port.path().display());
            net.servers.push(Server::Port(port));
        }
        #[cfg(target_os = "linux")]
        if let Some(interface) = &self.can_interface {
            let bridge = can::vcan::Bridge::start(&net.bus, interface)?;
            info!("CAN bus: tied to {interface}");
            net.servers.push(Server::Interface(bridge));
        }
        Ok(Some(net))
    }
}

impl Net {
    fn of(bus: Bus, is_asked: impl Fn(Kind) -> bool) -> Self {
        let mut devices = Vec::new();
        if is_asked(Kind::PumpDrive) {
            devices.push(AnyDevice::Drive(Device::start(&bus, Drive::new())));
        }
        if is_asked(Kind::Battery) {
            devices.push(AnyDevice::Battery(Device::start(&bus, Battery::new(true))));
        }
        if is_asked(Kind::Engine) {
            devices.push(AnyDevice::Engine(Device::start(&bus, Engine::new(0))));
        }
        Self { bus, devices, servers: Vec::new() }
    }

    /// The pump drive of the boiler house, without a way from outside.
    pub(in crate::cli) fn pump() -> Self {
        Self::of(Bus::paced(NAME, 500_000), |kind| kind == Kind::PumpDrive)
    }

    fn serve(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let server = socketcand::Server::start(std::slice::from_ref(&self.bus), address);
        let server = server.with_context(|| format!("cannot listen for socketcand at {address}"))?;
        info!("CAN bus: socketcand at {}, interface {NAME}", server.local_addr());
        self.servers.push(Server::Socketcand(server));
        Ok(())
    }

    /// The pump drive where the demo's site expects it.
    pub(super) fn usual() -> anyhow::Result<Self> {
        let mut net = Self::pump();
        net.serve(USUAL)?;
        Ok(net)
    }

    /// The bus, for connections of this process.
    pub(in crate::cli) fn buses(&self) -> Buses {
        simulated(std::slice::from_ref(&self.bus))
    }

    pub(in crate::cli) async fn stop(self) {
        for server in self.servers {
            match server {
                Server::Socketcand(server) => server.stop().await,
                Server::Slcan(server) => server.stop().await,
                #[cfg(unix)]
                Server::Port(port) => port.stop().await,
                #[cfg(target_os = "linux")]
                Server::Interface(bridge) => bridge.stop().await,
            }
        }
        for device in self.devices {
            match device {
                AnyDevice::Drive(device) => device.stop().await,
                AnyDevice::Battery(device) => device.stop().await,
                AnyDevice::Engine(device) => device.stop().await,
            }
        }
    }
}
