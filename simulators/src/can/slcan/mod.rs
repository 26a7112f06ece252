//! CAN adapters on a serial line, as LAWICEL's CAN232 and its many clones, on pseudo-terminals and over TCP.
//!
//! Owns starting, stopping and unplugging; what an adapter says is its own matter.

mod adapter;
#[cfg(unix)]
mod pty;
mod session;

use std::{io, net::SocketAddr};

use super::{bus::Bus, net};

#[cfg(unix)]
pub use unix::Port;

/// Adapters behind a TCP port, one for each connection. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Server {
    server: net::Server,
}

impl Server {
    /// Adapters on this bus; port 0 takes a free port. To be called within a tokio runtime.
    pub fn start(bus: &Bus, addr: SocketAddr) -> io::Result<Self> {
        let bus = bus.clone();
        let serve = move |socket| {
            let bus = bus.clone();
            async move { session::serve(socket, &bus).await }
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

#[cfg(unix)]
mod unix {
    use std::{
        io,
        path::{Path, PathBuf},
    };

    use tempfile::TempDir;
    use tokio::task::JoinHandle;
    use tokio_util::sync::{CancellationToken, DropGuard};

    use super::{Bus, pty::Pty, session};

    /// An adapter that a host opens by its path, at any speed. Dropping it unplugs it as well, only without waiting.
    #[derive(Debug)]
    pub struct Port {
        bus: Bus,
        path: PathBuf,
        running: Option<(DropGuard, JoinHandle<()>)>,
        /// Holds the link where no path was asked for.
        _folder: Option<TempDir>,
    }

    impl Port {
        /// An adapter at a path of its own. To be called within a tokio runtime.
        pub fn start(bus: &Bus) -> io::Result<Self> {
            let folder = tempfile::Builder::new().prefix("slcan-").tempdir()?;
            let path = folder.path().join("port");
            Self::run(bus, path, Some(folder))
        }

        /// An adapter at this path, where a symbolic link to the pseudo-terminal will stand.
        ///
        /// # Errors
        /// What the system says; `AlreadyExists` where anything but a link to nowhere is there.
        pub fn start_at(bus: &Bus, path: &Path) -> io::Result<Self> {
            Self::run(bus, path.to_owned(), None)
        }

        fn run(bus: &Bus, path: PathBuf, folder: Option<TempDir>) -> io::Result<Self> {
            let mut port = Self { bus: bus.clone(), path, running: None, _folder: folder };
            port.replug()?;
            Ok(port)
        }

        /// What a host opens.
        #[must_use]
        pub fn path(&self) -> &Path {
            &self.path
        }

        /// It is gone from now on, as when a USB adapter is pulled: its path leads nowhere, and a host that has it open is
        /// hung up on.
        pub async fn unplug(&mut self) {
            let Some((stop, task)) = self.running.take() else { return };
            drop(stop);
            if let Err(error) = task.await {
                tracing::warn!(%error, "slcan task failed");
            }
        }

        /// It is back at its path, closed. A host that had it open before must open it again.
        pub fn replug(&mut self) -> io::Result<()> {
            if self.running.is_some() {
                return Ok(());
            }
            let pty = Pty::open(&self.path)?;
            let stop = CancellationToken::new();
            let (bus, stopped) = (self.bus.clone(), stop.clone());
            let task = tokio::spawn(async move {
                if let Some(Err(error)) = stopped.run_until_cancelled(session::serve(pty, &bus)).await {
                    tracing::warn!(%error, "an slcan port failed");
                }
            });
            self.running = Some((stop.drop_guard(), task));
            Ok(())
        }

        /// Stops it; the path is gone when this returns.
        pub async fn stop(mut self) {
            self.unplug().await;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail by a panic")]
mod tests;
