//! One client over a pair of byte streams: one JSON-RPC message a line, and nothing else on the writer.
//!
//! Our own transport under the SDK, since the SDK ends the whole session on a notification before `initialize`,
//! answers some garbage with silence and gives up on answers five seconds after the end of input.

use std::{collections::HashMap, convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, GetExtensions, GetMeta,
        ProtocolVersion, RequestId, ServerJsonRpcMessage,
    },
    service::{ServerInitializeError, serve_server_with_ct},
    transport::Transport,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

pub use super::streams::{Reader, Writer, stdio};
use super::{
    line::{Line, Lines, MOST_BYTES},
    message::{self, Fault, Incoming},
};
use crate::mcp::{Mcp, arrival::Arrival, subscriber::Subscriber};

/// Answers that wait for the writer.
const QUEUED: usize = 64;
/// Bytes that are gathered for one write.
const GATHERED_BYTES: usize = 64 * 1024;
/// Requests that are not done with at which no more input is read: neither answered, nor cancelled and ended.
const IN_FLIGHT: usize = 1024;
/// How long calls may run on after the end of input and after a stop, and how long the writer may take after the last
/// answer.
const DRAIN: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);
const FLUSH: Duration = Duration::from_secs(5);

/// Why serving stdio ended badly.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    #[error("reading from the client failed")]
    Read(#[source] io::Error),
    #[error("writing to the client failed")]
    Write(#[source] io::Error),
    #[error("the session could not be started")]
    Start(#[source] Box<ServerInitializeError>),
}

/// Serves one client until its input ends or `stop` is cancelled; answers in flight are written first.
pub async fn serve_stdio(
    mcp: Mcp,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), StdioError> {
    let link = Arc::new(Link::new(mcp.subscriber()));
    let (answers, queue) = mpsc::channel(QUEUED);
    let writing = tokio::spawn(write(writer, queue, Arc::clone(&link)));
    let cut = CancellationToken::new();
    let transport = Stdio {
        mcp: mcp.clone(),
        lines: Lines::new(reader),
        answers,
        fault: None,
        opened: false,
        is_session: false,
        link: Arc::clone(&link),
        gives_way: false,
        drained: None,
        stop,
        cut: cut.clone(),
    };
    let service = serve_server_with_ct(mcp, transport, cut).await;
    let started = match service {
        Ok(running) => {
            if let Err(error) = running.waiting().await {
                tracing::error!(%error, "the stdio session failed inside");
            }
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(StdioError::Start(Box::new(error))),
    };
    link.ended.cancel();
    finish(writing, &link).await.and(started)
}

/// Gives the writer the time to write what is queued.
async fn finish(mut writing: JoinHandle<io::Result<()>>, link: &Link) -> Result<(), StdioError> {
    let written = match timeout(FLUSH, &mut writing).await {
        Ok(Ok(written)) => written,
        Ok(Err(error)) => Err(io::Error::other(error)),
        Err(_) => {
            writing.abort();
            Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read"))
        }
    };
    if let Some(error) = link.read_error.lock().take() {
        return Err(StdioError::Read(error));
    }
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(StdioError::Write(error)),
        _ => Ok(()),
    }
}

/// What reading, writing and answering share.
#[derive(Debug)]
struct Link {
    subscriber: Arc<Subscriber>,
    /// Requests that are not done with.
    flight: Mutex<HashMap<RequestId, Phase>>,
    /// One of them is.
    landed: Notify,
    /// A legacy session is open: notifications may be sent outside of `subscriptions/listen`.
    legacy: CancellationToken,
    /// No more input: streams are to end.
    ended: CancellationToken,
    /// The writer failed.
    broken: CancellationToken,
    read_error: Mutex<Option<io::Error>>,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its handler runs.
    Running,
    /// Its handler runs, and the SDK drops what it answers.
    Cancelled,
    /// Its handler is gone; the SDK did not pass on its answer yet.
    Handled,
    /// Its answer waits for the writer.
    Sent,
}

/// Goes with a request to its handler, and is dropped when that ends, in whatever way.
#[derive(Debug)]
struct Running {
    id: RequestId,
    link: Arc<Link>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.link.turn(&self.id, |phase| match phase {
            Phase::Running | Phase::Handled => Some(Phase::Handled),
            Phase::Cancelled => None,
            Phase::Sent => Some(Phase::Sent),
        });
    }
}

impl Link {
    fn new(subscriber: Subscriber) -> Self {
        Self {
            subscriber: Arc::new(subscriber),
            flight: Mutex::default(),
            landed: Notify::new(),
            legacy: CancellationToken::new(),
            ended: CancellationToken::new(),
            broken: CancellationToken::new(),
            read_error: Mutex::default(),
        }
    }

    /// Moves a request to its next phase; it is done with where there is none.
    fn turn(&self, id: &RequestId, next: impl FnOnce(Phase) -> Option<Phase>) {
        let mut flight = self.flight.lock();
        let Some(phase) = flight.get_mut(id) else { return };
        if let Some(next) = next(*phase) {
            *phase = next;
        } else {
            flight.remove(id);
            drop(flight);
            self.landed.notify_one();
        }
    }

    /// The SDK answers nothing to what was cancelled, but the handler may run on for a while.
    fn cancel(&self, id: &RequestId) {
        self.turn(id, |phase| match phase {
            Phase::Running | Phase::Cancelled => Some(Phase::Cancelled),
            Phase::Handled => None,
            Phase::Sent => Some(Phase::Sent),
        });
    }

    /// Waits until fewer than `most` requests are not done with, or nobody takes answers any more.
    async fn below(&self, most: usize) {
        while self.flight.lock().len() >= most {
            tokio::select! {
                () = self.landed.notified() => {}
                () = self.broken.cancelled() => return,
            }
        }
    }
}

struct Stdio<R> {
    mcp: Mcp,
    lines: Lines<R>,
    answers: mpsc::Sender<Bytes>,
    /// An answer of ours that is to leave before more is read.
    fault: Option<Bytes>,
    /// The SDK has left its handshake, in which it takes notifications for a fatal error.
    opened: bool,
    /// An `initialize` came.
    is_session: bool,
    link: Arc<Link>,
    /// A call was cancelled: the SDK drops its answer unseen, and such answers would pile up where there is always input.
    gives_way: bool,
    /// Until when calls may run, once the input has ended.
    drained: Option<Instant>,
    stop: CancellationToken,
    /// Cancels handlers, so it comes after the calls were waited for.
    cut: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for Stdio<R> {
    type Error = Infallible;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &item {
            ServerJsonRpcMessage::Response(response) => Some(response.id.clone()),
            ServerJsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        if let Some(id) = &id {
            self.link.turn(id, |_| Some(Phase::Sent));
        }
        let (answers, link) = (self.answers.clone(), Arc::clone(&self.link));
        let encoded = encode(&item);
        async move {
            // Where the writer is gone, receive ends the session.
            if let Some(line) = encoded
                && answers.send(line).await.is_err()
            {
                tracing::debug!("an answer came after the writer had failed");
            }
            if let Some(id) = id {
                link.turn(&id, |_| None);
            }
            Ok(())
        }
    }

    /// Cancel-safe, as the SDK drops this future whenever something else happens.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if self.gives_way {
            // The SDK drops this future where there is an answer, so that all of them go first.
            tokio::task::yield_now().await;
            self.gives_way = false;
        }
        let (broken, stop) = (self.link.broken.clone(), self.stop.clone());
        tokio::select! {
            message = self.next(), if !stop.is_cancelled() => return message,
            () = broken.cancelled() => return None,
            () = stop.cancelled() => {}
        }
        self.drain(GRACE).await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<R: AsyncRead + Send + Unpin> Stdio<R> {
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.fault.is_some() {
                let permit = self.answers.reserve().await.ok()?;
                if let Some(line) = self.fault.take() {
                    permit.send(line);
                }
                continue;
            }
            self.link.below(IN_FLIGHT).await;
            let line = match self.lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return self.drain(DRAIN).await,
                Err(error) => {
                    *self.link.read_error.lock() = Some(error);
                    return self.drain(DRAIN).await;
                }
            };
            let stamp = self.mcp.control().stamp();
            let incoming = match &line {
                Line::Whole(line) => message::parse(line),
                Line::TooLong => {
                    tracing::warn!(most_bytes = MOST_BYTES, "a line from the client is too long");
                    Incoming::Bad(Fault::invalid("the line is longer than 1 MiB"))
                }
            };
            match incoming {
                Incoming::Nothing => {}
                Incoming::Bad(fault) => self.answer(&fault),
                Incoming::Message(message) => {
                    let arrival =
                        Arrival { stamp, stop: self.link.ended.clone(), transport: "stdio", session: None };
                    if let Some(message) = self.admit(*message, arrival) {
                        return Some(message);
                    }
                }
            }
        }
    }

    /// What the SDK gets to see, with what it does not know of.
    fn admit(&mut self, mut message: ClientJsonRpcMessage, arrival: Arrival) -> Option<ClientJsonRpcMessage> {
        match &mut message {
            ClientJsonRpcMessage::Request(request) => {
                if self.is_session && is_bare_discover(&request.request) {
                    let id = Some(request.id.clone());
                    let message = "server/discover is of protocol 2026-07-28: it needs its _meta";
                    self.answer(&Fault { code: ErrorCode::METHOD_NOT_FOUND, message, id });
                    return None;
                }
                let mut flight = self.link.flight.lock();
                if flight.contains_key(&request.id) {
                    drop(flight);
                    let id = Some(request.id.clone());
                    let message = "a request with this id has no answer yet";
                    self.answer(&Fault { code: ErrorCode::INVALID_REQUEST, message, id });
                    return None;
                }
                flight.insert(request.id.clone(), Phase::Running);
                drop(flight);
                self.opened |= opens(&request.request);
                self.is_session |= matches!(request.request, ClientRequest::InitializeRequest(_));
                if matches!(request.request, ClientRequest::SubscribeRequest(_)) {
                    self.link.legacy.cancel();
                }
                let running = Running { id: request.id.clone(), link: Arc::clone(&self.link) };
                let extensions = request.request.extensions_mut();
                extensions.insert(arrival);
                extensions.insert(Arc::clone(&self.link.subscriber));
                extensions.insert(Arc::new(running));
            }
            ClientJsonRpcMessage::Notification(_) if !self.opened => return None,
            ClientJsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::InitializedNotification(_) => self.link.legacy.cancel(),
                ClientNotification::CancelledNotification(cancelled) => {
                    if let Some(id) = &cancelled.params.request_id {
                        self.link.cancel(id);
                        self.gives_way = true;
                    }
                }
                _ => {}
            },
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => return None,
        }
        Some(message)
    }

    fn answer(&mut self, fault: &Fault) {
        let mut answer = fault.answer();
        answer.push(b'\n');
        self.fault = Some(answer.into());
    }

    /// The end of input: streams end, calls run to their end, and their answers are queued.
    async fn drain(&mut self, most: Duration) -> Option<ClientJsonRpcMessage> {
        self.link.ended.cancel();
        // The SDK asks again whenever anything else happens, which gives nobody more time.
        let latest = Instant::now() + most;
        let drained = self.drained.map_or(latest, |drained| drained.min(latest));
        self.drained = Some(drained);
        if timeout_at(drained, self.link.below(1)).await.is_err() {
            tracing::warn!("calls of the client still run, long after its input ended");
            self.cut.cancel();
        }
        None
    }
}

/// A probe that some clients send within a session of the older protocol, which does not know it.
fn is_bare_discover(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::DiscoverRequest(_)) && request.get_meta().protocol_version().is_none()
}

/// Whether the SDK leaves its handshake with this request.
fn opens(request: &ClientRequest) -> bool {
    if matches!(request, ClientRequest::InitializeRequest(_)) {
        return true;
    }
    let meta = request.get_meta();
    !matches!(request, ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_))
        && meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
        && meta.protocol_version().is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
}

fn encode(message: &ServerJsonRpcMessage) -> Option<Bytes> {
    let mut line = match serde_json::to_vec(message) {
        Ok(line) => line,
        Err(error) => {
            tracing::error!(%error, "a message cannot be written as JSON");
            return None;
        }
    };
    line.push(b'\n');
    Some(line.into())
}

/// The one task that writes: answers as they come, and what a legacy session subscribed to as the client reads.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Bytes>,
    link: Arc<Link>,
) -> io::Result<()> {
    let _broken = link.broken.clone().drop_guard();
    let mut gathered = Vec::new();
    loop {
        let notifications = async {
            link.legacy.cancelled().await;
            link.subscriber.next().await
        };
        gathered.clear();
        tokio::select! {
            answer = queue.recv() => {
                let Some(answer) = answer else { break };
                gathered.extend_from_slice(&answer);
                while gathered.len() < GATHERED_BYTES && let Ok(answer) = queue.try_recv() {
                    gathered.extend_from_slice(&answer);
                }
            }
            notifications = notifications, if !link.ended.is_cancelled() => {
                for notification in notifications {
                    let message = ServerJsonRpcMessage::notification(notification);
                    if let Some(line) = encode(&message) {
                        gathered.extend_from_slice(&line);
                    }
                }
            }
        }
        writer.write_all(&gathered).await?;
        writer.flush().await?;
        if gathered.capacity() > 2 * GATHERED_BYTES {
            gathered = Vec::new();
        }
    }
    writer.shutdown().await
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use futures_util::FutureExt;
    use std::fmt::Write;

    use super::*;
    use crate::mcp::tests::plant::Plant;

    const PING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

    const PATIENCE: Duration = Duration::from_millis(1);

    fn transport(plant: &Plant, input: String) -> Stdio<io::Cursor<String>> {
        Stdio {
            mcp: plant.mcp.clone(),
            lines: Lines::new(io::Cursor::new(input)),
            answers: mpsc::channel(QUEUED).0,
            fault: None,
            opened: true,
            is_session: false,
            link: Arc::new(Link::new(plant.mcp.subscriber())),
            gives_way: false,
            drained: None,
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_calls_count_for_as_long_as_they_run() {
        let plant = Plant::new(0);
        let mut input = format!("{PING}\n");
        for id in 1..=2 * IN_FLIGHT {
            let cancel = r#""method":"notifications/cancelled","params":{"requestId":"#;
            writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#).unwrap();
            writeln!(input, r#"{{"jsonrpc":"2.0",{cancel}{id}}}}}"#).unwrap();
        }
        let mut transport = transport(&plant, input);
        // As handlers hold what came with their requests.
        let mut running = std::collections::VecDeque::new();
        while let Ok(message) = timeout(PATIENCE, transport.receive()).await {
            running.push_back(message.unwrap());
        }
        let requests = |message: &&ClientJsonRpcMessage| matches!(message, ClientJsonRpcMessage::Request(_));
        assert_eq!(running.iter().filter(requests).count(), IN_FLIGHT, "no more is read");
        // The first is the ping, which nobody cancelled and nobody answered.
        drop(running.remove(1));
        assert!(timeout(PATIENCE, transport.receive()).await.is_ok(), "one ended: the next is read");
        drop(running);
        let mut read = 0;
        while timeout(PATIENCE, transport.receive()).await.is_ok_and(|message| message.is_some()) {
            read += 1;
        }
        assert!(read > IN_FLIGHT, "to the end of the input: {read}");
        transport.link.turn(&RequestId::Number(0), |_| None);
        assert!(transport.receive().await.is_none());
        assert!(transport.link.flight.lock().is_empty());
    }

    #[tokio::test]
    async fn answers_go_before_input_after_a_cancellation() {
        let plant = Plant::new(0);
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#;
        let mut transport = transport(&plant, format!("{PING}\n{cancel}\n{PING}\n"));
        let _running = transport.receive().now_or_never().unwrap();
        assert!(transport.receive().now_or_never().is_some(), "the cancellation");
        for _ in 0..3 {
            assert!(transport.receive().now_or_never().is_none(), "others have their turn");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_input_waits_for_a_while_however_often_it_is_asked() {
        let plant = Plant::new(0);
        let mut transport = transport(&plant, format!("{PING}\n"));
        let _unanswered = transport.receive().await.unwrap();
        let began = Instant::now();
        let asked_again = Duration::from_secs(7);
        while let Err(_elapsed) = timeout(asked_again, transport.receive()).await {}
        assert!(began.elapsed() < DRAIN + asked_again, "{:?}", began.elapsed());
    }
}
