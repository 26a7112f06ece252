//! Listens on a bus for a while, to see which frames there are; sends nothing.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Buses, Can, Memory,
    bus::{Bus, Inflow, Received},
};
use crate::{
    codec::can::{Frame, Id, Payload},
    config::{Adapter, CanEndpoint},
    link::LinkError,
};

/// What was heard.
#[derive(Debug, Default)]
pub struct Heard {
    pub ids: BTreeMap<Id, Seen>,
    pub frames: u64,
    /// Frames of identifiers for which there was no more room.
    pub left_out: u64,
    /// What the bus told of itself, each with how often.
    pub errors: BTreeMap<String, u64>,
    /// Frames that were lost before they could be read.
    pub lost: u64,
    /// What was no frame.
    pub garbled: u64,
}

/// The frames of one identifier.
#[derive(Debug, Clone)]
pub struct Seen {
    pub frames: u64,
    /// How many of these ask for a frame.
    pub remote: u64,
    pub first: Instant,
    pub last: Instant,
    /// Shortest and longest time between two of them.
    pub gap: Option<(Duration, Duration)>,
    /// Shortest and longest payload.
    pub length: (usize, usize),
    pub is_fd: bool,
    pub payload: Payload,
    /// Bits that were not the same in all of them, by byte.
    pub changed: Vec<u8>,
}

/// An open bus that is listened to.
pub struct Scan {
    bus: Box<dyn Bus>,
    address: String,
    is_log: bool,
    most: usize,
    heard: Heard,
}

impl Scan {
    /// Opens a bus; of more than `most` identifiers only the number of frames is known.
    pub async fn open(mut endpoint: CanEndpoint, most: usize) -> Result<Self, LinkError> {
        (endpoint.listen_only, endpoint.fd) = (true, true);
        endpoint.send.clear();
        let (address, is_log) = (endpoint.address(), matches!(endpoint.adapter, Adapter::Replay { .. }));
        let can = Can::new(endpoint, &[], Buses::default(), Memory::default(), Arc::default());
        Ok(Self { bus: can.open().await?, address, is_log, most, heard: Heard::default() })
    }

    /// Listens until `end`, until the bus is lost, or until a log is over.
    pub async fn listen(&mut self, end: impl Future<Output = ()>) -> Result<(), LinkError> {
        let (mut end, mut inflow) = (pin!(end), Inflow::default());
        loop {
            tokio::select! {
                biased;
                () = &mut end => return Ok(()),
                received = self.bus.receive(&mut inflow) => {
                    let is_over = self.is_log && inflow.news.is_some();
                    self.heard.take(&mut inflow, self.most);
                    if is_over {
                        return Ok(());
                    }
                    received.map_err(|failure| {
                        let (address, problem) = (self.address.clone(), failure.to_string());
                        LinkError { address, problem, lasting: false }
                    })?;
                }
            }
        }
    }

    #[must_use]
    pub fn heard(&self) -> &Heard {
        &self.heard
    }
}

impl Heard {
    /// From the first to the last frame that is known.
    #[must_use]
    pub fn span(&self) -> Option<Duration> {
        let first = self.ids.values().map(|seen| seen.first).min()?;
        let last = self.ids.values().map(|seen| seen.last).max()?;
        Some(last.saturating_duration_since(first))
    }

    fn take(&mut self, inflow: &mut Inflow, most: usize) {
        self.lost += std::mem::take(&mut inflow.lost);
        self.lost += inflow.frames.iter().map(|received| received.lost).sum::<u64>();
        self.garbled += std::mem::take(&mut inflow.garbled);
        (inflow.refused, inflow.news) = (0, None);
        for received in inflow.frames.drain(..) {
            self.frame(&received, most);
        }
    }

    fn frame(&mut self, received: &Received, most: usize) {
        let (id, payload, is_fd, is_remote) = match &received.frame {
            Frame::Data(data) => (data.id, data.payload, data.fd.is_some(), false),
            Frame::Remote { id, .. } => (*id, Payload::EMPTY, false, true),
            Frame::Error(error) => {
                *self.errors.entry(error.to_string()).or_default() += 1;
                return;
            }
        };
        self.frames += 1;
        if self.ids.len() == most && !self.ids.contains_key(&id) {
            self.left_out += 1;
            return;
        }
        let len = payload.len();
        let new = || Seen {
            frames: 0,
            remote: 0,
            first: received.at,
            last: received.at,
            gap: None,
            length: (len, len),
            is_fd,
            payload,
            changed: Vec::new(),
        };
        let seen = self.ids.entry(id).or_insert_with(new);
        if seen.frames > 0 {
            let gap = received.at.saturating_duration_since(seen.last);
            let (shortest, longest) = seen.gap.unwrap_or((gap, gap));
            seen.gap = Some((shortest.min(gap), longest.max(gap)));
        }
        seen.frames += 1;
        seen.last = received.at;
        seen.is_fd |= is_fd;
        if is_remote {
            seen.remote += 1;
            return;
        }
        seen.length = (seen.length.0.min(len), seen.length.1.max(len));
        let before = seen.payload.bytes().iter().chain(std::iter::repeat(&0));
        seen.changed.resize(seen.changed.len().max(len), 0);
        for ((changed, before), now) in seen.changed.iter_mut().zip(before).zip(payload.bytes()) {
            *changed |= before ^ now;
        }
        seen.payload = payload;
    }
}

impl Seen {
    /// Mean time between two frames.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        let gaps = u32::try_from(self.frames.saturating_sub(1)).ok().filter(|gaps| *gaps > 0)?;
        Some(self.last.saturating_duration_since(self.first) / gaps)
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("address", &self.address).finish_non_exhaustive()
    }
}
