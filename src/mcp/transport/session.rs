//! Legacy HTTP sessions: who they are, how their messages reach the SDK, and when they end.
//!
//! Notifications are kept nowhere: the stream that a client opens draws them from the store's marks as fast as the
//! client reads. So a client that does not read, or never opens its stream, blocks nothing and costs a bounded amount
//! of memory, and one that opens it late is told of every tag that it subscribed to.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::http::request::Parts;
use futures_util::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
        ErrorData, GetExtensions, RequestId, ServerJsonRpcMessage, ServerNotification,
    },
    transport::{
        Transport,
        common::server_side_http::ServerSseMessage,
        streamable_http_server::{SessionId, SessionManager},
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::mcp::{Mcp, arrival::Arrival, subscriber::Subscriber};

/// Messages of one session that wait for the SDK.
const QUEUED: usize = 16;
/// A session that was used so lately makes no room for others. Whoever reads a stream is seen far more often.
const SPARED: Duration = Duration::from_secs(120);
/// Bytes of randomness in an id.
const ID_BYTES: usize = 24;

/// How many sessions there may be, and how long one may stay unused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) sessions: usize,
    pub(super) idle: Duration,
}

/// Why a session cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("there is no such session")]
    Unknown,
    #[error("the session ended")]
    Ended,
    #[error("only requests have answers")]
    NoRequest,
    #[error("there are as many sessions as are allowed")]
    Full,
    #[error("no random numbers for a session id: {0}")]
    Random(String),
}

/// All live sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    mcp: Mcp,
    bounds: Bounds,
    /// Ends all streams, and no calls.
    stop: CancellationToken,
    live: Mutex<HashMap<SessionId, Arc<Session>>>,
}

#[derive(Debug)]
struct Session {
    inbox: mpsc::Sender<ClientJsonRpcMessage>,
    /// Requests whose answer is awaited by an HTTP response.
    pending: Mutex<HashMap<RequestId, oneshot::Sender<ServerJsonRpcMessage>>>,
    subscriber: Arc<Subscriber>,
    /// Ends the stream that is open now: the newest one gets everything.
    stream: Mutex<CancellationToken>,
    ended: CancellationToken,
    began: Instant,
    /// Milliseconds after `began` at which the client was last seen to send, or to read from its stream.
    seen: AtomicU64,
}

impl Session {
    fn touch(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.seen.store(now, Ordering::Relaxed);
    }

    fn idle(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.seen.load(Ordering::Relaxed)))
    }

    /// Ends it: nothing more is taken, what runs is cancelled, and whoever waits is told.
    fn end(&self) {
        self.ended.cancel();
        for (id, answer) in std::mem::take(&mut *self.pending.lock()) {
            refuse(answer, id, ended());
        }
    }
}

fn ended() -> ErrorData {
    let message = "the session ended before there was an answer: read the tag before you repeat a write";
    ErrorData::internal_error(message, None)
}

fn refuse(answer: oneshot::Sender<ServerJsonRpcMessage>, id: RequestId, error: ErrorData) {
    if answer.send(ServerJsonRpcMessage::error(error, Some(id))).is_err() {
        tracing::debug!("the client left before its request was refused");
    }
}

impl Sessions {
    pub(super) fn new(mcp: Mcp, bounds: Bounds, stop: CancellationToken) -> Self {
        Self { mcp, bounds, stop, live: Mutex::default() }
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.live.lock().contains_key(id)
    }

    /// Whether another session can be had; where there are too many, the one that was unused for longest may end.
    pub(super) fn has_room(&self) -> bool {
        let mut live = self.live.lock();
        if live.len() < self.bounds.sessions {
            return true;
        }
        let unused =
            live.iter().filter(|(_, session)| session.idle() > SPARED && session.pending.lock().is_empty());
        let Some(id) = unused.max_by_key(|(_, session)| session.idle()).map(|(id, _)| Arc::clone(id)) else {
            return false;
        };
        if let Some(session) = live.remove(&id) {
            tracing::info!(session = shown(&id), "an unused session made room for another");
            session.end();
        }
        true
    }

    /// Ends the sessions that nobody used for too long; runs until dropped.
    pub(super) async fn sweep(&self) {
        let period = (self.bounds.idle / 10).clamp(Duration::from_secs(1), Duration::from_secs(60));
        loop {
            tokio::time::sleep(period).await;
            let mut live = self.live.lock();
            live.retain(|id, session| {
                let keep = session.idle() < self.bounds.idle || !session.pending.lock().is_empty();
                if !keep {
                    tracing::info!(session = shown(id), "an unused session ended");
                    session.end();
                }
                keep
            });
        }
    }

    fn find(&self, id: &str) -> Result<Arc<Session>, SessionError> {
        let session = self.live.lock().get(id).cloned().ok_or(SessionError::Unknown)?;
        session.touch();
        Ok(session)
    }

    fn open_stream(
        &self,
        id: &str,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let session = self.find(id)?;
        let open = session.ended.child_token();
        {
            // The stream before this one takes no marks once this lock is free again.
            let mut stream = session.stream.lock();
            std::mem::replace(&mut *stream, open.clone()).cancel();
            // The client may have missed what happened while it had no stream, or lost what was on its way.
            session.subscriber.mark_all();
        }
        let subscriber = Arc::clone(&session.subscriber);
        let notifications =
            stream::unfold(VecDeque::new(), move |queue| next(Arc::clone(&subscriber), queue));
        let messages = notifications
            .map(|notification| {
                ServerSseMessage::from_message(ServerJsonRpcMessage::notification(notification))
            })
            .take_until(open.clone().cancelled_owned())
            .take_until(self.stop.clone().cancelled_owned());
        Ok(Watched { session, open, inner: Mutex::new(Box::pin(messages)) })
    }

    /// Ends all sessions.
    pub(super) fn end(&self) {
        for (_, session) in self.live.lock().drain() {
            session.end();
        }
    }
}

/// The next notification, from what was fetched or else from the store's marks.
async fn next(
    subscriber: Arc<Subscriber>,
    mut queue: VecDeque<ServerNotification>,
) -> Option<(ServerNotification, VecDeque<ServerNotification>)> {
    while queue.is_empty() {
        queue.extend(subscriber.next().await);
    }
    queue.pop_front().map(|notification| (notification, queue))
}

/// A stream that keeps its session alive for as long as the client reads from it.
struct Watched {
    session: Arc<Session>,
    open: CancellationToken,
    /// Only ever reached through `&mut`; the lock makes it `Sync`, which the SDK asks for.
    inner: Mutex<Pin<Box<dyn Stream<Item = ServerSseMessage> + Send>>>,
}

impl Stream for Watched {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let session = Arc::clone(&self.session);
        session.touch();
        let _held = session.stream.lock();
        if self.open.is_cancelled() {
            return Poll::Ready(None);
        }
        self.inner.get_mut().as_mut().poll_next(context)
    }
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = Pipe;

    async fn create_session(&self) -> Result<(SessionId, Pipe), SessionError> {
        let id = new_id()?;
        let (inbox, messages) = mpsc::channel(QUEUED);
        let session = Arc::new(Session {
            inbox,
            pending: Mutex::default(),
            subscriber: Arc::new(self.mcp.subscriber()),
            stream: Mutex::default(),
            ended: CancellationToken::new(),
            began: Instant::now(),
            seen: AtomicU64::new(0),
        });
        let mut live = self.live.lock();
        if live.len() >= self.bounds.sessions {
            return Err(SessionError::Full);
        }
        live.insert(Arc::clone(&id), Arc::clone(&session));
        Ok((id, Pipe { session, messages, running: HashSet::new() }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        let answer = self.request(id, message).await?;
        answer.await.map_err(|_dropped| SessionError::Ended)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.knows(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        if let Some(session) = self.live.lock().remove(id) {
            session.end();
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let answer = self.request(id, message).await?;
        // A cancelled request has no answer: then the stream just ends.
        let message = stream::once(answer).filter_map(async |answer| answer.ok());
        Ok(message.map(ServerSseMessage::from_message))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        let session = self.find(id)?;
        // Room first: a client that leaves while it waits for that leaves nothing half done.
        let permit = session.inbox.reserve().await.map_err(|_closed| SessionError::Ended)?;
        if let ClientJsonRpcMessage::Notification(notification) = &mut message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(request) = &cancelled.params.request_id
        {
            session.pending.lock().remove(request);
        }
        permit.send(message);
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        self.open_stream(id)
    }

    async fn resume(
        &self,
        id: &SessionId,
        _last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        // Every stream begins with all that may have been missed: there is nothing to replay.
        self.open_stream(id)
    }
}

impl Sessions {
    /// Hands a request to the SDK; the receiver gets its answer.
    async fn request(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<oneshot::Receiver<ServerJsonRpcMessage>, SessionError> {
        let session = self.find(id)?;
        let ClientJsonRpcMessage::Request(request) = &mut message else {
            return Err(SessionError::NoRequest);
        };
        let (answer, receiver) = oneshot::channel();
        // Room first: a client that leaves while it waits for that leaves nothing half done.
        let permit = session.inbox.reserve().await;
        let mut pending = session.pending.lock();
        let permit = match permit {
            Ok(permit) if !session.ended.is_cancelled() => permit,
            _ => {
                refuse(answer, request.id.clone(), ended());
                return Ok(receiver);
            }
        };
        if pending.contains_key(&request.id) {
            let error = ErrorData::invalid_request("a request with this id has no answer yet", None);
            refuse(answer, request.id.clone(), error);
            return Ok(receiver);
        }
        pending.insert(request.id.clone(), answer);
        let extensions = request.request.extensions_mut();
        extensions.insert(Arc::clone(&session.subscriber));
        let arrival = extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Arrival>()).cloned();
        if let Some(arrival) = arrival {
            extensions.insert(Arrival { session: Some(Arc::clone(id)), ..arrival });
        }
        permit.send(message);
        Ok(receiver)
    }
}

/// A session's messages, as the SDK wants them.
#[derive(Debug)]
pub(super) struct Pipe {
    session: Arc<Session>,
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    /// Requests that the SDK got, and neither answered nor saw cancelled.
    running: HashSet<RequestId>,
}

impl Transport<RoleServer> for Pipe {
    type Error = SessionError;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &item {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = id {
            self.running.remove(id);
        }
        let awaited = id.and_then(|id| self.session.pending.lock().remove(id));
        match awaited.map(|answer| answer.send(item).is_ok()) {
            Some(true) => {}
            Some(false) => tracing::debug!("the client left before its answer came"),
            None => tracing::debug!("a message that no request of the session waits for"),
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = tokio::select! {
            biased;
            () = self.session.ended.cancelled() => return self.take_back(),
            message = self.messages.recv() => message?,
        };
        match &message {
            ClientJsonRpcMessage::Request(request) => drop(self.running.insert(request.id.clone())),
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.running.remove(id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.session.end();
        Ok(())
    }
}

impl Pipe {
    /// Cancels what still runs, one after the other: at the end of its input alone the SDK lets calls run on.
    fn take_back(&mut self) -> Option<ClientJsonRpcMessage> {
        let id = self.running.iter().next().cloned()?;
        self.running.remove(&id);
        let cancelled = CancelledNotificationParam::new(Some(id), Some("the session ended".to_owned()));
        let cancelled = CancelledNotification::new(cancelled);
        Some(ClientJsonRpcMessage::notification(ClientNotification::CancelledNotification(cancelled)))
    }
}

/// 192 bits from the system's secure source, as hex digits.
fn new_id() -> Result<SessionId, SessionError> {
    let mut bytes = [0_u8; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| SessionError::Random(error.to_string()))?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    Ok(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect::<String>().into())
}

/// As much of an id as a log may show.
fn shown(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

#[cfg(test)]
#[expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use futures_util::FutureExt;
    use rmcp::service::serve_server_with_ct;
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::{control::WriteRequest, mcp::tests::plant::Plant, model::Value};

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}"#;

    fn bounds() -> Bounds {
        Bounds { sessions: 10, idle: Duration::from_secs(600) }
    }

    fn message(text: &str) -> ClientJsonRpcMessage {
        serde_json::from_str(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_session_takes_back_what_still_waits() {
        let plant = Plant::new(0);
        plant.turns.forget_permits(1000);
        let sessions = Sessions::new(plant.mcp.clone(), bounds(), CancellationToken::new());
        let (id, pipe) = sessions.create_session().await.unwrap();
        let service = serve_server_with_ct(plant.mcp.clone(), pipe, CancellationToken::new());
        tokio::spawn(async move { service.await.unwrap().waiting().await });
        sessions.initialize_session(&id, message(INITIALIZE)).await.unwrap();
        let mut write = message(
            r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"write_tag","arguments":{"tag":"boiler/setpoint","value":45}}}"#,
        );
        let (handler, mut handlers) = mpsc::channel::<()>(1);
        if let ClientJsonRpcMessage::Request(request) = &mut write {
            request.request.extensions_mut().insert(handler);
        }
        let mut answers = Box::pin(sessions.create_stream(&id, write).await.unwrap());
        plant.reached.acquire().await.unwrap().forget();
        let before = Instant::now();
        sessions.close_session(&id).await.unwrap();
        let answer = answers.next().await.unwrap().message.unwrap();
        let ServerJsonRpcMessage::Error(answer) = &*answer else { panic!("{answer:?}") };
        assert_eq!(answer.id, Some(RequestId::Number(9)));
        assert!(answer.error.message.contains("the session ended"), "{answer:?}");
        assert_eq!(handlers.recv().await, None);
        assert_eq!(before.elapsed(), Duration::ZERO, "the handler ended at once");
        plant.turns.add_permits(2);
        let control = plant.mcp.control();
        let next = WriteRequest {
            tag: "boiler/setpoint".to_owned(),
            value: "50".to_owned(),
            expect: None,
            dry_run: false,
            reason: None,
            caller: "test".to_owned(),
            stamp: control.stamp(),
            cancel: CancellationToken::new(),
        };
        control.write(next).await;
        assert_eq!(*plant.written.lock(), [Value::F64(50.0)]);
    }

    #[tokio::test]
    async fn a_client_that_leaves_a_full_queue_leaves_nothing_behind() {
        let plant = Plant::new(0);
        let sessions = Sessions::new(plant.mcp.clone(), bounds(), CancellationToken::new());
        let (id, _pipe) = sessions.create_session().await.unwrap();
        let ping = |number: usize| message(&format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#));
        for number in 0..QUEUED {
            drop(sessions.create_stream(&id, ping(number)).await.unwrap());
        }
        assert!(sessions.create_stream(&id, ping(QUEUED)).now_or_never().is_none(), "it is full");
        assert_eq!(sessions.find(&id).unwrap().pending.lock().len(), QUEUED);
    }

    #[tokio::test(start_paused = true)]
    async fn the_session_unused_for_longest_makes_room() {
        let plant = Plant::new(0);
        let bounds = Bounds { sessions: 2, idle: Duration::from_secs(3600) };
        let sessions = Sessions::new(plant.mcp.clone(), bounds, CancellationToken::new());
        let (first, _a) = sessions.create_session().await.unwrap();
        advance(Duration::from_secs(60)).await;
        let (second, _b) = sessions.create_session().await.unwrap();
        assert!(!sessions.has_room(), "both were used lately");
        assert!(matches!(sessions.create_session().await, Err(SessionError::Full)));
        advance(Duration::from_secs(100)).await;
        assert!(sessions.has_room());
        assert!(!sessions.knows(&first) && sessions.knows(&second));
    }

    #[tokio::test(start_paused = true)]
    async fn unused_sessions_end_and_those_with_a_reader_do_not() {
        let plant = Plant::new(0);
        let bounds = Bounds { sessions: 10, idle: Duration::from_secs(600) };
        let sessions = Arc::new(Sessions::new(plant.mcp.clone(), bounds, CancellationToken::new()));
        let sweeping = Arc::clone(&sessions);
        tokio::spawn(async move { sweeping.sweep().await });
        let (unused, _a) = sessions.create_session().await.unwrap();
        let (reading, _b) = sessions.create_session().await.unwrap();
        let (deaf, _c) = sessions.create_session().await.unwrap();
        let mut read = sessions.create_standalone_stream(&reading).await.unwrap();
        let _unread = sessions.create_standalone_stream(&deaf).await.unwrap();
        for _ in 0..100 {
            advance(Duration::from_secs(15)).await;
            // As the comments that keep a stream alive make it be polled.
            assert!(futures_util::poll!(read.next()).is_pending());
        }
        sleep(Duration::from_secs(1)).await;
        assert!(sessions.knows(&reading), "somebody reads its stream");
        assert!(!sessions.knows(&unused), "nobody ever used it");
        assert!(!sessions.knows(&deaf), "nobody reads its stream");
    }
}
