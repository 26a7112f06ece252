//! `scan`: looks around on a network, and shows what is there as a table and as drafts of profiles.
//!
//! Owns arguments, progress and the end; what is asked is the drivers' matter.

mod can;
mod file;
mod modbus;
mod mqtt;

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};

use crate::config::Connection;

#[derive(Debug, Args)]
pub struct ScanArgs {
    #[command(subcommand)]
    pub network: Network,
}

/// Which kind of network.
#[derive(Debug, Subcommand)]
pub enum Network {
    /// Look which Modbus units answer, what they are, and which addresses can be read; writes nothing
    Modbus(modbus::ModbusArgs),
    /// Listen which topics there are at an MQTT broker, and what their payloads hold; publishes nothing
    Mqtt(mqtt::MqttArgs),
    /// Listen which frames there are on a CAN bus, and which messages of DBC files they are; sends nothing
    Can(can::CanArgs),
}

pub(super) async fn run(args: ScanArgs) -> anyhow::Result<ExitCode> {
    match args.network {
        Network::Modbus(args) => modbus::run(args).await,
        Network::Mqtt(args) => mqtt::run(args).await,
        Network::Can(args) => can::run(args).await,
    }
}

/// The connection of a site by its name.
fn connection(connections: Vec<Connection>, name: &str) -> anyhow::Result<Connection> {
    let names: Vec<String> = connections.iter().map(|connection| format!("`{}`", connection.name)).collect();
    match connections.into_iter().find(|connection| connection.name == name) {
        Some(connection) => Ok(connection),
        None if names.is_empty() => bail!("the site has no connection, so none is named `{name}`"),
        None => bail!("no connection is named `{name}`: allowed is {}", names.join(", ")),
    }
}
