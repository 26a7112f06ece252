//! `check`: what a site file means, or everything that is wrong with it.

mod frame;
mod network;
mod tag;
mod topic;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use super::CheckArgs;
use crate::{
    config::{self, Connection, DeviceSpec, Endpoint, Problems, Site, Transport, Wire},
    model::Access,
};

pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    match config::load(&args.config, std::env::vars_os()) {
        Ok(site) => {
            io::stdout().write_all(render(&site).as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => Ok(refuse(&problems)),
    }
}

/// Prints the problems on stderr, and gives the exit code of a configuration that cannot be used.
#[expect(clippy::print_stderr, reason = "the answer of a command that refuses, apart from its result")]
pub(super) fn refuse(problems: &Problems) -> ExitCode {
    eprint!("{}", render_problems(problems));
    ExitCode::from(2)
}

/// A summary of the site for a person: how every connection, device and tag was understood, then the warnings.
#[must_use]
pub fn render(site: &Site) -> String {
    let mut text = format!(
        "site {}: writes {}, write deadline {} ms\n",
        site.name,
        site.writes.name(),
        site.write_timeout.as_millis()
    );
    let served = match site.server.http {
        Some(address) => format!("http://{address}/mcp"),
        None => "stdio only".to_owned(),
    };
    push(
        &mut text,
        &format!(
            "server: {served}, notifications of one tag at least {} ms apart\n\n",
            site.server.notify_min.as_millis()
        ),
    );
    let tables = [connections(site), files(site), devices(site), tags(site), topics(site), frames(site)];
    for table in tables.into_iter().filter(|table| !table.is_empty()) {
        push(&mut text, &aligned(&table));
        push(&mut text, "\n");
    }
    push(&mut text, &counts(site));
    if !site.warnings.is_empty() {
        push(&mut text, &format!("\n{}:\n", count(site.warnings.len(), "warning")));
        for warning in &site.warnings {
            push(&mut text, &format!("{warning}\n"));
        }
    }
    text
}

/// Every problem on a line of its own, then their number.
#[must_use]
pub fn render_problems(problems: &Problems) -> String {
    format!("{problems}\n\n{}\n", count(problems.len(), "problem"))
}

pub(super) fn push(text: &mut String, more: &str) {
    text.push_str(more);
}

pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn counts(site: &Site) -> String {
    let devices = site.connections.iter().flat_map(|connection| &connection.devices);
    let tags = || devices.clone().flat_map(DeviceSpec::tags);
    let writable = tags().filter(|tag| tag.definition.access == Access::ReadWrite).count();
    format!(
        "{}, {}, {} ({writable} writable)\n",
        count(site.connections.len(), "connection"),
        count(devices.clone().count(), "device"),
        count(tags().count(), "tag"),
    )
}

fn connections(site: &Site) -> Vec<Vec<String>> {
    let mut rows = vec![header(&["CONNECTION", "DRIVER", "ADDRESS", "TIMEOUT", "SETTINGS"])];
    rows.extend(site.connections.iter().map(|Connection { name, endpoint, .. }| {
        let (driver, address, timeout, settings) = match endpoint {
            Endpoint::Modbus(endpoint) => {
                let address = network::address(&endpoint.transport);
                (endpoint.transport.driver(), address, endpoint.timeout, network::settings(endpoint))
            }
            Endpoint::Mqtt(endpoint) => {
                (endpoint.driver(), topic::address(endpoint), endpoint.timeout, topic::settings(endpoint))
            }
            Endpoint::Can(endpoint) => {
                (endpoint.driver(), endpoint.address(), endpoint.timeout, frame::settings(endpoint))
            }
        };
        let timeout = format!("{} ms", timeout.as_millis());
        vec![name.clone(), driver.to_owned(), address, timeout, dash(&settings)]
    }));
    spare(rows)
}

/// The files of TLS connections; nothing where there is no such connection.
fn files(site: &Site) -> Vec<Vec<String>> {
    let mut rows = vec![header(&["CONNECTION", "AUTHORITIES", "CERTIFICATE", "KEY", "SERVER NAME"])];
    rows.extend(site.connections.iter().filter_map(|Connection { name, endpoint, .. }| {
        let tls = match endpoint {
            Endpoint::Modbus(endpoint) => match &endpoint.transport {
                Transport::Tcp { tls, .. } => tls.as_ref()?,
                Transport::RtuTcp { .. } | Transport::Rtu(_) => return None,
            },
            Endpoint::Mqtt(endpoint) => endpoint.tls.as_ref()?,
            Endpoint::Can(_) => return None,
        };
        Some([vec![name.clone()], network::files(tls)].concat())
    }));
    if rows.len() > 1 { rows } else { Vec::new() }
}

fn devices(site: &Site) -> Vec<Vec<String>> {
    let mut rows = vec![header(&["DEVICE", "CONNECTION", "UNIT ID", "MODEL", "TAGS", "DIALECT"])];
    for spec in site.connections.iter().flat_map(|connection| &connection.devices) {
        let (unit_id, dialect) = match &spec.wire {
            Wire::Modbus(device) => {
                let broadcast = if device.broadcast { " (broadcast)" } else { "" };
                (format!("{}{broadcast}", device.unit_id), network::dialect(device))
            }
            Wire::Mqtt(device) => ("-".to_owned(), topic::availability(device)),
            Wire::Can(device) => {
                let source =
                    device.source.map_or_else(|| "-".to_owned(), |source| format!("source {source}"));
                (source, frame::messages(device))
            }
        };
        let model = [spec.device.vendor.as_str(), spec.device.model.as_str()].join(" ");
        rows.push(vec![
            spec.device.name.clone(),
            spec.device.connection.clone(),
            unit_id,
            dash(model.trim()),
            spec.tags().len().to_string(),
            dash(&dialect),
        ]);
    }
    spare(rows)
}

/// Leaves the last column out where it says nothing.
fn spare(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let says = |row: &Vec<String>| row.last().is_some_and(|cell| cell != "-");
    if !rows.iter().skip(1).any(says) {
        for row in &mut rows {
            row.pop();
        }
    }
    rows
}

fn tags(site: &Site) -> Vec<Vec<String>> {
    let devices = site.connections.iter().flat_map(|connection| &connection.devices);
    let devices = devices.filter_map(|device| match &device.wire {
        Wire::Modbus(device) => Some(device),
        Wire::Mqtt(_) | Wire::Can(_) => None,
    });
    let tags = devices.flat_map(|device| device.tags.iter().map(move |spec| tag::row(device, spec)));
    let rows = tags.collect::<Vec<_>>();
    if rows.is_empty() && !site.connections.is_empty() { rows } else { table(&tag::COLUMNS, &rows) }
}

/// The tags of MQTT devices; nothing where there are none.
fn topics(site: &Site) -> Vec<Vec<String>> {
    let devices = site.connections.iter().flat_map(|connection| &connection.devices);
    let devices = devices.filter_map(|device| match &device.wire {
        Wire::Modbus(_) | Wire::Can(_) => None,
        Wire::Mqtt(device) => Some(device),
    });
    let rows = devices.flat_map(|device| device.tags.iter().map(topic::row)).collect::<Vec<_>>();
    if rows.is_empty() { rows } else { table(&topic::COLUMNS, &rows) }
}

/// The tags of CAN devices; nothing where there are none.
fn frames(site: &Site) -> Vec<Vec<String>> {
    let devices = site.connections.iter().flat_map(|connection| &connection.devices);
    let devices = devices.filter_map(|device| match &device.wire {
        Wire::Modbus(_) | Wire::Mqtt(_) => None,
        Wire::Can(device) => Some(device),
    });
    let rows = devices.flat_map(|device| device.tags.iter().map(frame::row)).collect::<Vec<_>>();
    if rows.is_empty() { rows } else { table(&frame::COLUMNS, &rows) }
}

/// Rows under the columns that say something.
fn table(columns: &[(&str, bool)], rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let is_shown = |(column, (_, spare)): &(usize, (&str, bool))| {
        !spare || rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()))
    };
    let shown: Vec<(usize, (&str, bool))> = columns.iter().copied().enumerate().filter(is_shown).collect();
    let mut table = vec![shown.iter().map(|(_, (name, _))| (*name).to_owned()).collect()];
    let cell = |row: &[String], column: usize| dash(row.get(column).map_or("", String::as_str));
    table.extend(rows.iter().map(|row| shown.iter().map(|(column, _)| cell(row, *column)).collect()));
    table
}

pub(super) fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// Rows as lines, each column as wide as its longest cell, but for cells that are far too long.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    const WIDEST: usize = 120;
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count().min(WIDEST));
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            push(&mut line, &format!("{cell:<width$}  "));
        }
        push(&mut text, line.trim_end());
        push(&mut text, "\n");
    }
    text
}
