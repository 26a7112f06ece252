//! Connections to MQTT brokers.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::LazyLock,
    time::Duration,
};

use super::{need, security};
use crate::{
    config::{
        broker::{Announce, Login, MqttEndpoint, MqttVersion, Secret},
        leaf::HostPort,
        problem::{Findings, What},
        raw::{AnnounceTable, ConnectionTable, Driver, Session, TlsTable},
        read::{At, Read, millis},
    },
    profile::qos,
    tls,
};

/// Longest client id (MQTT 5.0, section 1.5.4).
const LONGEST_ID: usize = 65_535;

pub(super) fn endpoint(
    at: &At<ConnectionTable>,
    driver: Driver,
    folder: &Path,
    found: &mut Findings,
) -> Option<MqttEndpoint> {
    let table = &at.value;
    need(at, "address", table.address.is_some(), &HostPort::allowed(), found);
    let is_secured = matches!(driver, Driver::MqttTls | Driver::MqttWss);
    let is_socket = matches!(driver, Driver::MqttWs | Driver::MqttWss);
    let tls = is_secured.then(|| {
        need(at, "tls", table.tls.is_some(), &TlsTable::allowed(), found);
        security(table.tls.as_ref()?, table.address.as_ref(), false, folder, found)
    });
    let version = table.version.as_ref()?.value.0;
    let login = login(at, version, folder, found);
    let client_id = client_id(at, found);
    let session_expiry = session_expiry(table, version, found);
    let (first, longest) = MqttEndpoint::RECONNECT;
    Some(MqttEndpoint {
        address: table.address.as_ref()?.value.written.clone(),
        tls: match tls {
            Some(tls) => Some(tls?),
            None => None,
        },
        websocket: table.path.as_ref().filter(|_| is_socket).map(|at| at.value.0.clone()),
        version,
        client_id: client_id?,
        login,
        keep_alive: Duration::from_secs(table.keep_alive_s.as_ref()?.value.0.unsigned_abs()),
        session_expiry,
        max_payload: u32::try_from(table.max_payload_bytes.as_ref()?.value.0).ok()?,
        timeout: table.timeout_ms.as_ref().map_or(MqttEndpoint::TIMEOUT, |at| millis(at.value.0)),
        announce: table.announce.as_ref().and_then(|at| announce(&at.value, found)),
        reconnect: (
            table.reconnect_min_ms.as_ref().map_or(first, |at| millis(at.value.0)),
            table.reconnect_max_ms.as_ref().map_or(longest, |at| millis(at.value.0)),
        ),
    })
}

/// The id that was written, or one of this process and connection: another program with this site has another.
fn client_id(at: &At<ConnectionTable>, found: &mut Findings) -> Option<String> {
    static PROCESS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let table = &at.value;
    let is_persistent = table.session.as_ref().is_some_and(|at| at.value.0 == Session::Persistent);
    let Some(written) = &table.client_id else {
        if is_persistent {
            let allowed =
                "a text that no other client of the broker has, since the broker keeps the session by it";
            need(at, "client_id", false, allowed, found);
        }
        let name = table.name.as_ref().map(|at| at.value.0.as_str()).unwrap_or_default();
        let digits = PROCESS.hash_one(name) & 0xFFFF_FFFF;
        return Some(format!("fieldbridge-{digits:08x}"));
    };
    let id = &written.value.0;
    if id.len() > LONGEST_ID || id.contains(char::is_control) {
        let allowed = format!("up to {LONGEST_ID} bytes without control characters");
        found.problems.push(written.spot.problem(What::NotAllowed { allowed }));
        return None;
    }
    Some(id.clone())
}

/// Who we are to the broker.
fn login(
    at: &At<ConnectionTable>,
    version: MqttVersion,
    folder: &Path,
    found: &mut Findings,
) -> Option<Login> {
    let table = &at.value;
    let password = match (&table.password_env, &table.password_file) {
        (Some(at), Some(_)) => {
            at.conflict(found, "password_file", "either of them");
            return None;
        }
        (Some(at), None) => {
            if std::env::var_os(&at.value.0).is_none() {
                at.warn(found, "the environment has no such variable now");
            }
            Some(Secret::Variable(at.value.0.clone()))
        }
        (None, Some(at)) => {
            let file = folder.join(&at.value.0);
            if let Err(error) = std::fs::read_to_string(&file) {
                let text = format!("{}: {error}", file.display());
                found.problems.push(at.spot.problem(What::Unusable(text)));
                return None;
            }
            if tls::is_public(&file) {
                at.warn(
                    found,
                    "every user of this machine can read the password: take that right away from others",
                );
            }
            Some(Secret::File(file))
        }
        (None, None) => None,
    };
    match (&table.username, &password) {
        (Some(user), _) => Some(Login { user: user.value.0.clone(), password }),
        (None, None) => None,
        (None, Some(_)) => {
            let name = if version == MqttVersion::V311 {
                "MQTT 3.1.1 has no password without one"
            } else {
                "a password alone is for other ways of authentication"
            };
            need(at, "username", false, &format!("the user whose password it is: {name}"), found);
            None
        }
    }
}

fn session_expiry(table: &ConnectionTable, version: MqttVersion, found: &mut Findings) -> Option<Duration> {
    let is_persistent = table.session.as_ref().is_some_and(|at| at.value.0 == Session::Persistent);
    let at = table.session_expiry_s.as_ref()?;
    if at.spot.is_written() && !is_persistent {
        at.conflict(found, "session = \"clean\"", "to leave it out: nothing is kept");
    } else if at.spot.is_written() && version == MqttVersion::V311 {
        at.conflict(
            found,
            "version = \"3.1.1\"",
            "to leave it out: the broker decides how long it keeps a session",
        );
    }
    is_persistent.then(|| Duration::from_secs(at.value.0.unsigned_abs()))
}

fn announce(table: &AnnounceTable, found: &mut Findings) -> Option<Announce> {
    if let (Some(online), Some(offline)) = (&table.online, &table.offline)
        && online.value.0 == offline.value.0
    {
        offline.conflict(found, "online, which is the same", "another payload than `online`");
        return None;
    }
    Some(Announce {
        topic: table.topic.as_ref()?.value.0.clone(),
        online: table.online.as_ref()?.value.0.clone(),
        offline: table.offline.as_ref()?.value.0.clone(),
        qos: table.qos.as_ref().map(qos)?,
        retain: table.retain.as_ref()?.value.0,
    })
}
