//! Connections to CAN buses.

use std::path::Path;

use super::need;
use crate::{
    codec::can::slcan,
    config::{
        can::{Adapter, CanEndpoint, Stream},
        leaf::HostPort,
        problem::{Findings, What},
        raw::{ConnectionTable, Driver, PortPath},
        read::{At, Read, millis},
    },
    profile::signal::pairs,
};

/// Longest name of a network interface (linux/if.h, `IFNAMSIZ`, less its end).
const LONGEST_NAME: usize = 15;

pub(super) fn endpoint(
    at: &At<ConnectionTable>,
    driver: Driver,
    folder: &Path,
    found: &mut Findings,
) -> Option<CanEndpoint> {
    let table = &at.value;
    let (first, longest) = CanEndpoint::RECONNECT;
    let adapter = adapter(at, driver, folder, found);
    let listen_only = table.listen_only.as_ref()?.value.0;
    let send = table.send_ids.as_ref().map(|at| pairs(&at.value.0)).unwrap_or_default();
    if let Some(ids) = table.send_ids.as_ref().filter(|_| listen_only) {
        ids.conflict(found, "listen_only = true", "to leave it out: nothing is sent");
    }
    let fd = table.fd.as_ref()?;
    if driver == Driver::Socketcand && fd.value.0 {
        fd.conflict(found, "driver = \"socketcand\"", "false: its protocol has no CAN FD");
    }
    Some(CanEndpoint {
        adapter: adapter?,
        fd: fd.value.0,
        listen_only,
        send,
        source: table.source_address.as_ref().and_then(|at| u8::try_from(at.value.0).ok()),
        timeout: table.timeout_ms.as_ref().map_or(CanEndpoint::TIMEOUT, |at| millis(at.value.0)),
        reconnect: (
            table.reconnect_min_ms.as_ref().map_or(first, |at| millis(at.value.0)),
            table.reconnect_max_ms.as_ref().map_or(longest, |at| millis(at.value.0)),
        ),
    })
}

fn adapter(at: &At<ConnectionTable>, driver: Driver, folder: &Path, found: &mut Findings) -> Option<Adapter> {
    let table = &at.value;
    match driver {
        Driver::SocketCan => Some(Adapter::SocketCan { interface: interface(at, found)? }),
        Driver::CanVirtual => Some(Adapter::Virtual { bus: interface(at, found)? }),
        Driver::Slcan => {
            need(at, "port", table.port.is_some(), &PortPath::allowed(), found);
            let (bitrate, data_bitrate) = bitrates(table, found)?;
            let baud = table
                .baud
                .as_ref()
                .and_then(|at| u32::try_from(at.value.0).ok())
                .unwrap_or(CanEndpoint::BAUD);
            let stream = Stream::Port { path: table.port.as_ref()?.value.0.clone(), baud };
            Some(Adapter::Slcan { stream, bitrate, data_bitrate })
        }
        Driver::SlcanTcp => {
            need(at, "address", table.address.is_some(), &HostPort::allowed(), found);
            let (bitrate, data_bitrate) = bitrates(table, found)?;
            let stream = Stream::Tcp { address: table.address.as_ref()?.value.written.clone() };
            Some(Adapter::Slcan { stream, bitrate, data_bitrate })
        }
        Driver::Socketcand => {
            need(at, "address", table.address.is_some(), &HostPort::allowed(), found);
            let interface = interface(at, found);
            Some(Adapter::Socketcand {
                address: table.address.as_ref()?.value.written.clone(),
                interface: interface?,
            })
        }
        Driver::CanReplay => replay(at, folder, found),
        _ => None,
    }
}

/// The name of an interface or bus, which goes into texts of protocols and to the kernel.
fn interface(at: &At<ConnectionTable>, found: &mut Findings) -> Option<String> {
    let allowed = "the name of the bus: 1 to 15 of `A-Z a-z 0-9 _ . -`, such as can0";
    need(at, "interface", at.value.interface.is_some(), allowed, found);
    let written = at.value.interface.as_ref()?;
    let name = &written.value.0;
    let fits = name.len() <= LONGEST_NAME
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_.-".contains(character));
    if !fits {
        found.problems.push(written.spot.problem(What::NotAllowed { allowed: allowed.to_owned() }));
    }
    fits.then(|| name.clone())
}

fn bitrates(table: &ConnectionTable, found: &mut Findings) -> Option<(u32, Option<u32>)> {
    let listed = |rates: &mut dyn Iterator<Item = u32>| {
        rates.map(|rate| rate.to_string()).collect::<Vec<_>>().join(", ")
    };
    let bitrate = match &table.bitrate {
        None => CanEndpoint::BITRATE,
        Some(at) => {
            let bits = u32::try_from(at.value.0).ok()?;
            if slcan::Bitrate::from_bits(bits).is_none() {
                let allowed = format!("one of {}", listed(&mut slcan::Bitrate::allowed()));
                found.problems.push(at.spot.problem(What::NotAllowed { allowed }));
                return None;
            }
            bits
        }
    };
    let Some(at) = &table.data_bitrate else { return Some((bitrate, None)) };
    let bits = u32::try_from(at.value.0).ok()?;
    if slcan::DataBitrate::from_bits(bits).is_none() {
        let allowed = format!("one of {}", listed(&mut slcan::DataBitrate::allowed()));
        found.problems.push(at.spot.problem(What::NotAllowed { allowed }));
        return None;
    }
    if table.fd.as_ref().is_some_and(|fd| !fd.value.0) {
        at.conflict(found, "fd = false", "to leave it out, or fd = true");
    }
    Some((bitrate, Some(bits)))
}

fn replay(at: &At<ConnectionTable>, folder: &Path, found: &mut Findings) -> Option<Adapter> {
    let table = &at.value;
    let before = found.problems.len();
    need(at, "log", table.log.is_some(), "the path of a log of candump", found);
    let file = table.log.as_ref().map(|log| folder.join(&log.value.0));
    if let (Some(log), Some(Err(error))) = (&table.log, file.as_ref().map(std::fs::File::open)) {
        let text = format!("{}: {error}", folder.join(&log.value.0).display());
        found.problems.push(log.spot.problem(What::Unusable(text)));
    }
    let speed = table.speed.as_ref()?;
    let number: f64 = speed.value.0.to_string().parse().ok()?;
    if number < 0.0 {
        let allowed = "a number above 0, or 0 for as fast as can be".to_owned();
        found.problems.push(speed.spot.problem(What::NotAllowed { allowed }));
    }
    if let Some(ids) = &table.send_ids {
        ids.conflict(found, "driver = \"can-replay\"", "to leave it out: nothing can be sent to a log");
    }
    let channel = table.interface.as_ref().map(|at| at.value.0.clone());
    let repeat = table.repeat.as_ref()?.value.0;
    (found.problems.len() == before).then_some(Adapter::Replay {
        file: file?,
        channel,
        speed: number,
        repeat,
    })
}
