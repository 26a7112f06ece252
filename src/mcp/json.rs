//! Values and readings as JSON.

use std::{collections::BTreeMap, time::SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Number, Value as Json};

use crate::{
    model::{Access, Kind, Quality, Tag, Value},
    store::{DeviceEntry, DeviceReading, Reading, TagEntry},
};

/// One reading, as every tool and resource shows it.
#[derive(Debug, Serialize)]
pub(super) struct TagRow<'a> {
    pub(super) tag: &'a str,
    value: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
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
    /// Elements of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<i64, &'a str>>,
    /// Labels that are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_labels: Option<usize>,
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
        // What is good needs no detail but its label.
        let (said, detail) = match sample.quality {
            Quality::Good => (sample.detail.as_deref(), None),
            _ => (None, sample.detail.as_deref()),
        };
        Self {
            tag: entry.tag.path.as_str(),
            value: value(&sample.value, entry.tag.definition.kind),
            label: label(&entry.tag, &sample.value).or(said).map(str::to_owned),
            unit: entry.tag.definition.unit.as_deref(),
            quality: sample.quality.name(),
            reason: sample.quality.reason().map(crate::model::Reason::name),
            detail: detail.map(str::to_owned),
            source_time: sample.source_time.map(time),
            age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl<'a> Definition<'a> {
    pub(super) fn new(tag: &'a Tag) -> Self {
        let tag = &tag.definition;
        let labels = tag.labels.iter().flat_map(|labels| labels.iter());
        let labels: BTreeMap<_, _> = labels.map(|(number, word)| (number, word.as_ref())).collect();
        Self {
            description: &tag.description,
            kind: tag.kind.name(),
            count: tag.count,
            labels: (!labels.is_empty()).then_some(labels),
            more_labels: None,
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

    /// For among many others: of many labels the first ones.
    pub(super) fn in_short(mut self) -> Self {
        const MOST: usize = 40;
        if let Some(labels) = self.labels.as_mut().filter(|labels| labels.len() > MOST) {
            self.more_labels = Some(labels.len() - MOST);
            while labels.len() > MOST {
                labels.pop_last();
            }
        }
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

/// The word that a tag has for a value.
pub(super) fn label<'a>(tag: &'a Tag, value: &Value) -> Option<&'a str> {
    tag.definition.labels.as_ref()?.of(value).map(AsRef::as_ref)
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
#[expect(clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::model::Labels;

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
        assert_eq!(text(Value::U64((1 << 48) - 1), Kind::Uint48), "281474976710655");
        assert_eq!(text(Value::Text("°C \u{1}".into()), Kind::Text), "\"°C \\u0001\"");
        let array = |values: [Value; 2]| Value::Array(values.into());
        assert_eq!(text(array([Value::F32(0.1), Value::F32(2.0)]), Kind::Float32), "[0.1,2.0]");
        assert_eq!(text(array([Value::U64(1), Value::U64(2)]), Kind::Uint64), "[\"1\",\"2\"]");
        for strange in [Value::F64(f64::NAN), Value::F64(f64::INFINITY), Value::F32(f32::NEG_INFINITY)] {
            assert_eq!(text(strange, Kind::Float64), "null");
        }
    }

    #[test]
    fn many_labels_are_cut_in_lists_only() {
        let labels = Labels::new((0..50).map(|number| (number, format!("w{number}").into())));
        let tag = crate::mcp::tests::plant::a_tag();
        let tag = tag.with(|tag| (tag.labels, tag.count) = (Some(labels.into()), Some(4)));
        let whole = serde_json::to_value(Definition::new(&tag)).unwrap_or_default();
        assert_eq!((&whole["labels"]["49"], &whole["count"]), (&"w49".into(), &4.into()));
        let short = serde_json::to_value(Definition::new(&tag).in_short()).unwrap_or_default();
        assert_eq!(short["labels"].as_object().map(serde_json::Map::len), Some(40));
        assert_eq!((&short["labels"]["39"], &short["more_labels"]), (&"w39".into(), &10.into()));
    }

    #[test]
    fn times_have_milliseconds_and_a_z() {
        assert_eq!(time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }
}
