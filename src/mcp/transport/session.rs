//! Legacy HTTP sessions: who they are, how their messages reach the SDK, and when they end.
//!
//! Notifications are kept nowhere: the stream that a client opens draws them from the store's marks as fast as the
//! client reads. So a client that does not read, or never opens its stream, blocks nothing and costs a bounded amount
//! of memory, and one that opens it late is told of every tag that it subscribed to.

use std::{
    collections::{HashMap, VecDeque},
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
        ClientJsonRpcMessage, ClientNotification, ErrorData, GetExtensions, RequestId, ServerJsonRpcMessage,
        ServerNotification,
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

    fn end(&self) {
        self.ended.cancel();
        self.pending.lock().clear();
    }

    async fn hand_over(&self, message: ClientJsonRpcMessage) -> Result<(), SessionError> {
        self.inbox.send(message).await.map_err(|_closed| SessionError::Ended)
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
        std::mem::replace(&mut *session.stream.lock(), open.clone()).cancel();
        // The client may have missed what happened while it had no stream, or lost what was on its way.
        session.subscriber.mark_all();
        let subscriber = Arc::clone(&session.subscriber);
        let notifications =
            stream::unfold(VecDeque::new(), move |queue| next(Arc::clone(&subscriber), queue));
        let messages = notifications
            .map(|notification| {
                ServerSseMessage::from_message(ServerJsonRpcMessage::notification(notification))
            })
            .take_until(open.cancelled_owned())
            .take_until(self.stop.clone().cancelled_owned());
        Ok(Watched { session, inner: Mutex::new(Box::pin(messages)) })
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
    /// Only ever reached through `&mut`; the lock makes it `Sync`, which the SDK asks for.
    inner: Mutex<Pin<Box<dyn Stream<Item = ServerSseMessage> + Send>>>,
}

impl Stream for Watched {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.session.touch();
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
        Ok((id, Pipe { session, messages }))
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
        if let ClientJsonRpcMessage::Notification(notification) = &mut message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(request) = &cancelled.params.request_id
        {
            session.pending.lock().remove(request);
        }
        session.hand_over(message).await
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
        let (answer, receiver) = oneshot::channel();
        if let ClientJsonRpcMessage::Request(request) = &mut message {
            let mut pending = session.pending.lock();
            if pending.contains_key(&request.id) {
                let error = ErrorData::invalid_request("a request with this id has no answer yet", None);
                let refused = answer.send(ServerJsonRpcMessage::error(error, Some(request.id.clone())));
                debug_assert!(refused.is_ok(), "the receiver is here");
                return Ok(receiver);
            }
            pending.insert(request.id.clone(), answer);
            drop(pending);
            let extensions = request.request.extensions_mut();
            extensions.insert(Arc::clone(&session.subscriber));
            let arrival =
                extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Arrival>()).cloned();
            if let Some(arrival) = arrival {
                extensions.insert(Arrival { session: Some(Arc::clone(id)), ..arrival });
            }
        }
        session.hand_over(message).await?;
        Ok(receiver)
    }
}

/// A session's messages, as the SDK wants them.
#[derive(Debug)]
pub(super) struct Pipe {
    session: Arc<Session>,
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
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
        let awaited = id.and_then(|id| self.session.pending.lock().remove(id));
        match awaited.map(|answer| answer.send(item).is_ok()) {
            Some(true) => {}
            Some(false) => tracing::debug!("the client left before its answer came"),
            None => tracing::debug!("a message that no request of the session waits for"),
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        tokio::select! {
            message = self.messages.recv() => message,
            () = self.session.ended.cancelled() => None,
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.session.end();
        Ok(())
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
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::mcp::tests::plant::Plant;

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
