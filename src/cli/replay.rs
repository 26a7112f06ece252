//! `replay`: the CAN buses of a site, fed from a log. Nothing of the plant is connected to, and nothing can be written.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, bail};
use tracing::info;

use super::{ReplayArgs, check, serve};
use crate::{
    codec::can::candump,
    config::{self, Adapter, Endpoint, Site, WriteMode},
    drivers::can::Buses,
    mcp,
};

pub(super) async fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    if !args.speed.is_finite() || args.speed < 0.0 {
        bail!("--speed {}: allowed is a number above 0, or 0 for as fast as can be", args.speed);
    }
    let channels = channels(&args.log).with_context(|| format!("cannot read {}", args.log.display()))?;
    if channels.is_empty() {
        bail!("{} holds no frame as candump writes them", args.log.display());
    }
    let mut site = match config::load(&args.config, std::env::vars_os()) {
        Ok(site) => site,
        Err(problems) => return Ok(check::refuse(&problems)),
    };
    let left_out = site.connections.len();
    rehearse(&mut site, &args, &channels);
    let left_out = left_out - site.connections.len();
    if site.connections.is_empty() {
        bail!("the site has no CAN bus that a log could feed");
    }
    if left_out > 0 {
        info!("{} left out: only CAN buses are fed from the log", check::count(left_out, "connection"));
    }
    let http = match args.http.or(site.server.http) {
        Some(address) => Some(mcp::bind(address).await?),
        None => None,
    };
    let stdio = args.stdio || http.is_none();
    serve::until_stopped(site, http, stdio, None, Buses::default()).await?;
    Ok(ExitCode::SUCCESS)
}

/// Puts the log in the place of every bus, and takes everything else away.
fn rehearse(site: &mut Site, args: &ReplayArgs, channels: &BTreeSet<String>) {
    site.writes = WriteMode::Off;
    site.connections.retain_mut(|connection| {
        let Endpoint::Can(endpoint) = &mut connection.endpoint else { return false };
        let ReplayArgs { log, speed, repeat, .. } = args;
        // Where the log has the frames of a bus under its name, that bus gets these; else all.
        let channel = match &endpoint.adapter {
            Adapter::SocketCan { interface } | Adapter::Socketcand { interface, .. } => {
                channels.get(interface).cloned()
            }
            Adapter::Slcan { .. } | Adapter::Virtual { .. } | Adapter::Replay { .. } => None,
        };
        endpoint.adapter = Adapter::Replay { file: log.clone(), channel, speed: *speed, repeat: *repeat };
        (endpoint.listen_only, endpoint.fd) = (true, true);
        true
    });
}

/// The names of the buses in a log.
fn channels(log: &Path) -> io::Result<BTreeSet<String>> {
    let mut channels = BTreeSet::new();
    for line in BufReader::new(File::open(log)?).split(b'\n') {
        if let Ok(Some(entry)) = candump::parse(&String::from_utf8_lossy(&line?))
            && !channels.contains(entry.channel)
        {
            channels.insert(entry.channel.to_owned());
        }
    }
    Ok(channels)
}
