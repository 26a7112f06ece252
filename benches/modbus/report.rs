//! The lines as they are printed.

use crate::common::figures::{Spread, middle};

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    Least(f64),
    Most(f64),
}

impl Wanted {
    fn text(self, value: f64) -> String {
        let (bound, limit, missed) = match self {
            Self::Least(limit) => ("least", limit, value < limit),
            Self::Most(limit) => ("most", limit, value > limit),
        };
        format!("  wanted: at {bound} {limit}{}", if missed { ": MISSED" } else { "" })
    }
}

/// What follows, and how it was measured.
pub(crate) fn section(title: &str, about: &str) {
    println!("\n{title}\n{about}\n");
}

/// One figure.
pub(crate) fn figure(name: &str, value: f64, unit: &str, note: &str) {
    println!("  {name:<38} {:>12} {unit:<12} {note}", number(value));
}

/// One figure, and what it should be.
pub(crate) fn judged(name: &str, value: f64, unit: &str, wanted: Wanted) {
    figure(name, value, unit, &wanted.text(value));
}

/// A ratio taken in several rounds: its median, the middle half of the rounds, and what it should be.
pub(crate) fn ratio(name: &str, rounds: &[f64], wanted: Option<Wanted>) {
    let Spread { least, median, greatest } = middle(rounds);
    let verdict = wanted.map_or_else(String::new, |wanted| wanted.text(median));
    figure(name, median, "", &format!("({least:.2}–{greatest:.2}){verdict}"));
}

/// Figures of very unlike size, with about as many digits as mean something.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
