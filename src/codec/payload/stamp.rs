//! Time that a payload has of its own.

use std::time::{Duration, SystemTime};

use chrono::DateTime;
use rust_decimal::Decimal;

use super::{
    Document, Fault, Path, Problem, Shape,
    document::{Found, Node},
    problem::shown,
};

/// How a payload writes a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clock {
    /// A text with date, time and zone: `2026-03-04T10:20:30Z`, `2026-03-04T10:20:30.5+01:00`. Without a zone it is no
    /// moment, and is refused: the bridge's own zone says nothing about the device's.
    Rfc3339,
    /// Seconds since 1970, as a number or its text; fractions count.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMillis,
}

/// Where a payload says when its values were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub path: Path,
    pub clock: Clock,
}

/// 10000-01-01T00:00:00Z.
const END_SECONDS: u64 = 253_402_300_800;

const A_ZONED_TIME: &str = "it must be like 2026-03-04T10:20:30Z or 2026-03-04T10:20:30+01:00";
const A_ZONE: &str = "it has no zone: it must end in Z or an offset such as +01:00";
const SECONDS: &str = "it must be the seconds since 1970, before the year 10000";
const MILLIS: &str = "it must be the milliseconds since 1970, before the year 10000";

impl Stamp {
    /// The moment that `document` names; `None` where it names none.
    pub fn read(&self, document: &Document<'_>) -> Result<Option<SystemTime>, Fault> {
        let time = match document.find(&self.path) {
            Found::Absent | Found::Null | Found::Node(Node::Null) => return Ok(None),
            Found::Index { index, length } => Err(Problem::Index { index, length }),
            Found::Wrong { found, expected } => Err(Problem::Shape { found, expected }),
            Found::Node(node) => self.moment(node),
        };
        time.map(Some).map_err(|problem| Fault { path: self.path.clone(), problem })
    }

    fn moment(&self, node: &Node<'_>) -> Result<SystemTime, Problem> {
        let text = match (node, self.clock) {
            (Node::Text(text), _) => text.trim().to_owned(),
            (Node::Number(text), Clock::UnixSeconds | Clock::UnixMillis) => (*text).to_owned(),
            (Node::Integer(number), Clock::UnixSeconds | Clock::UnixMillis) => number.to_string(),
            (Node::Float(number), Clock::UnixSeconds | Clock::UnixMillis) => number.to_string(),
            (Node::NotFinite(word), _) => return Err(Problem::NotFinite((*word).to_owned())),
            (node, clock) => {
                let expected = if clock == Clock::Rfc3339 { Shape::Text } else { Shape::Number };
                return Err(Problem::Shape { found: node.shape(), expected });
            }
        };
        let (time, allowed) = match self.clock {
            Clock::Rfc3339
                if chrono::NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S%.f").is_ok() =>
            {
                (None, A_ZONE)
            }
            Clock::Rfc3339 => (zoned(&text), A_ZONED_TIME),
            Clock::UnixSeconds => (since_1970(&text, 1_000_000_000), SECONDS),
            Clock::UnixMillis => (since_1970(&text, 1_000_000), MILLIS),
        };
        time.ok_or_else(|| Problem::Time { text: shown(&text), allowed })
    }
}

fn zoned(text: &str) -> Option<SystemTime> {
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    let seconds = u64::try_from(time.timestamp()).ok()?;
    // A leap second has more than 10⁹ nanoseconds.
    let nanos = time.timestamp_subsec_nanos();
    SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))?
        .checked_add(Duration::from_nanos(nanos.into()))
}

/// The moment that is so many of `unit` nanoseconds after 1970.
fn since_1970(text: &str, unit: u64) -> Option<SystemTime> {
    let number = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text)).ok()?;
    let nanos = u128::try_from(number.checked_mul(unit.into())?.trunc().mantissa()).ok();
    // `trunc` leaves no places, so that the mantissa is the number itself.
    let nanos = nanos.filter(|_| !number.is_sign_negative() || number.is_zero())?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok().filter(|seconds| *seconds < END_SECONDS)?;
    let rest = u32::try_from(nanos % 1_000_000_000).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, rest))
}
