//! The tags and devices of one configuration, ordered, for listing and looking up.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use hashbrown::HashTable;

use crate::{
    link::Counters,
    model::{Device, DeviceId, Tag, TagId},
};

/// Longest text that is compared with paths.
const COMPARED_BYTES: usize = 200;
/// How many tags a text is compared with, those of its own device first.
const COMPARED_TAGS: usize = 5000;

/// Everything that one configuration serves. It never changes; a reload puts another in its place.
#[derive(Debug, Default)]
pub struct Catalogue {
    pub site: Arc<str>,
    /// Counts the configurations of this process.
    pub generation: u64,
    tags: Vec<TagEntry>,
    devices: Vec<DeviceEntry>,
    /// Where in `tags` each path is.
    places: HashTable<u32>,
    hasher: RandomState,
}

/// A tag and its number in the store.
#[derive(Debug, Clone)]
pub struct TagEntry {
    pub id: TagId,
    pub tag: Arc<Tag>,
    pub device: DeviceId,
}

/// A device and its number in the store.
#[derive(Debug, Clone)]
pub struct DeviceEntry {
    pub id: DeviceId,
    pub device: Arc<Device>,
    /// Of the link that the device is on.
    pub counters: Arc<Counters>,
}

impl Catalogue {
    pub(super) fn new(
        site: &str,
        generation: u64,
        mut tags: Vec<TagEntry>,
        mut devices: Vec<DeviceEntry>,
    ) -> Self {
        // A device's tags must stand together: `/` sorts after `-`, so compare device first.
        tags.sort_by(|a, b| {
            let (a, b) = (&a.tag.path, &b.tag.path);
            a.device().cmp(b.device()).then_with(|| a.cmp(b))
        });
        devices.sort_by(|a, b| a.device.name.cmp(&b.device.name));
        let hasher = RandomState::new();
        let hash =
            |place: &u32| at(&tags, *place).map_or(0, |entry| hasher.hash_one(entry.tag.path.as_str()));
        let mut places = HashTable::with_capacity(tags.len());
        for (place, _) in (0..).zip(&tags) {
            places.insert_unique(hash(&place), place, hash);
        }
        Self { site: site.into(), generation, tags, devices, places, hasher }
    }

    /// All tags, ordered by device and path.
    #[must_use]
    pub fn tags(&self) -> &[TagEntry] {
        &self.tags
    }

    /// All devices, ordered by name.
    #[must_use]
    pub fn devices(&self) -> &[DeviceEntry] {
        &self.devices
    }

    #[must_use]
    pub fn tag(&self, path: &str) -> Option<&TagEntry> {
        let is_it = |place: &u32| at(&self.tags, *place).is_some_and(|entry| entry.tag.path.as_str() == path);
        at(&self.tags, *self.places.find(self.hasher.hash_one(path), is_it)?)
    }

    #[must_use]
    pub fn device(&self, name: &str) -> Option<&DeviceEntry> {
        let index = self.devices.binary_search_by(|entry| entry.device.name.as_str().cmp(name)).ok()?;
        self.devices.get(index)
    }

    /// The tags of one device, ordered by path.
    #[must_use]
    pub fn tags_of(&self, device: &str) -> &[TagEntry] {
        let start = self.tags.partition_point(|entry| entry.tag.path.device() < device);
        let end = self.tags.partition_point(|entry| entry.tag.path.device() <= device);
        self.tags.get(start..end).unwrap_or_default()
    }

    /// The tag whose path is most like `path`, if one is like it at all. A text that no path comes near in length is
    /// not compared, nor more tags than a person would want to wait for.
    #[must_use]
    pub fn nearest(&self, path: &str) -> Option<&str> {
        if path.len() > COMPARED_BYTES {
            return None;
        }
        let device = path.split_once('/').map_or(path, |(device, _)| device);
        let near = self.tags_of(device).iter().chain(&self.tags).take(COMPARED_TAGS);
        let scored = near.map(|entry| {
            let candidate = entry.tag.path.as_str();
            // Two tags of one device are not alike for that alone.
            let (one, other) = if entry.tag.path.device() == device {
                (
                    path.get(device.len()..).unwrap_or_default(),
                    candidate.get(device.len()..).unwrap_or_default(),
                )
            } else {
                (path, candidate)
            };
            (strsim::normalized_damerau_levenshtein(one, other), candidate)
        });
        scored.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(score, _)| *score > 0.6).map(|(_, path)| path)
    }
}

fn at(tags: &[TagEntry], place: u32) -> Option<&TagEntry> {
    tags.get(usize::try_from(place).ok()?)
}
