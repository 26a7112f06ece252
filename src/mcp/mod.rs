//! The tag model as an MCP server: resources, tools, subscriptions, over stdio and Streamable HTTP.
//!
//! Owns what an assistant sees and how it is carried. Knows no drivers, no codecs and no raw configuration: it reads
//! the store's snapshots and hands writes to control. A read never reaches a wire.

mod arrival;
mod json;
mod page;
mod resource;
mod server;
mod subscriber;
mod tool;
mod transport;
mod uri;

#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use rmcp::model::ServerConfig;
use tokio::sync::Semaphore;

use crate::{control::Control, store::Store};
use subscriber::Subscriber;
use tool::Tools;

pub use transport::{
    http::{Http, HttpError, bind},
    stdio::{Reader, StdioError, Writer, serve_stdio, stdio},
};

/// How many `subscriptions/listen` requests are served at once, over all clients.
const LISTENERS: usize = 1000;

/// The server: one for all sessions and transports, cheap to clone.
#[derive(Clone)]
pub struct Mcp(Arc<Shared>);

struct Shared {
    store: Arc<Store>,
    control: Arc<Control>,
    notify_min: Duration,
    config: ServerConfig,
    tools: Tools,
    listeners: Arc<Semaphore>,
}

impl Mcp {
    /// Serves `store` and `control`; no subscriber is told of one tag more often than once per `notify_min`.
    #[must_use]
    pub fn new(store: Arc<Store>, control: Arc<Control>, notify_min: Duration) -> Self {
        Self(Arc::new(Shared {
            store,
            control,
            notify_min,
            config: server::config(),
            tools: Tools::new(),
            listeners: Arc::new(Semaphore::new(LISTENERS)),
        }))
    }

    fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    fn control(&self) -> &Arc<Control> {
        &self.0.control
    }

    fn subscriber(&self) -> Subscriber {
        Subscriber::new(self.0.store.subscribe(self.0.notify_min))
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").finish_non_exhaustive()
    }
}
