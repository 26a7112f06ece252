//! Buses in this process: of simulators, and of tests.

use std::{collections::HashMap, fmt, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::bus::{Bus, Failure, Inflow, Received, Unsent};
use crate::codec::can::{Data, Frame};

/// The buses of this process by their names: each is asked for an end of it whenever one is opened.
#[derive(Clone, Default)]
pub struct Buses(Arc<HashMap<String, Attach>>);

/// Attaches to a bus.
pub type Attach = Box<dyn Fn() -> Box<dyn Port> + Send + Sync>;

/// An end of a bus in this process.
pub trait Port: Send {
    /// Hands a frame over at once, or says why not.
    fn send(&mut self, frame: &Data) -> Result<(), Refused>;

    /// Waits for a frame, which may be one of those that were sent here and were on the bus; `None` once the bus is gone.
    /// Cancel-safe.
    fn receive(&mut self) -> BoxFuture<'_, Option<(Frame, bool)>>;

    /// A frame that is there already.
    fn ready(&mut self) -> Option<(Frame, bool)>;

    /// Frames that were lost since they were not taken in time, all of them since this end is there.
    fn lost(&self) -> u64 {
        0
    }
}

/// Why a frame was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Full,
    Unfit,
    Gone,
}

/// An open end.
struct Inside {
    port: Box<dyn Port>,
    lost: u64,
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
        Some(Box::new(Inside { port: attach(), lost: 0 }))
    }
}

impl fmt::Debug for Buses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Bus for Inside {
    fn receive<'a>(&'a mut self, inflow: &'a mut Inflow) -> BoxFuture<'a, Result<(), Failure>> {
        async {
            let mut next = self.port.receive().await;
            if next.is_none() {
                return Err(Failure::adapter("the bus is gone"));
            }
            let at = Instant::now();
            while let Some((frame, is_own)) = next {
                inflow.frames.push(Received { frame, at, is_own, lost: 0 });
                next = if inflow.frames.len() < BATCH { self.port.ready() } else { None };
            }
            let lost = self.port.lost();
            inflow.lost += lost - std::mem::replace(&mut self.lost, lost);
            Ok(())
        }
        .boxed()
    }

    fn send(&mut self, frame: &Data) -> Result<(), Unsent> {
        self.port.send(frame).map_err(|refused| match refused {
            Refused::Full => Unsent::Busy,
            Refused::Unfit => Unsent::Unfit("the bus carries no such frame".to_owned()),
            Refused::Gone => Unsent::Lost(Failure::adapter("the bus is gone")),
        })
    }

    fn has_echo(&self) -> bool {
        true
    }
}
