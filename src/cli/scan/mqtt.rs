//! `scan mqtt`: which topics there are at a broker, and what their payloads hold.

mod device;
mod draft;
mod field;
mod report;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use self::device::Devices;
use super::{connection, file::Drafts};
use crate::{
    cli::{
        check,
        signals::{Signal, Signals},
    },
    codec::topic::{Index, Pattern},
    config::{self, Connection, DeviceSpec, Endpoint, MqttEndpoint, Wire},
    drivers::mqtt::scan::Scan,
};

#[derive(Debug, Args)]
pub struct MqttArgs {
    /// Name of a connection of the site, or without --config an address: mqtt://host:port,
    /// `mqtt://host:port?username=bridge&password_env=VARIABLE`, mqtts://host:port?ca=ca.pem, ws://host:port/mqtt or
    /// wss://host:port/mqtt?ca=ca.pem
    #[arg(long, value_name = "WHAT")]
    pub connection: String,
    /// Site file that has the connection; topics that its devices read are marked
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Topics to listen to; levels with names in braces tell devices apart, such as zigbee2mqtt/{device}/#
    #[arg(long = "filter", value_name = "FILTER", value_parser = Pattern::parse, default_value = "#")]
    pub filters: Vec<Pattern>,
    /// How long to listen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400), default_value_t = 10)]
    pub seconds: u64,
    /// Most topics to remember
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), default_value_t = 1000)]
    pub topics: u32,
    /// Write a draft of a profile here; of more kinds of devices than one, one each, with a device in the name
    #[arg(long, value_name = "FILE")]
    pub draft: Option<PathBuf>,
}

/// Which device of the site reads a topic.
pub(super) type Readers = Index<String>;

pub(super) async fn run(args: MqttArgs) -> anyhow::Result<ExitCode> {
    let (mut endpoint, readers) = match &args.config {
        None => {
            let endpoint = config::mqtt_address(&args.connection)
                .context("--connection without --config takes an address")?;
            (endpoint, None)
        }
        Some(file) => match config::load(file, std::env::vars_os()) {
            Ok(site) => {
                let (endpoint, devices) = configured(site.connections, &args.connection)?;
                (endpoint, Some(readers(&devices)))
            }
            Err(problems) => return Ok(check::refuse(&problems)),
        },
    };
    // Nobody should find out at the end that there is no place for the result.
    let drafts = args.draft.map(|file| Drafts::claim(file, "device")).transpose()?;
    // Under the site's own id it would throw a running bridge out.
    endpoint.client_id = format!("fieldbridge-scan-{:08x}", fastrand::u32(..));
    (endpoint.session_expiry, endpoint.announce) = (None, None);
    let address = endpoint.address.clone();
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let most = usize::try_from(args.topics).unwrap_or(usize::MAX);
    let mut scan = Scan::open(endpoint, &args.filters, most).await?;
    let filters = args.filters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    info!("listening at {address} to {filters} for {} s; Ctrl-C ends it sooner", args.seconds);
    let started = Instant::now();
    let end = async {
        let over = sleep(Duration::from_secs(args.seconds));
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                signal = signals.next() => match signal {
                    Signal::Stop => return,
                    Signal::Reload => {}
                },
            }
        }
    };
    let end = scan.listen(end).await;
    let heard = scan.heard();
    if let (Err(problem), 0) = (&end, heard.messages) {
        return Err(problem.clone().into());
    }
    for (filter, problem) in &heard.refused {
        warn!("the broker refuses the subscription to {filter}: {problem}");
    }
    let devices = Devices::of(heard, &args.filters);
    let shown = report::render(heard, &devices, readers.as_ref(), started.elapsed());
    io::stdout().write_all(shown.as_bytes())?;
    if let Some(drafts) = drafts {
        for file in drafts.write(&draft::all(&devices))? {
            info!("wrote {}", file.display());
        }
    }
    end?;
    Ok(if heard.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The broker that a connection of the site leads to, and the devices there.
fn configured(connections: Vec<Connection>, name: &str) -> anyhow::Result<(MqttEndpoint, Vec<DeviceSpec>)> {
    let Connection { endpoint, devices, .. } = connection(connections, name)?;
    match endpoint {
        Endpoint::Mqtt(endpoint) => Ok((endpoint, devices)),
        Endpoint::Modbus(_) | Endpoint::Can(_) => bail!("the connection `{name}` is not MQTT"),
    }
}

fn readers(devices: &[DeviceSpec]) -> Readers {
    let mut readers = Readers::new();
    for spec in devices {
        let Wire::Mqtt(mqtt) = &spec.wire else { continue };
        let signs = mqtt.availability.iter().filter_map(|sign| Pattern::parse(&sign.topic).ok());
        let origins = mqtt.tags.iter().flat_map(|tag| &tag.source.origins);
        for pattern in signs.chain(origins.map(|origin| origin.pattern.clone())) {
            readers.insert(pattern, spec.device.name.clone());
        }
    }
    readers
}
