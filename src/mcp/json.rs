//! Values and readings as JSON.

use std::{collections::BTreeMap, time::SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Number, Value as Json};

use crate::{
    model::{Access, Kind, Tag, Value},
    store::{DeviceEntry, DeviceReading, Reading, TagEntry},
};

/// One reading, as every tool and resource shows it.
#[derive(Debug, Serialize)]
pub(super) struct TagRow<'a> {
    pub(super) tag: &'a str,
    value: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    quality: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
}

/// What a tag is, apart from its present value.
#[derive(Debug, Serialize)]
pub(super) struct Definition<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'a str>,
    access: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<[Json; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadband: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_after_ms: Option<u64>,
}

/// One device with its states.
#[derive(Debug, Serialize)]
pub(super) struct DeviceRow<'a> {
    device: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    vendor: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    connection: &'a str,
    driver: &'a str,
    address: &'a str,
    link: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_detail: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// When the link or the device last changed its state.
    since: String,
    tags: Counts,
    connection_counts: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Counts {
    good: usize,
    uncertain: usize,
    bad: usize,
}

impl<'a> TagRow<'a> {
    pub(super) fn new(entry: &'a TagEntry, reading: &Reading) -> Self {
        let Reading { sample, age } = reading;
        Self {
            tag: entry.tag.path.as_str(),
            value: value(&sample.value, entry.tag.kind),
            unit: entry.tag.unit.as_deref(),
            quality: sample.quality.name(),
            reason: sample.quality.reason().map(crate::model::Reason::name),
            detail: sample.detail.as_deref().map(str::to_owned),
            source_time: sample.source_time.map(time),
            age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl<'a> Definition<'a> {
    pub(super) fn new(tag: &'a Tag) -> Self {
        Self {
            description: &tag.description,
            kind: tag.kind.name(),
            unit: tag.unit.as_deref(),
            access: match tag.access {
                Access::ReadOnly => "read-only",
                Access::ReadWrite => "read-write",
            },
            range: tag.range.map(|(low, high)| [double(low), double(high)]),
            min: tag.limits.min.map(|limit| limit.normalize().to_string()),
            max: tag.limits.max.map(|limit| limit.normalize().to_string()),
            deadband: tag.deadband.map(double),
            stale_after_ms: tag.stale_after.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl Definition<'_> {
    /// For beside a reading, which has the unit itself.
    pub(super) fn without_unit(mut self) -> Self {
        self.unit = None;
        self
    }
}

impl<'a> DeviceRow<'a> {
    pub(super) fn new(entry: &'a DeviceEntry, reading: &DeviceReading) -> Self {
        let device = &entry.device;
        let counts = reading.counts;
        Self {
            device: &device.name,
            description: &device.description,
            vendor: &device.vendor,
            model: &device.model,
            connection: &device.connection,
            driver: device.driver,
            address: &device.address,
            link: reading.link.name(),
            link_detail: reading.link_detail.as_deref().map(str::to_owned),
            state: reading.state.name(),
            detail: reading.detail.as_deref().map(str::to_owned),
            since: time(reading.since),
            tags: Counts { good: counts.good, uncertain: counts.uncertain, bad: counts.bad },
            connection_counts: entry.counters.all().into(),
        }
    }
}

/// A value of a tag of kind `kind`: 64-bit integers leave as text, `NaN` and infinities as null.
pub(super) fn value(value: &Value, kind: Kind) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::I64(value) if kind.is_wide() => Json::String(value.to_string()),
        Value::U64(value) if kind.is_wide() => Json::String(value.to_string()),
        Value::I64(value) => Json::from(*value),
        Value::U64(value) => Json::from(*value),
        // The shortest text of a float32, not that of the float64 beside it: 49.98, never 49.97999954.
        Value::F32(value) => value.to_string().parse().map_or(Json::Null, double),
        Value::F64(value) => double(*value),
        Value::Text(text) => Json::String(text.as_ref().to_owned()),
        Value::Bytes(_) => Json::String(value.to_string()),
        Value::Array(values) => values.iter().map(|value| self::value(value, kind)).collect(),
    }
}

/// RFC 3339 with milliseconds, in UTC.
pub(super) fn time(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn double(value: f64) -> Json {
    Number::from_f64(value).map_or(Json::Null, Json::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_leave_as_people_read_them() {
        let text = |sample: Value, kind| value(&sample, kind).to_string();
        assert_eq!(text(Value::F32(49.98), Kind::Float32), "49.98");
        assert_eq!(text(Value::F32(f32::MAX), Kind::Float32), "3.4028235e+38");
        assert_eq!(text(Value::F64(30.3), Kind::Int16), "30.3");
        assert_eq!(text(Value::I64(-5), Kind::Int32), "-5");
        assert_eq!(text(Value::I64(i64::MIN), Kind::Int64), "\"-9223372036854775808\"");
        assert_eq!(text(Value::U64(u64::MAX), Kind::Uint64), "\"18446744073709551615\"");
        assert_eq!(text(Value::Text("12345678901234567.8".into()), Kind::Uint64), "\"12345678901234567.8\"");
        assert_eq!(text(Value::Bool(true), Kind::Bool), "true");
        for strange in [Value::F64(f64::NAN), Value::F64(f64::INFINITY), Value::F32(f32::NEG_INFINITY)] {
            assert_eq!(text(strange, Kind::Float64), "null");
        }
    }

    #[test]
    fn times_have_milliseconds_and_a_z() {
        assert_eq!(time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }
}
