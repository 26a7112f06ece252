//! The listening socket and its connections, served by tokio-modbus.
//!
//! Owns starting and stopping; what a request does is the state's matter.

use std::{
    future::{self, Future},
    io,
    net::SocketAddr,
    pin::Pin,
};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_modbus::{
    ExceptionCode, Response, SlaveRequest,
    server::{Service, tcp},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{handle::Handle, screen::Screen, tables::Tables};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A running Modbus TCP server. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    handle: Handle,
    stop: DropGuard,
    task: JoinHandle<()>,
    /// Ends when the last connection is gone.
    alive: mpsc::Receiver<()>,
}

impl Server {
    /// Serves these units, by unit identifier; port 0 takes a free port. To be called within a tokio runtime.
    pub fn start(addr: SocketAddr, units: impl IntoIterator<Item = (u8, Tables)>) -> io::Result<Self> {
        Self::serve(addr, &Handle::new(units))
    }

    /// Serves units that exist already, such as those of a server that was stopped: values, counts and log go on.
    pub fn serve(addr: SocketAddr, handle: &Handle) -> io::Result<Self> {
        let listener = listen(addr)?;
        let addr = listener.local_addr()?;
        let stop = CancellationToken::new();
        let (guard, alive) = mpsc::channel(1);
        let task = tokio::spawn(run(listener, handle.clone(), guard, stop.clone()));
        Ok(Self { addr, handle: handle.clone(), stop: stop.drop_guard(), task, alive })
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
        let Self { stop, task, mut alive, .. } = self;
        drop(stop);
        if let Err(error) = task.await {
            tracing::warn!(%error, "modbus server task failed");
        }
        while alive.recv().await.is_some() {}
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Lets the port be bound again while closed connections linger; on Windows it would let two servers share it.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

async fn run(listener: TcpListener, handle: Handle, alive: mpsc::Sender<()>, stop: CancellationToken) {
    let server = tcp::Server::new(listener);
    let accept = |socket: TcpStream, peer: SocketAddr| {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        let transport = Screen::new(socket, handle.clone(), alive.clone());
        future::ready(Ok(Some((Requests(handle.clone()), transport))))
    };
    let ended = |error| tracing::debug!(%error, "modbus connection ended");
    tokio::select! {
        result = server.serve(&accept, ended) => {
            if let Err(error) = result {
                tracing::warn!(%error, "modbus server stopped listening");
            }
        }
        () = stop.cancelled() => {}
    }
}

/// The units as a service of tokio-modbus.
struct Requests(Handle);

impl Service for Requests {
    type Request = SlaveRequest<'static>;
    type Response = Option<Response>;
    type Exception = ExceptionCode;
    type Future = Pin<Box<dyn Future<Output = Result<Option<Response>, ExceptionCode>> + Send>>;

    fn call(&self, SlaveRequest { slave, request }: Self::Request) -> Self::Future {
        let answer = self.0.answer(slave, &request);
        Box::pin(async move {
            if !answer.delay.is_zero() {
                tokio::time::sleep(answer.delay).await;
            }
            answer.result
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;
    use tokio_modbus::Request;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn holds_an_answer_back_and_carries_it_out_at_once() {
        let mut tables = Tables::new();
        tables.set_holdings(0, &[1]);
        let handle = Handle::new([(1, tables), (2, Tables::new())]);
        let service = Requests(handle.clone());
        let unit = handle.unit(1).unwrap();
        unit.delay(Duration::from_secs(3));
        let start = Instant::now();

        let write = SlaveRequest { slave: 1, request: Request::WriteSingleRegister(0, 7) };
        let answer = service.call(write);
        assert_eq!(unit.holding(0), Some(7));
        assert_eq!(answer.await, Ok(Some(Response::WriteSingleRegister(0, 7))));
        assert_eq!(start.elapsed(), Duration::from_secs(3));

        let other = SlaveRequest { slave: 2, request: Request::ReadCoils(0, 1) };
        assert_eq!(service.call(other).await, Err(ExceptionCode::IllegalDataAddress));
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }
}
