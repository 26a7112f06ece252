//! A proxy between a client and a Modbus server that disturbs answers on their way.
//!
//! Owns the two streams of every connection and the pairing of answers with requests. What becomes of an answer is the
//! fault's matter; the server may be any.

use std::{collections::VecDeque, future, io, net::SocketAddr, sync::Mutex};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    fault::{Exchange, Fault, Faults, Step},
    framing::Framing,
    rtu::Side,
    server,
    state::lock,
    tls,
};

/// So many requests of a connection are remembered for an answer that may never come.
const PENDING: usize = 1000;

/// A running proxy. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    faults: Faults,
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens in front of a server; port 0 takes a free port. To be called within a tokio runtime.
    ///
    /// It connects to the server for every client anew, and closes a client's connection where it cannot.
    pub fn start(addr: SocketAddr, server: SocketAddr, framing: Framing) -> io::Result<Self> {
        Self::with(addr, server, framing, Faults::new())
    }

    /// As [`Proxy::start`], with faults that are shared with other streams.
    pub fn with(addr: SocketAddr, server: SocketAddr, framing: Framing, faults: Faults) -> io::Result<Self> {
        Self::listen(addr, server, framing, faults, None)
    }

    /// Speaks TLS with clients and Modbus TCP with the server: faults change what is within the encryption.
    pub fn tls(
        addr: SocketAddr,
        server: SocketAddr,
        identity: &tls::Identity,
        faults: Faults,
    ) -> io::Result<Self> {
        Self::listen(addr, server, Framing::Tcp, faults, Some(identity.acceptor()?))
    }

    fn listen(
        addr: SocketAddr,
        server: SocketAddr,
        framing: Framing,
        faults: Faults,
        tls: Option<TlsAcceptor>,
    ) -> io::Result<Self> {
        let listener = server::listen(addr)?;
        let addr = listener.local_addr()?;
        let stop = CancellationToken::new();
        let serve = {
            let faults = faults.clone();
            move |socket| serve(socket, server, framing, faults.clone(), tls.clone())
        };
        let task = tokio::spawn(server::accept(listener, stop.clone(), serve));
        Ok(Self { addr, faults, stop: stop.drop_guard(), task })
    }

    /// The address that clients connect to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// The faults to come and the record, to be kept beyond the proxy.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// See [`Faults::next`].
    pub fn next(&self, fault: Fault) {
        self.faults.next(fault);
    }

    /// See [`Faults::always`].
    pub fn always(&self, fault: Option<Fault>) {
        self.faults.always(fault);
    }

    /// See [`Faults::requests`].
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<u8>> {
        self.faults.requests()
    }

    /// See [`Faults::sent`].
    #[must_use]
    pub fn sent(&self) -> Vec<Vec<u8>> {
        self.faults.sent()
    }

    /// Stops listening, closes every connection, and returns when all sockets are closed.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "modbus proxy task failed");
        }
    }
}

/// A client's stream, and the socket below it.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Socket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Socket for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

async fn serve(
    client: TcpStream,
    server: SocketAddr,
    framing: Framing,
    faults: Faults,
    tls: Option<TlsAcceptor>,
) -> io::Result<()> {
    let relay = Relay { framing, faults, pending: Mutex::default(), hung: CancellationToken::new() };
    match tls {
        None => relay.run(client, server).await,
        Some(tls) => relay.run(tls.accept(client).await?, server).await,
    }
}

/// How a connection ends.
enum End {
    Close,
    Reset,
}

/// One connection.
struct Relay {
    framing: Framing,
    faults: Faults,
    /// Requests without an answer yet, oldest first.
    pending: Mutex<VecDeque<Bytes>>,
    /// Nothing is read from the client any more.
    hung: CancellationToken,
}

/// An answer's steps, and when the answer came.
type Script = (Instant, Vec<Step>);

impl Relay {
    async fn run<S: Socket>(&self, client: S, server: SocketAddr) -> io::Result<()> {
        let server = TcpStream::connect(server).await?;
        server.set_nodelay(true)?;
        let (answers, requests) = server.into_split();
        let (mut reader, mut writer) = tokio::io::split(client);
        let (scripts, to_play) = mpsc::unbounded_channel();
        let end = tokio::select! {
            ended = self.forward(&mut reader, requests) => ended.map(|()| End::Close),
            played = self.play(to_play, &mut writer) => played,
            // When the server has closed, what it said before is still played.
            () = async {
                if let Err(error) = self.listen(answers, scripts).await {
                    tracing::debug!(%error, "a proxied server's stream ended");
                }
                future::pending::<()>().await;
            } => return Ok(()),
        };
        let mut client = reader.unsplit(writer);
        match end? {
            End::Reset => client.tcp().set_zero_linger(),
            End::Close => client.shutdown().await,
        }
    }

    /// From the client to the server as it comes, until the client closes.
    async fn forward(
        &self,
        client: &mut (impl AsyncRead + Unpin),
        mut server: OwnedWriteHalf,
    ) -> io::Result<()> {
        let (mut chunk, mut inbox) = (BytesMut::new(), BytesMut::new());
        loop {
            let Some(count) = self.hung.run_until_cancelled(client.read_buf(&mut chunk)).await else {
                return future::pending().await;
            };
            if count? == 0 {
                return Ok(());
            }
            inbox.extend_from_slice(&chunk);
            self.note(&mut inbox);
            server.write_all(&chunk).await?;
            chunk.clear();
        }
    }

    /// Records what came from the client, and remembers requests for their answers.
    fn note(&self, inbox: &mut BytesMut) {
        loop {
            let (noise, frame) = match self.framing.take(Side::Request, inbox) {
                Ok(Some(taken)) => taken,
                Ok(None) => return,
                // The server is to judge what is not Modbus.
                Err(_) => return self.faults.asked(&inbox.split()),
            };
            if !noise.is_empty() {
                self.faults.asked(&noise);
            }
            self.faults.asked(&frame);
            let mut pending = lock(&self.pending);
            if pending.len() == PENDING {
                pending.pop_front();
            }
            pending.push_back(frame);
        }
    }

    /// From the server, until it closes.
    async fn listen(
        &self,
        mut server: OwnedReadHalf,
        scripts: mpsc::UnboundedSender<Script>,
    ) -> io::Result<()> {
        let mut inbox = BytesMut::new();
        let mut count = 0;
        while server.read_buf(&mut inbox).await? > 0 {
            while let Some((_, answer)) = self.framing.take(Side::Answer, &mut inbox)? {
                count += 1;
                let request = self.request_of(&answer);
                let exchange = Exchange { framing: self.framing, request: &request, answer: &answer, count };
                if scripts.send((Instant::now(), self.faults.play(&exchange))).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The oldest request that the answer fits; those before it have no answer.
    fn request_of(&self, answer: &[u8]) -> Bytes {
        let mut pending = lock(&self.pending);
        let key = |frame: &[u8]| match self.framing {
            Framing::Tcp => frame.get(..2).map(<[u8]>::to_vec),
            Framing::Rtu => frame.first().map(|unit| vec![*unit]),
        };
        let found = pending.iter().position(|request| key(request) == key(answer));
        found.and_then(|index| pending.drain(..=index).next_back()).unwrap_or_default()
    }

    /// To the client, until a step ends the connection or the server has closed.
    async fn play(
        &self,
        mut scripts: mpsc::UnboundedReceiver<Script>,
        client: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<End> {
        let mut held = None;
        while let Some((arrived, mut steps)) = scripts.recv().await {
            if steps.first() == Some(&Step::Hold) {
                steps.remove(0);
                if held.is_none() {
                    held = Some((arrived, steps));
                    continue;
                }
            }
            for (arrived, steps) in std::iter::once((arrived, steps)).chain(held.take()) {
                for step in steps {
                    match step {
                        Step::Send(bytes) => {
                            self.faults.told(&bytes);
                            client.write_all(&bytes).await?;
                            client.flush().await?;
                        }
                        Step::Wait(time) => sleep_until(arrived + time).await,
                        Step::Pause(time) => sleep(time).await,
                        Step::Close => return Ok(End::Close),
                        Step::Reset => return Ok(End::Reset),
                        Step::Hang => {
                            self.hung.cancel();
                            return future::pending().await;
                        }
                        Step::Hold => {}
                    }
                }
            }
        }
        Ok(End::Close)
    }
}
