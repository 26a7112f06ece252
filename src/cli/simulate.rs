//! `simulate`: the simulators alone, until a signal.

use std::process::ExitCode;

use anyhow::Context;
use tracing::info;

use super::{
    SimulateArgs,
    signals::{Signal, Signals},
};

pub(super) async fn run(args: SimulateArgs) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let address = args.modbus;
    let house = simulators::boiler::House::start(address);
    let house = house.with_context(|| format!("cannot listen for Modbus TCP at {address}"))?;
    info!("boiler house: Modbus TCP at {}, unit 1 (profile demo/boiler)", house.local_addr());
    while signals.next().await != Signal::Stop {}
    house.stop().await;
    Ok(ExitCode::SUCCESS)
}
