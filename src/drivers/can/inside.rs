//! Buses in this process: of simulators, and of tests.

use std::{collections::HashMap, fmt, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    sync::mpsc::{Receiver, Sender, error::TrySendError},
    time::Instant,
};

use super::bus::{Bus, Failure, Inflow, Received, Unsent};
use crate::codec::can::{Data, Frame};

/// The buses of this process by their names: each is asked for an end of it whenever one is opened.
#[derive(Clone, Default)]
pub struct Buses(Arc<HashMap<String, Attach>>);

type Attach = Box<dyn Fn() -> Port + Send + Sync>;

/// An end of a bus in this process.
#[derive(Debug)]
pub struct Port {
    /// Takes frames to the bus.
    pub sender: Sender<Data>,
    /// Frames from the bus, each with whether it is one of those that were sent here.
    pub receiver: Receiver<(Frame, bool)>,
}

/// Frames that are taken at once.
const BATCH: usize = 256;

impl Buses {
    #[must_use]
    pub fn new(buses: impl IntoIterator<Item = (String, Attach)>) -> Self {
        Self(Arc::new(buses.into_iter().collect()))
    }

    /// An end of the bus of this name.
    pub(super) fn attach(&self, name: &str) -> Option<Box<dyn Bus>> {
        let attach = self.0.get(name)?;
        Some(Box::new(attach()))
    }
}

impl fmt::Debug for Buses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Bus for Port {
    fn receive<'a>(&'a mut self, inflow: &'a mut Inflow) -> BoxFuture<'a, Result<(), Failure>> {
        async {
            let first = self.receiver.recv().await.ok_or_else(|| Failure::adapter("the bus is gone"))?;
            let at = Instant::now();
            let mut next = Some(first);
            while let Some((frame, is_own)) = next {
                inflow.frames.push(Received { frame, at, is_own });
                next = if inflow.frames.len() < BATCH { self.receiver.try_recv().ok() } else { None };
            }
            Ok(())
        }
        .boxed()
    }

    fn send(&mut self, frame: &Data) -> Result<(), Unsent> {
        self.sender.try_send(*frame).map_err(|error| match error {
            TrySendError::Full(_) => Unsent::Busy,
            TrySendError::Closed(_) => Unsent::Lost(Failure::adapter("the bus is gone")),
        })
    }

    fn has_echo(&self) -> bool {
        true
    }
}
