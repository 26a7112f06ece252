//! Connections: which keys belong to which driver, and that no two lead to one endpoint.

mod broker;
mod bus;

use std::{collections::HashMap, path::Path, time::Duration};

use super::{Open, Taken};
use crate::{
    config::{
        broker::MqttEndpoint,
        can::CanEndpoint,
        leaf::HostPort,
        problem::{Findings, What},
        raw::{ConnectionTable, Driver, Ids, PemPath, PortPath, TlsTable},
        read::{At, Read, Spot, millis},
        site::{Connection, Endpoint, ModbusEndpoint, Serial, Tls, Transport},
    },
    profile::raw::Protocol,
    tls,
};

/// The drivers that reach their devices over a network.
const NETWORK: &[Driver] = &[
    Driver::Tcp,
    Driver::Tls,
    Driver::RtuTcp,
    Driver::Mqtt,
    Driver::MqttTls,
    Driver::MqttWs,
    Driver::MqttWss,
    Driver::SlcanTcp,
    Driver::Socketcand,
];
const MODBUS: &[Driver] = &[Driver::Tcp, Driver::Tls, Driver::Rtu, Driver::RtuTcp];
const MODBUS_NETWORK: &[Driver] = &[Driver::Tcp, Driver::Tls, Driver::RtuTcp];
const SECURED: &[Driver] = &[Driver::Tls, Driver::MqttTls, Driver::MqttWss];
const BROKER: &[Driver] = &[Driver::Mqtt, Driver::MqttTls, Driver::MqttWs, Driver::MqttWss];
const SOCKET: &[Driver] = &[Driver::MqttWs, Driver::MqttWss];
/// Those whose frames have transaction ids.
const NUMBERED: &[Driver] = &[Driver::Tcp, Driver::Tls];
const LINE: &[Driver] = &[Driver::Rtu];
const PORT: &[Driver] = &[Driver::Rtu, Driver::Slcan];
const CAN: &[Driver] = &[
    Driver::SocketCan,
    Driver::Slcan,
    Driver::SlcanTcp,
    Driver::Socketcand,
    Driver::CanVirtual,
    Driver::CanReplay,
];
const INTERFACE: &[Driver] = &[Driver::SocketCan, Driver::Socketcand, Driver::CanVirtual, Driver::CanReplay];
const SLCAN: &[Driver] = &[Driver::Slcan, Driver::SlcanTcp];
const REPLAY: &[Driver] = &[Driver::CanReplay];

/// How long an answer may take where the site says nothing.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Bits a second on a line where the site says nothing.
const BAUD: u32 = 19_200;

pub(super) fn connections<'a>(
    tables: &'a [At<ConnectionTable>],
    folder: &Path,
    found: &mut Findings,
) -> Vec<Open<'a>> {
    let mut names = Taken::default();
    let mut ends = Taken::default();
    let mut connections = Vec::new();
    for at in tables {
        let table = &at.value;
        let driver = table.driver.as_ref().map(|driver| driver.value.0);
        claim_end(table, &mut ends, found);
        let endpoint = driver.and_then(|driver| {
            check_keys(table, driver, found);
            check_delays(table, found);
            match driver.protocol() {
                Protocol::Modbus => endpoint(at, driver, folder, found).map(Endpoint::Modbus),
                Protocol::Mqtt => broker::endpoint(at, driver, folder, found).map(Endpoint::Mqtt),
                Protocol::Can => bus::endpoint(at, driver, folder, found).map(Endpoint::Can),
            }
        });
        let Some(name) = &table.name else { continue };
        if !names.claim(&name.value.0, &name.spot, "one connection a name", found) {
            continue;
        }
        let resolved =
            endpoint.map(|endpoint| Connection { name: name.value.0.clone(), endpoint, devices: Vec::new() });
        let name = (&name.value.0, &name.spot);
        connections.push(Open {
            name: name.0,
            spot: name.1,
            driver,
            resolved,
            units: HashMap::new(),
            senders: HashMap::new(),
        });
    }
    connections
}

/// One task owns an endpoint: two connections would not see each other's requests on it.
fn claim_end<'a>(table: &'a ConnectionTable, ends: &mut Taken<'a>, found: &mut Findings) {
    let driver = table.driver.as_ref().map(|driver| driver.value.0);
    let is_mqtt = driver.is_some_and(Driver::is_mqtt);
    if let (Some(Driver::SocketCan), Some(interface)) = (driver, &table.interface) {
        let allowed = "one connection an interface; let its devices share it";
        ends.claim(format!("socketcan {}", interface.value.0), &interface.spot, allowed, found);
    }
    // A server of socketcand has many buses.
    if let Some(address) = table.address.as_ref().filter(|_| driver != Some(Driver::Socketcand)) {
        if !is_mqtt {
            let allowed = "one connection an address; let its devices share it";
            ends.claim(&address.value.normal, &address.spot, allowed, found);
        } else if let Some(id) = &table.client_id {
            // A broker serves many clients, but of one id only one.
            let allowed = "one connection a client id at a broker";
            ends.claim(format!("{} {}", address.value.normal, id.value.0), &id.spot, allowed, found);
        }
    }
    if let Some(port) = &table.port {
        let allowed = "one connection a serial port; let its devices share it";
        // Names below /dev/serial/by-id are links.
        let real = std::fs::canonicalize(&port.value.0);
        let real = real.map_or_else(|_| port.value.0.clone(), |path| path.display().to_string());
        ends.claim(real, &port.spot, allowed, found);
    }
}

fn endpoint(
    at: &At<ConnectionTable>,
    driver: Driver,
    folder: &Path,
    found: &mut Findings,
) -> Option<ModbusEndpoint> {
    let table = &at.value;
    check_ids(table, found);
    let (first, longest) = ModbusEndpoint::RECONNECT;
    let transport = transport(at, driver, folder, found);
    Some(ModbusEndpoint {
        transport: transport?,
        timeout: table.timeout_ms.as_ref().map_or(TIMEOUT, |at| millis(at.value.0)),
        connect_delay: millis(table.connect_delay_ms.as_ref()?.value.0),
        request_gap: millis(table.request_gap_ms.as_ref()?.value.0),
        idle_close: table.idle_close_ms.as_ref().map(|at| millis(at.value.0)),
        max_in_flight: u8::try_from(table.max_in_flight.as_ref()?.value.0).ok()?,
        check_ids: table.transaction_ids.as_ref()?.value.0 == Ids::Check,
        reconnect: (
            table.reconnect_min_ms.as_ref().map_or(first, |at| millis(at.value.0)),
            table.reconnect_max_ms.as_ref().map_or(longest, |at| millis(at.value.0)),
        ),
    })
}

/// Keys that mean nothing to the driver: who wrote them thinks that they do something.
fn check_keys(table: &ConnectionTable, driver: Driver, found: &mut Findings) {
    fn written<T>(at: Option<&At<T>>) -> Option<&Spot> {
        at.map(|at| &at.spot).filter(|spot| spot.is_written())
    }
    let keys = [
        ("address", written(table.address.as_ref()), NETWORK),
        ("connect_delay_ms", written(table.connect_delay_ms.as_ref()), MODBUS),
        ("request_gap_ms", written(table.request_gap_ms.as_ref()), MODBUS),
        ("idle_close_ms", written(table.idle_close_ms.as_ref()), MODBUS_NETWORK),
        ("max_in_flight", written(table.max_in_flight.as_ref()), NUMBERED),
        ("transaction_ids", written(table.transaction_ids.as_ref()), NUMBERED),
        ("tls", written(table.tls.as_ref()), SECURED),
        ("path", written(table.path.as_ref()), SOCKET),
        ("version", written(table.version.as_ref()), BROKER),
        ("client_id", written(table.client_id.as_ref()), BROKER),
        ("username", written(table.username.as_ref()), BROKER),
        ("password_env", written(table.password_env.as_ref()), BROKER),
        ("password_file", written(table.password_file.as_ref()), BROKER),
        ("keep_alive_s", written(table.keep_alive_s.as_ref()), BROKER),
        ("session", written(table.session.as_ref()), BROKER),
        ("session_expiry_s", written(table.session_expiry_s.as_ref()), BROKER),
        ("max_payload_bytes", written(table.max_payload_bytes.as_ref()), BROKER),
        ("announce", written(table.announce.as_ref()), BROKER),
        ("port", written(table.port.as_ref()), PORT),
        ("baud", written(table.baud.as_ref()), PORT),
        ("parity", written(table.parity.as_ref()), LINE),
        ("stop_bits", written(table.stop_bits.as_ref()), LINE),
        ("interface", written(table.interface.as_ref()), INTERFACE),
        ("bitrate", written(table.bitrate.as_ref()), SLCAN),
        ("data_bitrate", written(table.data_bitrate.as_ref()), SLCAN),
        ("fd", written(table.fd.as_ref()), CAN),
        ("listen_only", written(table.listen_only.as_ref()), CAN),
        ("send_ids", written(table.send_ids.as_ref()), CAN),
        ("source_address", written(table.source_address.as_ref()), CAN),
        ("log", written(table.log.as_ref()), REPLAY),
        ("speed", written(table.speed.as_ref()), REPLAY),
        ("repeat", written(table.repeat.as_ref()), REPLAY),
    ];
    for (key, spot, drivers) in keys {
        if let Some(spot) = spot
            && !drivers.contains(&driver)
        {
            let names: Vec<String> = drivers.iter().map(|driver| format!("\"{}\"", driver.name())).collect();
            let with = format!("driver = \"{}\"", driver.name());
            let allowed = format!("to leave it out: `{key}` is for {}", names.join(", "));
            found.problems.push(spot.problem(What::Conflict { with, allowed }));
        }
    }
}

/// With several requests on their way, only the id tells whose an answer is.
fn check_ids(table: &ConnectionTable, found: &mut Findings) {
    if let (Some(ids), Some(most)) = (&table.transaction_ids, &table.max_in_flight)
        && ids.value.0 == Ids::Ignore
        && most.value.0 > 1
    {
        ids.conflict(found, format!("max_in_flight = {}", most.value.0), "\"check\", or max_in_flight = 1");
    }
}

fn check_delays(table: &ConnectionTable, found: &mut Findings) {
    let (first, longest) = match table.driver.as_ref().map(|driver| driver.value.0.protocol()) {
        Some(Protocol::Mqtt) => MqttEndpoint::RECONNECT,
        Some(Protocol::Can) => CanEndpoint::RECONNECT,
        Some(Protocol::Modbus) | None => ModbusEndpoint::RECONNECT,
    };
    let usual = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let (first, longest) = (usual(first), usual(longest));
    match (&table.reconnect_min_ms, &table.reconnect_max_ms) {
        (Some(at), other) => {
            let longest = other.as_ref().map_or(longest, |at| at.value.0);
            if at.value.0 > longest {
                at.conflict(found, format!("reconnect_max_ms = {longest}"), format!("at most {longest}"));
            }
        }
        (None, Some(at)) if at.value.0 < first => {
            at.conflict(found, format!("reconnect_min_ms = {first}"), format!("at least {first}"));
        }
        (None, _) => {}
    }
}

fn transport(
    at: &At<ConnectionTable>,
    driver: Driver,
    folder: &Path,
    found: &mut Findings,
) -> Option<Transport> {
    let table = &at.value;
    if driver == Driver::Rtu {
        need(at, "port", table.port.is_some(), &PortPath::allowed(), found);
        return Some(Transport::Rtu(Serial {
            port: table.port.as_ref()?.value.0.clone(),
            baud: table.baud.as_ref().map_or(Some(BAUD), |at| u32::try_from(at.value.0).ok())?,
            parity: table.parity.as_ref()?.value.0,
            stop_bits: u8::try_from(table.stop_bits.as_ref()?.value.0).ok()?,
        }));
    }
    need(at, "address", table.address.is_some(), &HostPort::allowed(), found);
    let tls = (driver == Driver::Tls).then(|| {
        need(at, "tls", table.tls.is_some(), &TlsTable::allowed(), found);
        security(table.tls.as_ref()?, table.address.as_ref(), true, folder, found)
    });
    let address = table.address.as_ref()?.value.written.clone();
    match tls {
        None if driver == Driver::RtuTcp => Some(Transport::RtuTcp { address }),
        None => Some(Transport::Tcp { address, tls: None }),
        Some(tls) => Some(Transport::Tcp { address, tls: Some(tls?) }),
    }
}

/// Notes that a key is missing, unless it is there and was refused.
fn need<T>(at: &At<T>, key: &str, is_there: bool, allowed: &str, found: &mut Findings) {
    let spot = at.spot.absent(key);
    if !is_there && !spot.is_refused(found) {
        found.problems.push(spot.problem(What::Missing { allowed: allowed.to_owned() }));
    }
}

/// How the two sides know each other: the files are read, so that a slip in them shows before the plant runs.
fn security(
    at: &At<TlsTable>,
    address: Option<&At<HostPort>>,
    is_modbus: bool,
    folder: &Path,
    found: &mut Findings,
) -> Option<Tls> {
    let TlsTable { ca, certificate, key, server_name } = &at.value;
    let path = |file: &At<PemPath>| folder.join(&file.value.0);
    if let Some(ca) = ca
        && let Err(error) = tls::check_authorities(&path(ca))
    {
        found.problems.push(ca.spot.problem(What::Unusable(error.to_string())));
    }
    let identity = certificate.as_ref().zip(key.as_ref());
    match identity {
        Some((certificate, key)) => check_identity((certificate, key), folder, found),
        None if certificate.is_some() => {
            need(at, "key", false, "the file with the private key of `certificate`", found);
        }
        None if key.is_some() => {
            need(at, "certificate", false, "the file with the certificate of `key`", found);
        }
        None if !is_modbus => {}
        None => at.warn(
            found,
            "no client certificate: the Modbus/TCP Security specification has both sides show one, so a device that \
             keeps to it refuses us",
        ),
    }
    check_name(at, address, found);
    Some(Tls {
        ca: path(ca.as_ref()?),
        identity: identity.map(|(certificate, key)| (path(certificate), path(key))),
        server_name: server_name.as_ref().map(|at| at.value.0.clone()),
    })
}

fn check_identity((certificate, key): (&At<PemPath>, &At<PemPath>), folder: &Path, found: &mut Findings) {
    let secret = folder.join(&key.value.0);
    for error in tls::check_identity(&folder.join(&certificate.value.0), &secret) {
        let at = if error.part == tls::Part::Key { key } else { certificate };
        found.problems.push(at.spot.problem(What::Unusable(error.to_string())));
    }
    if tls::is_public(&secret) {
        key.warn(
            found,
            "every user of this machine can read the private key: take that right away from others",
        );
    }
}

/// A name that no certificate can have would fail at every connect.
fn check_name(at: &At<TlsTable>, address: Option<&At<HostPort>>, found: &mut Findings) {
    let Some(address) = address else { return };
    let allowed = "a host name or an IP address, as it stands in the server's certificate";
    match &at.value.server_name {
        Some(name) if tls::server_name("", Some(&name.value.0)).is_none() => {
            found.problems.push(name.spot.problem(What::NotAllowed { allowed: allowed.to_owned() }));
        }
        None if tls::server_name(&address.value.written, None).is_none() => {
            need(at, "server_name", false, allowed, found);
        }
        _ => {}
    }
}
