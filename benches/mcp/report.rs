//! The tables as they are printed.

use crate::{Arguments, common::figures::Spread, load::Numbers};

/// Least share of the echo's calls per second that is wanted.
const WANTED: f64 = 0.8;

pub(crate) fn speed_head(arguments: &Arguments) {
    let Arguments { pairs, rounds, window_ms, .. } = arguments;
    println!(
        "
read_tags of one tag (fieldbridge) beside echo of that tag's path (bare rmcp server), each a process of its own;
medians over {rounds} rounds of {window_ms} ms with each of {pairs} pairs of processes, the two in turn. stdio and http speak
2025-11-25, http with a session and a connection a client; http modern speaks 2026-07-28. CPU is the server's, a call;
size is an answer's, in bytes. Wanted: calls/s at least {WANTED} of the echo's. The ratio of CPU strays least where other
programs take the cores. In brackets: the middle half of the rounds.
"
    );
    let title = |text: &str| format!("{text:^44}");
    let (ours, theirs) = (title("fieldbridge read_tags"), title("echo"));
    println!("{:<19} {:>4} |{ours}|{theirs}|{:^22}|", "", "out-", "fieldbridge / echo");
    let group = format!("{:>8} {:>9} {:>8} {:>10} {:>4} ", "median", "p99", "calls/s", "CPU", "size");
    println!("{:<19} {:>4} |{group}|{group}| {:<16} {:>4} |", "transport", "std.", "calls/s", "CPU");
}

pub(crate) fn speed_row(name: &str, outstanding: usize, ours: &Numbers, theirs: &Numbers, ratio: Spread) {
    let group = |of: &Numbers| {
        let Numbers { median_us, p99_us, per_second, cpu_us, answer_bytes, .. } = of;
        format!(
            "{median_us:>5.0} µs {p99_us:>6.0} µs {per_second:>8.0} {cpu_us:>7.1} µs {answer_bytes:>4.0} "
        )
    };
    let (us, them) = (group(ours), group(theirs));
    let Spread { least, median, greatest } = ratio;
    let range = format!("({least:.2}–{greatest:.2})");
    let cpu = ours.cpu_us / theirs.cpu_us;
    let verdict = if median < WANTED { " BELOW" } else { "" };
    println!("{name:<19} {outstanding:>4} |{us}|{them}| {median:>4.2} {range:<11} {cpu:>4.2} |{verdict}");
}

pub(crate) fn speed_foot() {
    println!(
        "lean: an echo as fast as the SDK is, with its table of tools kept and stdio_pipes, which the documentation names
beside what its first page has (a table made at every call, and stdio on blocking threads)."
    );
}

pub(crate) fn start_head(starts: usize) {
    println!(
        "\nFrom the start of the process to its first answers over stdio; {starts} starts, the two in turn.\n"
    );
    println!("{:<12} {:<26} {:>9} {:>9} {:>9}", "", "", "least", "median", "most");
}

pub(crate) fn start_row(name: &str, what: &str, unit: &str, run: Spread, wanted: Option<f64>) {
    let Spread { least, median, greatest } = run;
    let wanted = wanted.map_or_else(String::new, |most| {
        let verdict = if median > most { ": ABOVE WHAT IS WANTED" } else { "" };
        format!("  wanted: at most {most} {unit}{verdict}")
    });
    println!("{name:<12} {what:<26} {least:>9.1} {median:>9.1} {greatest:>9.1} {unit}{wanted}");
}
