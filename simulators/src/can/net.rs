//! Listening sockets and their connections.
//!
//! Owns starting and stopping; what happens on a connection is its own matter.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 64;

/// A running server. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens at `addr` and lets `serve` have every connection.
    pub(super) fn start<F>(
        addr: SocketAddr,
        serve: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Lets the port be bound again while closed connections linger; on Windows it would let two servers share it.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let listener = socket.listen(BACKLOG)?;
        let addr = listener.local_addr()?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, stop.clone(), serve));
        Ok(Self { addr, stop: stop.drop_guard(), task })
    }

    /// Closes all connections, and returns when the port is free again.
    pub(super) async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "can server task failed");
        }
    }
}

async fn accept<F>(listener: TcpListener, stop: CancellationToken, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((socket, peer)) => {
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
                }
                let connection = serve(socket);
                connections.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%peer, %error, "can connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a can connection");
                // Out of file descriptors, most likely: without a pause this would be a busy loop.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    connections.shutdown().await;
}
