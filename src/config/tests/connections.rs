//! Connections, how they know their peers, and the dialects of devices.

use std::{path::PathBuf, time::Duration};

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;
use crate::{
    config::{DeviceSpec, Parity, Serial, Tls, Transport},
    profile::modbus::{Dialect, Fallback, PartWrite, Reads, Region, WriteFunction, Writes},
};

/// A folder for a site, with certificates and keys in `tls/`.
fn folder_with_files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("tls");
    std::fs::create_dir(&files).unwrap();
    for name in ["plant", "us", "other"] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(files.join(format!("{name}.pem")), certificate.pem()).unwrap();
        private(&files.join(format!("{name}.key")), &key.serialize_pem());
    }
    folder
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    mode(path, 0o600);
}

#[cfg(unix)]
fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(not(unix))]
fn mode(_: &Path, _: u32) {}

/// The site `name` of the cases, as if it stood in `folder`.
fn in_folder(folder: &TempDir, name: &str) -> Result<Site, Problems> {
    let text = std::fs::read_to_string(format!("tests/cases/config/sites/{name}.toml")).unwrap();
    load_text(&folder.path().join("site.toml"), text, NO_ENV)
}

fn without(folder: &TempDir, text: &str) -> String {
    text.replace(&folder.path().display().to_string(), "(folder)")
}

/// A site with connections of these tables.
fn with_connections(tables: &[&str]) -> String {
    let tables = tables.iter().enumerate();
    let tables = tables.map(|(index, table)| format!("[[connections]]\nname = 'c{index}'\n{table}\n"));
    format!("[site]\nname = 'test'\n{}", tables.collect::<String>())
}

fn endpoint(table: &str) -> ModbusEndpoint {
    let site = text(&with_connections(&[table])).unwrap();
    let Endpoint::Modbus(endpoint) = &site.connections[0].endpoint else { panic!() };
    endpoint.clone()
}

fn device<'a>(site: &'a Site, name: &str) -> &'a DeviceSpec {
    let mut devices = site.connections.iter().flat_map(|connection| &connection.devices);
    devices.find(|spec| spec.device.name == name).unwrap()
}

fn writes(spec: &DeviceSpec) -> Vec<(WriteFunction, Duration)> {
    let points = modbus(spec).tags.iter().map(|tag| &tag.source.point);
    points.map(|point| (point.function, point.settle)).collect()
}

#[test]
fn every_kind_of_connection_is_understood() {
    let folder = folder_with_files();
    let mut site = in_folder(&folder, "connections").unwrap();
    // Columns are as wide as their longest path.
    let relative = |path: &mut PathBuf| *path = path.strip_prefix(folder.path()).unwrap().to_owned();
    for connection in &mut site.connections {
        let Endpoint::Modbus(endpoint) = &mut connection.endpoint else { panic!() };
        if let Transport::Tcp { tls: Some(tls), .. } = &mut endpoint.transport {
            relative(&mut tls.ca);
            tls.identity.iter_mut().for_each(|(certificate, key)| {
                relative(certificate);
                relative(key);
            });
        }
    }
    insta::assert_snapshot!("connections", without(&folder, &check::render(&site)));
}

#[test]
fn what_does_not_go_with_a_driver_is_refused() {
    let folder = folder_with_files();
    let problems = in_folder(&folder, "misplaced").unwrap_err();
    insta::assert_snapshot!("misplaced", without(&folder, &check::render_problems(&problems)));
}

#[test]
fn dialects_are_merged_key_by_key() {
    let site = file("tests/cases/config/sites/dialects.toml").unwrap();
    insta::assert_snapshot!("dialects", check::render(&site));
    let forbidden = vec![Region { table: Table::Holding, first: 10, last: 12 }];
    let reads = Reads { max_gap: 0, max_registers: 16, forbidden, ..Reads::default() };
    let of_profile = Writes { fallback: Fallback::Off, part: PartWrite::Auto };
    let spec = device(&site, "as_profile");
    assert_eq!(modbus(spec).dialect, Dialect { reads: reads.clone(), writes: of_profile });
    let settle = Duration::from_millis(200);
    let (single, multiple) = (WriteFunction::Single, WriteFunction::Multiple);
    assert_eq!(writes(spec), [(multiple, settle), (single, settle), (multiple, settle)]);

    let spec = device(&site, "other");
    let reads = Reads {
        max_registers: 125,
        max_bits: 64,
        one_tag: true,
        forbidden: Vec::new(),
        groups: Vec::new(),
        ..reads
    };
    assert_eq!(
        modbus(spec).dialect,
        Dialect { reads, writes: Writes { part: PartWrite::Mask, ..of_profile } }
    );
    assert_eq!(writes(spec)[..2], [(single, Duration::ZERO), (single, Duration::ZERO)]);

    let spec = device(&site, "grouped");
    assert_eq!(modbus(spec).dialect.reads.max_gap, Reads::default().max_gap);
    assert_eq!(
        modbus(spec).dialect.reads.forbidden[0],
        Region { table: Table::Holding, first: 0, last: 127 }
    );
    assert_eq!(modbus(spec).dialect.reads.groups.len(), 3);
}

#[test]
fn dialects_that_do_not_fit_are_refused() {
    let problems = file("tests/cases/config/sites/misfits.toml").unwrap_err();
    insta::assert_snapshot!("misfits", check::render_problems(&problems));
}

#[test]
fn a_connection_has_the_defaults_of_its_keys() {
    let plain = ModbusEndpoint {
        transport: Transport::Tcp { address: "10.0.0.1:502".to_owned(), tls: None },
        timeout: Duration::from_secs(1),
        connect_delay: Duration::ZERO,
        request_gap: Duration::ZERO,
        idle_close: None,
        max_in_flight: 1,
        check_ids: true,
        reconnect: ModbusEndpoint::RECONNECT,
    };
    assert_eq!(endpoint("driver = 'modbus-tcp'\naddress = '10.0.0.1:502'"), plain);
    let serial = Serial { port: "/dev/ttyUSB0".to_owned(), baud: 19_200, parity: Parity::Even, stop_bits: 1 };
    assert_eq!(
        endpoint("driver = 'modbus-rtu'\nport = '/dev/ttyUSB0'"),
        ModbusEndpoint { transport: Transport::Rtu(serial), ..plain }
    );
}

#[test]
fn files_are_looked_for_beside_the_site() {
    let folder = folder_with_files();
    let site = in_folder(&folder, "connections").unwrap();
    let of = |name: &str| {
        let connection = site.connections.iter().find(|connection| connection.name == name).unwrap();
        let Endpoint::Modbus(endpoint) = &connection.endpoint else { panic!() };
        let Transport::Tcp { tls: Some(tls), .. } = &endpoint.transport else { panic!("{endpoint:?}") };
        tls.clone()
    };
    let path = |name: &str| folder.path().join("tls").join(name);
    let identity: Option<(PathBuf, PathBuf)> = Some((path("us.pem"), path("us.key")));
    assert_eq!(of("secure"), Tls { ca: path("plant.pem"), identity, server_name: None });
    let server_name = Some("meter.plant.example".to_owned());
    assert_eq!(of("half"), Tls { ca: path("plant.pem"), identity: None, server_name });
}

#[cfg(unix)]
#[test]
fn a_key_that_everybody_can_read_is_warned_of() {
    let folder = folder_with_files();
    let warned = |site: &Site| site.warnings.iter().filter(|text| text.contains("private key")).count();
    assert_eq!(warned(&in_folder(&folder, "connections").unwrap()), 0);
    mode(&folder.path().join("tls/us.key"), 0o640);
    assert_eq!(warned(&in_folder(&folder, "connections").unwrap()), 0);
    mode(&folder.path().join("tls/us.key"), 0o644);
    let site = in_folder(&folder, "connections").unwrap();
    assert_eq!(warned(&site), 1);
    assert!(site.warnings.iter().any(|text| text.contains("tls.key = \"tls/us.key\": every user")));
}

#[cfg(unix)]
#[test]
fn a_serial_port_has_one_connection_by_whatever_name() {
    let folder = tempfile::tempdir().unwrap();
    let (port, link) = (folder.path().join("ttyUSB0"), folder.path().join("usb-Maker"));
    std::fs::write(&port, "").unwrap();
    std::os::unix::fs::symlink(&port, &link).unwrap();
    let table = |path: &Path| format!("driver = 'modbus-rtu'\nport = '{}'", path.display());
    let site = |one: &Path, other: &Path| text(&with_connections(&[&table(one), &table(other)]));
    let problems = site(&port, &link).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems}");
    let problem = problems.iter().next().unwrap();
    assert_eq!(problem.key, "connections[1].port");
    assert!(matches!(problem.what, What::Duplicate { .. }), "{problem}");
    site(&port, &folder.path().join("ttyUSB1")).unwrap();
    // One that is not plugged in is known by its name alone.
    let away = folder.path().join("away");
    assert_eq!(site(&away, &away).unwrap_err().len(), 1);
}

#[test]
fn the_schema_takes_every_connection_and_dialect() {
    let (site, profile) = (validator(&site_schema()), validator(&profile_schema()));
    for path in ["sites/connections.toml", "sites/dialects.toml", "devices/test/dialect.toml"] {
        let instance = json(&std::fs::read_to_string(format!("tests/cases/config/{path}")).unwrap());
        let schema = if path.starts_with("sites") { &site } else { &profile };
        let errors: Vec<String> = schema.iter_errors(&instance).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
    }
    for refused in [
        "driver = 'modbus-rtu'\nport = ''",
        "driver = 'modbus-rtu'\nport = '/dev/ttyUSB0'\nbaud = 49",
        "driver = 'modbus-rtu'\nport = '/dev/ttyUSB0'\nstop_bits = 3",
        "driver = 'modbus-rtu'\nport = '/dev/ttyUSB0'\nparity = 'mark'",
        "driver = 'modbus-tls'\naddress = 'plc:802'\ntls = { certificate = 'us.pem' }",
        "driver = 'modbus-tcp'\naddress = 'plc:502'\nmax_in_flight = 33",
        "driver = 'modbus-tcp'\naddress = 'plc:502'\ntransaction_ids = 'off'",
    ] {
        let refused = with_connections(&[refused]);
        assert!(text(&refused).is_err(), "read: {refused}");
        assert!(!site.is_valid(&json(&refused)), "schema: {refused}");
    }
}
