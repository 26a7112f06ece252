//! The socketcand protocol over TCP: CAN frames as text, for clients without a CAN interface of their own.
//!
//! Owns starting and stopping; what happens on a connection is its own matter.

mod session;

use std::{io, net::SocketAddr};

use super::{bus::Bus, net};

/// A server that clients reach the buses of by their names. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Server {
    server: net::Server,
}

impl Server {
    /// Serves these buses; port 0 takes a free port. To be called within a tokio runtime.
    pub fn start(buses: &[Bus], addr: SocketAddr) -> io::Result<Self> {
        let buses = buses.to_vec();
        let serve = move |socket| {
            let buses = buses.clone();
            async move { session::serve(socket, &buses).await }
        };
        Ok(Self { server: net::Server::start(addr, serve)? })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.server.addr
    }

    /// Closes every connection, and returns when the port is free again.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}
