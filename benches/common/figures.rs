//! The few statistics that tables show, and the machine that they were taken on.

use std::{fs, thread};

/// Median and bounds of several runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) greatest: f64,
}

pub(crate) fn median(values: &[f64]) -> f64 {
    middle(values).median
}

/// The bounds of the middle half, and the median.
pub(crate) fn middle(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = |quarter: usize| {
        let (down, up) = (sorted.get(last * quarter / 4), sorted.get((last * quarter).div_ceil(4)));
        down.zip(up).map_or(f64::NAN, |(down, up)| f64::midpoint(*down, *up))
    };
    Spread { least: at(1), median: at(2), greatest: at(3) }
}

/// What it ran on; `sharers` are the programs that share its cores.
pub(crate) fn machine(sharers: &str) -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "machine: {cores} cores ({}), load average {load} at the start; {sharers} share them",
        model.as_deref().unwrap_or("unknown")
    )
}

/// The time that this share of all keeps.
pub(crate) fn at(times: &[f64], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let place = (last as f64 * share).round() as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}
