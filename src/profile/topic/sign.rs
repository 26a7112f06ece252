//! Signs that a device is there: what messages say of it, of whatever device.

use std::sync::Arc;

use super::{Host, check_paths, encoding, path};
use crate::{
    codec::payload::{Encoding, Field, Spec, Word},
    config::{
        problem::{Findings, What},
        read::{At, List},
    },
    model::Kind,
    profile::{
        mqtt::Availability,
        raw::topic::{AvailabilityTable, Topic},
    },
};

/// A sign of a device of which the topic is not filled in.
#[derive(Debug, Clone)]
pub(crate) struct Sign {
    topic: At<Topic>,
    encoding: Encoding,
    field: Arc<Field>,
}

/// Checks the signs of a device.
pub(crate) fn signs(list: Option<&At<List<AvailabilityTable>>>, found: &mut Findings) -> Option<Vec<Sign>> {
    let list = list?;
    let mut signs = Vec::new();
    for at in &list.value.0 {
        let table = &at.value;
        let encoding = encoding(table.encoding.as_ref(), table.path.as_ref(), false);
        check_paths(encoding, table.path.as_ref(), None, found);
        if let Some(at) = table.encoding.as_ref().filter(|at| at.value.0 == Encoding::Binary) {
            at.conflict(found, "words", "text, json, cbor or messagepack");
        }
        let (Some(topic), Some(online), Some(offline)) = (&table.topic, &table.online, &table.offline) else {
            continue;
        };
        if offline.value.0.is_empty() {
            let allowed = "at least one word: without any the device is never known to be away".to_owned();
            found.problems.push(offline.spot.problem(What::NotAllowed { allowed }));
        }
        let online = online.value.0.iter().map(|word| (word.value.0.as_str().into(), Word::Bool(true)));
        let offline = offline.value.0.iter().map(|word| (word.value.0.as_str().into(), Word::Bool(false)));
        let words = online.chain(offline).collect();
        let spec = Spec { words, ..Spec::new(path(table.path.as_ref()), Kind::Bool) };
        match Field::new(spec) {
            Ok(field) => signs.push(Sign { topic: topic.clone(), encoding, field: Arc::new(field) }),
            Err(unfit) => found.problems.push(at.spot.problem(What::Unusable(unfit.to_string()))),
        }
    }
    Some(signs)
}

impl Sign {
    /// The sign of one device.
    pub(crate) fn instantiate(&self, host: &Host<'_>, found: &mut Findings) -> Option<Availability> {
        let pattern = host.bind(&self.topic, found)?;
        let topic = Host::single(&self.topic, &pattern, found)?;
        Some(Availability { topic, encoding: self.encoding, field: Arc::clone(&self.field) })
    }

    /// The names in its topic.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.topic.value.0.names().map(|name| &**name)
    }
}
