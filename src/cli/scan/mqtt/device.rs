//! Devices, told apart by what the names in filters stand for.

use std::collections::BTreeMap;

use super::field::Content;
use crate::{codec::topic::Pattern, drivers::mqtt::scan::Heard};

/// What was heard, device by device.
#[derive(Debug)]
pub(super) struct Devices(pub(super) Vec<Device>);

/// Topics with the same names, or those without any.
#[derive(Debug)]
pub(super) struct Device {
    /// What the names stand for, in the order of the filters.
    pub(super) captures: Vec<(String, String)>,
    pub(super) topics: Vec<Part>,
}

/// One topic of a device.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) topic: String,
    /// The topic as a profile has it, with its names; `None` where a profile cannot have it.
    pub(super) template: Option<String>,
    /// The levels behind the last name, from which tags have theirs.
    pub(super) tail: Vec<String>,
    pub(super) content: Content,
}

impl Devices {
    pub(super) fn of(heard: &Heard, filters: &[Pattern]) -> Self {
        let mut devices = BTreeMap::<Vec<(String, String)>, Vec<Part>>::new();
        for (topic, said) in &heard.topics {
            let matches = |filter: &&Pattern| filter.matches(topic).is_some();
            let named = filters.iter().filter(|filter| filter.names().next().is_some());
            // What tells devices apart is worth more than what does not.
            let Some(filter) = named.chain(filters).find(matches) else { continue };
            let found = filter.matches(topic).unwrap_or_default();
            let mut captures = Vec::new();
            for (name, text) in found {
                let pair = (name.to_string(), text.to_owned());
                if !captures.contains(&pair) {
                    captures.push(pair);
                }
            }
            let (template, tail) = template(topic, filter);
            let content = Content::of(&said.payload, said.size);
            let part = Part { topic: topic.clone(), template, tail, content };
            devices.entry(captures).or_default().push(part);
        }
        Self(devices.into_iter().map(|(captures, topics)| Device { captures, topics }).collect())
    }
}

impl Device {
    /// What it is called, as far as a filter has names.
    pub(super) fn name(&self) -> String {
        self.captures.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("/")
    }
}

/// A topic with the names of the filter that it came by, and its levels behind the last of them.
fn template(topic: &str, filter: &Pattern) -> (Option<String>, Vec<String>) {
    let spelt = filter.to_string();
    let mut pattern = spelt.split('/').map(|level| level.contains('{').then_some(level));
    let levels = topic.split('/').map(|level| (level, pattern.next().flatten())).collect::<Vec<_>>();
    let tail = levels.iter().rposition(|(_, named)| named.is_some()).map_or(0, |last| last + 1);
    let tail = levels.iter().skip(tail).map(|(level, _)| (*level).to_owned()).collect();
    let text = levels.iter().map(|(level, named)| named.unwrap_or(level)).collect::<Vec<_>>().join("/");
    // Braces in the topic itself would be names of their own.
    let own = Pattern::parse(&text).ok().filter(|pattern| pattern.names().eq(filter.names()));
    (own.map(|_| text), tail)
}
