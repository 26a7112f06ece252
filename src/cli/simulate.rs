//! `simulate`: the simulators alone, until a signal.
//!
//! The boiler house is a PLC on the network (TCP, TLS), its energy meter hangs on a serial line or behind a serial server.
//! Faults stand between clients and servers, the same ones everywhere. MQTT has a broker and faults of its own.

mod can;
mod mqtt;

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, bail};
#[cfg(unix)]
use simulators::modbus::{Line, Pace};
use simulators::{
    boiler::{self, House},
    meter::{Feed, Load},
    modbus::{
        FAULTS, Fault, Faults, Framing, Handle, Proxy, Server,
        tls::{Authority, FILES, Identity},
    },
};
use tracing::{info, warn};

pub(super) use can::{CanArgs, Net};
pub(super) use mqtt::{MqttArgs, Plant, USUAL as BROKER};

use super::{
    SimulateArgs,
    signals::{Signal, Signals},
};

/// Where the PLC listens if nothing is asked for; the site of the demo expects it there.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5020);
/// Where the serial line of the meter is if no path is asked for; the site of the demo expects it there.
#[cfg(unix)]
pub(super) const PORT: &str = "/tmp/fieldbridge-meter";
/// Where servers listen that stand behind a proxy.
const BEHIND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(super) async fn run(args: SimulateArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let house = House::start();
    let meter = meter(&house);
    let bare = args.is_bare();
    let broker = if bare { Some(mqtt::Plant::rooms(false).await?) } else { args.mqtt.start().await? };
    if let Some(broker) = &broker {
        broker.tell();
    }
    let net = if bare { Some(Net::usual()?) } else { args.can.start()? };
    let mut network = Network::new(args.faults.clone());
    for fault in &args.faults {
        warn!("fault on every answer: {fault}");
    }
    if let Some(address) = args.modbus.or(bare.then_some(USUAL)) {
        let address = network.start("Modbus TCP", address, Framing::Tcp, house.handle(), None)?;
        info!("boiler house: Modbus TCP at {address}, unit 1 (profile demo/boiler)");
    }
    if let (Some(address), Some(folder)) = (args.modbus_tls, &args.tls_dir) {
        let identity = certificates(folder, address)?;
        let address =
            network.start("Modbus TCP over TLS", address, Framing::Tcp, house.handle(), Some(&identity))?;
        info!(
            "boiler house: Modbus TCP over TLS at {address}, unit 1 (profile demo/boiler); \
             clients need ca.pem, client.pem and client.key of {}",
            folder.display()
        );
    }
    if let Some(address) = args.modbus_rtu_tcp {
        let address = network.start("Modbus RTU over TCP", address, Framing::Rtu, meter.handle(), None)?;
        info!("energy meter: Modbus RTU over TCP at {address}, unit 1 (profile demo/meter)");
    }
    #[cfg(unix)]
    let line = args.modbus_rtu.as_deref().or(bare.then_some(Path::new(PORT)));
    #[cfg(unix)]
    let line = line.map(|path| args.line(path, &meter)).transpose()?;
    while signals.next().await != Signal::Stop {}
    #[cfg(unix)]
    drop(line);
    network.stop().await;
    if let Some(broker) = broker {
        broker.stop().await;
    }
    if let Some(net) = net {
        net.stop().await;
    }
    meter.stop().await;
    house.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// The meter that feeds a boiler house.
pub(super) fn meter(house: &House) -> Feed {
    let plc = house.handle().unit(boiler::UNIT);
    Feed::start(move || {
        let (pump, burner) =
            plc.as_ref().map(|unit| unit.with(|tables| boiler::running(tables))).unwrap_or_default();
        Load { pump, burner }
    })
}

/// All faults of Modbus, for `--help`.
pub(super) fn fault_help() -> String {
    table("What goes wrong with every answer. Several apply in their order.", FAULTS)
}

/// Faults in words, one a line.
fn table(title: &str, faults: &[(&str, &str, &str)]) -> String {
    let mut text = title.to_owned();
    for (name, argument, meaning) in faults {
        // Writing to a text does not fail.
        let _written = write!(text, "\n  {:<28} {meaning}", format!("{name}{argument}"));
    }
    text
}

impl SimulateArgs {
    /// Nothing says what is to run.
    fn is_bare(&self) -> bool {
        #[cfg(unix)]
        let line = self.modbus_rtu.is_some();
        #[cfg(not(unix))]
        let line = false;
        !line
            && self.mqtt.is_none()
            && self.can.is_none()
            && self.modbus.or(self.modbus_tls).or(self.modbus_rtu_tcp).is_none()
    }

    #[cfg(unix)]
    fn line(&self, path: &Path, meter: &Feed) -> anyhow::Result<Line> {
        let turnaround = std::time::Duration::from_millis(self.turnaround_ms);
        let line = Line::start_at(path, meter.handle(), Pace::baud(self.baud).turnaround(turnaround))
            .with_context(|| format!("cannot start a serial line at {}", path.display()))?;
        line.faults().always(all(self.faults.clone()));
        info!(
            "energy meter: Modbus RTU on {}, {} baud, unit 1 (profile demo/meter)",
            path.display(),
            self.baud
        );
        Ok(line)
    }
}

fn all(faults: Vec<Fault>) -> Option<Fault> {
    (!faults.is_empty()).then_some(Fault::All(faults))
}

/// The certificates in a folder, made where there are none.
fn certificates(folder: &Path, address: SocketAddr) -> anyhow::Result<Identity> {
    if !FILES.iter().any(|file| folder.join(file).exists()) {
        let (host, authority) = (address.ip().to_string(), Authority::new());
        authority
            .and_then(|authority| authority.write(folder, &["localhost", "127.0.0.1", &host]))
            .with_context(|| format!("cannot write certificates to {}", folder.display()))?;
        info!("made certificates in {}", folder.display());
    }
    match Identity::read(folder) {
        Ok(identity) => Ok(identity),
        Err(error) => bail!("{error}; an empty --tls-dir gets all of {}", FILES.join(", ")),
    }
}

/// Servers on the network, behind proxies where there are faults.
struct Network {
    faults: Option<Faults>,
    servers: Vec<Server>,
    proxies: Vec<Proxy>,
}

impl Network {
    fn new(faults: Vec<Fault>) -> Self {
        let faults = all(faults).map(|fault| {
            let faults = Faults::new();
            faults.always(Some(fault));
            faults
        });
        Self { faults, servers: Vec::new(), proxies: Vec::new() }
    }

    fn start(
        &mut self,
        what: &str,
        address: SocketAddr,
        framing: Framing,
        handle: &Handle,
        identity: Option<&Identity>,
    ) -> anyhow::Result<SocketAddr> {
        let cannot = || format!("cannot listen for {what} at {address}");
        // A proxy speaks TLS itself, since faults are about what is within.
        let identity_here = identity.filter(|_| self.faults.is_none());
        let here = if self.faults.is_some() { BEHIND } else { address };
        let server = match (framing, identity_here) {
            (Framing::Rtu, _) => Server::rtu_over_tcp(here, handle),
            (Framing::Tcp, None) => Server::serve(here, handle),
            (Framing::Tcp, Some(identity)) => Server::tls(here, handle, identity),
        };
        let server = server.with_context(cannot)?;
        let mut bound = server.local_addr();
        if let Some(faults) = &self.faults {
            let proxy = match identity {
                None => Proxy::with(address, bound, framing, faults.clone()),
                Some(identity) => Proxy::tls(address, bound, identity, faults.clone()),
            };
            let proxy = proxy.with_context(cannot)?;
            bound = proxy.local_addr();
            self.proxies.push(proxy);
        }
        self.servers.push(server);
        Ok(bound)
    }

    async fn stop(self) {
        for proxy in self.proxies {
            proxy.stop().await;
        }
        for server in self.servers {
            server.stop().await;
        }
    }
}
