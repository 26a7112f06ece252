//! The listening socket and its connections.
//!
//! Owns starting and stopping; what happens on a connection is its own matter.

use std::{io, net::SocketAddr};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{connection, framing::Framing, handle::Handle, tables::Tables, tls};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A running Modbus server over a network. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    handle: Handle,
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves these units, by unit identifier, over Modbus TCP; port 0 takes a free port. To be called within a tokio
    /// runtime, as all ways to start.
    pub fn start(addr: SocketAddr, units: impl IntoIterator<Item = (u8, Tables)>) -> io::Result<Self> {
        Self::serve(addr, &Handle::new(units))
    }

    /// Serves units that exist already, such as those of a server that was stopped, or of one that goes on serving them
    /// by another transport: values, counts and log are theirs.
    pub fn serve(addr: SocketAddr, handle: &Handle) -> io::Result<Self> {
        Self::listen(addr, handle, Framing::Tcp, None)
    }

    /// Serves RTU frames over TCP, as a transparent serial server does: who asks for a unit that does not exist waits.
    pub fn rtu_over_tcp(addr: SocketAddr, handle: &Handle) -> io::Result<Self> {
        Self::listen(addr, handle, Framing::Rtu, None)
    }

    /// Serves Modbus/TCP Security: TLS with certificates on both sides. Connections count from the end of the handshake.
    pub fn tls(addr: SocketAddr, handle: &Handle, identity: &tls::Identity) -> io::Result<Self> {
        Self::listen(addr, handle, Framing::Tcp, Some(identity.acceptor()?))
    }

    fn listen(
        addr: SocketAddr,
        handle: &Handle,
        framing: Framing,
        tls: Option<TlsAcceptor>,
    ) -> io::Result<Self> {
        let listener = listen(addr)?;
        let addr = listener.local_addr()?;
        let stop = CancellationToken::new();
        let serve = {
            let handle = handle.clone();
            move |socket| serve(socket, framing, handle.clone(), tls.clone())
        };
        let task = tokio::spawn(accept(listener, stop.clone(), serve));
        Ok(Self { addr, handle: handle.clone(), stop: stop.drop_guard(), task })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The units, the counts and the log.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Stops listening, closes every connection, and returns when all sockets are closed: the port is free again.
    ///
    /// A client sees the end of the stream; one whose requests were not read yet may see a reset instead.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "modbus server task failed");
        }
    }
}

pub(super) fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Lets the port be bound again while closed connections linger; on Windows it would let two servers share it.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Accepts until it is stopped, and then ends all connections.
pub(super) async fn accept<F>(listener: TcpListener, stop: CancellationToken, serve: impl Fn(TcpStream) -> F)
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
                        tracing::debug!(%peer, %error, "modbus connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a modbus connection");
                // Out of file descriptors, most likely: without a pause this would be a busy loop.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve(
    socket: TcpStream,
    framing: Framing,
    handle: Handle,
    tls: Option<TlsAcceptor>,
) -> io::Result<()> {
    match tls {
        None => connection::serve(socket, framing, handle).await,
        Some(tls) => connection::serve(tls.accept(socket).await?, framing, handle).await,
    }
}
