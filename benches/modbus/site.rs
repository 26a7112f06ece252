//! The sites that are measured: files below cargo's folder for temporary files, as people would write them.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use fieldbridge::config::{self, Endpoint, ModbusEndpoint, Site, Wire};

use crate::devices::float;

/// Floats that one request can read: two registers each, 125 registers at most.
pub(crate) const BLOCK: usize = 62;

/// One profile and the devices that have it, each on a connection of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    pub(crate) scan_ms: u32,
    /// Age at which a value counts as stale.
    pub(crate) stale_ms: u32,
    /// Units a connection, with unit ids from 1 on.
    pub(crate) units: u8,
    /// The tags in TOML.
    pub(crate) tags: &'a str,
}

/// Path of a tag of the first unit of a connection.
pub(crate) fn path(connection: usize, tag: usize) -> String {
    format!("{}/{}", device(connection, 1), name(tag))
}

/// Name of a device.
pub(crate) fn device(connection: usize, unit: u8) -> String {
    format!("plc-{connection:03}-{unit}")
}

fn name(tag: usize) -> String {
    format!("t{tag:05}")
}

/// So many floats in a row, the first of which can be written.
pub(crate) fn floats(count: usize) -> String {
    let mut text = String::new();
    for index in 0..count {
        let access =
            if index == 0 { "access = \"read-write\"\nwrite = { min = 0.0, max = 10000.0 }\n" } else { "" };
        add(&mut text, index, "float32", 2 * index, access);
    }
    text
}

/// Registers with gaps of 1 to 4 between them, and the addresses.
pub(crate) fn scattered(count: usize) -> (String, Vec<usize>) {
    let (mut text, mut addresses, mut next) = (String::new(), Vec::new(), 0);
    for index in 0..count {
        add(&mut text, index, "uint16", next, "");
        addresses.push(next);
        next += 2 + index * 7 % 4;
    }
    (text, addresses)
}

fn add(text: &mut String, tag: usize, kind: &str, address: usize, rest: &str) {
    let name = name(tag);
    // Writing to a String cannot fail.
    let _ok = writeln!(
        text,
        "[[tags]]\nname = \"{name}\"\ndescription = \"Value {tag} of the line\"\n\
         register = {{ table = \"holding\", address = {address} }}\ntype = \"{kind}\"\nunit = \"m³/h\"\n{rest}"
    );
}

/// What the register at an address holds at first.
pub(crate) fn register(address: usize) -> u16 {
    let [a, b, c, d] = float(address / 2).to_be_bytes();
    if address.is_multiple_of(2) { u16::from_be_bytes([a, b]) } else { u16::from_be_bytes([c, d]) }
}

/// Writes the files of a site; the file that `fieldbridge serve --config` takes.
pub(crate) fn write(plan: Plan<'_>, addresses: impl Iterator<Item = String>) -> Result<PathBuf> {
    let Plan { name, scan_ms, stale_ms, units, tags } = plan;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-modbus").join(name);
    let mut site = format!("[site]\nname = \"{name}\"\nwrites = \"allow\"\n\n");
    for (index, address) in addresses.enumerate() {
        let _ok = writeln!(
            site,
            "[[connections]]\nname = \"line-{index:03}\"\ndriver = \"modbus-tcp\"\naddress = \"{address}\"\n\
             timeout_ms = 5000\n"
        );
        for unit in 1..=units {
            let _ok = writeln!(
                site,
                "[[devices]]\nname = \"{}\"\nconnection = \"line-{index:03}\"\nunit_id = {unit}\n\
                 profile = \"bench/plc\"\n",
                device(index, unit)
            );
        }
    }
    let profile = format!(
        "protocol = \"modbus\"\nvendor = \"bench\"\nmodel = \"PLC\"\nscan_ms = {scan_ms}\nstale_after_ms = {stale_ms}\nbyte_order = \"ABCD\"\n\n{tags}"
    );
    let (file, profile_file) = (folder.join("config/plant.toml"), folder.join("devices/bench/plc.toml"));
    for (file, text) in [(&file, site), (&profile_file, profile)] {
        fs::create_dir_all(file.parent().context("a folder")?)?;
        fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(file)
}

/// Reads a site for a bridge in the benchmark's own process; no setting of the environment counts.
pub(crate) fn load(file: &Path) -> Result<Site> {
    let none: [(String, String); 0] = [];
    config::load(file, none).map_err(|problems| anyhow!("{problems}"))
}

/// The endpoints of a site, to be changed.
pub(crate) fn endpoints(site: &mut Site) -> impl Iterator<Item = &mut ModbusEndpoint> {
    site.connections.iter_mut().filter_map(|connection| match &mut connection.endpoint {
        Endpoint::Modbus(endpoint) => Some(endpoint),
        Endpoint::Mqtt(_) | Endpoint::Can(_) => None,
    })
}

/// Has all tags read without a pause: by a scan interval below what a site file allows, the next round is due before the one
/// before it is over.
pub(crate) fn hurry(site: &mut Site) {
    let devices = site.connections.iter_mut().flat_map(|connection| &mut connection.devices);
    for device in devices {
        let Wire::Modbus(device) = &mut device.wire else { continue };
        for tag in &mut device.tags {
            tag.source.scan = Duration::from_millis(1);
        }
    }
}
