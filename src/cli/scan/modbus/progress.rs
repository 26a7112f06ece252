//! How far a scan is: one line that changes on a terminal, else a line in the log every few seconds.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use tracing::info;

use crate::drivers::modbus::scan::{Place, Scan};

/// Between two changes of the line on a terminal, and between two lines of a log.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

#[derive(Debug)]
pub(super) struct Display {
    is_terminal: bool,
    shown: Option<Instant>,
}

impl Display {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), shown: None }
    }

    /// Tells where the scan stands, where it is time for that.
    pub(super) fn show(&mut self, scan: &Scan) {
        let pause = if self.is_terminal { PAUSES.0 } else { PAUSES.1 };
        // In a log the first line comes after a while as well: a short scan needs none.
        let shown = *self.shown.get_or_insert_with(Instant::now);
        if shown.elapsed() < pause {
            return;
        }
        self.shown = Some(Instant::now());
        let text = text(scan.place(), scan.units(), scan.time_left());
        if self.is_terminal {
            write(&format!("\r{text}\x1b[K"));
        } else {
            info!("{text}");
        }
    }

    /// Takes the line away, before something else is said.
    pub(super) fn clear(&mut self) {
        if self.is_terminal && self.shown.take().is_some() {
            write("\r\x1b[K");
        }
    }
}

/// A terminal that takes nothing more is no reason to end a scan.
fn write(text: &str) {
    drop(io::stderr().write_all(text.as_bytes()));
}

fn text(place: Place, units: usize, left: Duration) -> String {
    let place = match place {
        Place::Roll(unit) => format!("calling unit {unit}"),
        Place::Identity(unit) => format!("unit {unit}: identity"),
        Place::Table { unit, table, known, of } => {
            format!("unit {unit}: {} {known} of {of}", table.name())
        }
        Place::Done => "done".to_owned(),
    };
    let s = if units == 1 { "" } else { "s" };
    format!("{place}; {units} unit{s} found; about {} left", span(left))
}

/// A time for people: `45 s`, `2 min 05 s`, `1 h 10 min`.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::modbus::Table;

    #[test]
    fn where_it_stands_in_words() {
        let place = Place::Table { unit: 3, table: Table::Holding, known: 120, of: 1000 };
        assert_eq!(
            text(place, 1, Duration::from_millis(124_100)),
            "unit 3: holding 120 of 1000; 1 unit found; about 2 min 05 s left"
        );
        assert_eq!(
            text(Place::Roll(17), 0, Duration::from_secs(4200)),
            "calling unit 17; 0 units found; about 1 h 10 min left"
        );
        assert_eq!(span(Duration::from_millis(59_500)), "1 min 00 s");
    }
}
