//! The messages of DBC files by the frames that they are.

use std::{collections::HashMap, path::PathBuf};

use crate::{
    codec::can::{Id, j1939::Header},
    profile::dbc::{Dbc, Message},
};

/// Messages of several files; of two for one identifier the one of the first file counts.
pub(super) struct Names<'a> {
    files: &'a [(PathBuf, Dbc)],
    by_id: HashMap<Id, (usize, &'a Message)>,
    by_group: HashMap<u32, (usize, &'a Message)>,
}

impl<'a> Names<'a> {
    pub(super) fn new(files: &'a [(PathBuf, Dbc)]) -> Self {
        let (mut by_id, mut by_group) = (HashMap::new(), HashMap::new());
        for (file, (_, dbc)) in files.iter().enumerate() {
            for message in &dbc.messages {
                by_id.entry(message.id).or_insert((file, message));
                if let Some(header) = Header::of(message.id).filter(|_| message.is_j1939) {
                    by_group.entry(header.pgn).or_insert((file, message));
                }
            }
        }
        Self { files, by_id, by_group }
    }

    /// The message that a frame is.
    pub(super) fn of(&self, id: Id) -> Option<&'a Message> {
        let group = || Header::of(id).and_then(|header| self.by_group.get(&header.pgn));
        self.by_id.get(&id).or_else(group).map(|(_, message)| *message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Name of the file that has the message of a frame, and the message.
    pub(super) fn file(&self, id: Id) -> Option<(&'a std::path::Path, &'a Message)> {
        let group = || Header::of(id).and_then(|header| self.by_group.get(&header.pgn));
        let (file, message) = self.by_id.get(&id).or_else(group)?;
        Some((self.files.get(*file)?.0.as_path(), message))
    }

    /// Messages that no frame was, in the order of the files.
    pub(super) fn missing(&self, heard: impl Fn(&Message) -> bool) -> Vec<&'a Message> {
        let messages = self.files.iter().flat_map(|(_, dbc)| &dbc.messages);
        messages.filter(|message| !heard(message)).collect()
    }
}
