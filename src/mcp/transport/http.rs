//! Streamable HTTP at `/mcp`, on loopback addresses only.
//!
//! Checks what the SDK does not: Origin, batches, bodies that are no messages, sessions that are gone; and stamps
//! every message as it comes in.

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, RETRY_AFTER},
        uri::{Authority, Uri},
    },
    response::{IntoResponse, Response},
    routing::any,
    serve::ListenerExt,
};
use rmcp::{
    model::{ClientJsonRpcMessage, ErrorCode},
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    message::{self, Fault, Incoming},
    session::{Bounds, Sessions},
};
use crate::mcp::{Mcp, arrival::Arrival};

/// Largest body that is read: far more than any of our tools takes, and little enough for many at once.
const MOST_BYTES: usize = 256 * 1024;
/// How long a client may take to send a body.
const BODY: Duration = Duration::from_secs(30);
/// How long calls may run on after the stop, and how long those that are cut then have for their answers.
const GRACE: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_millis(500);
/// A comment on an open stream this often shows whether the client is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const BOUNDS: Bounds = Bounds { sessions: 1000, idle: Duration::from_secs(3600) };

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The first version without sessions.
const MODERN: &str = "2026-07-28";
const JSON: &str = "application/json";
const BOTH: &str = "application/json, text/event-stream";

/// Why HTTP cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("{0}: only loopback addresses such as 127.0.0.1 can be served, since there is no authentication")]
    NotLoopback(SocketAddr),
    #[error("cannot listen on {address}")]
    Bind {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("serving HTTP failed")]
    Serve(#[source] io::Error),
}

/// A bound listener that does not serve yet.
#[derive(Debug)]
pub struct Http {
    listener: TcpListener,
    address: SocketAddr,
    bounds: Bounds,
    grace: Duration,
}

/// Listens on `address`, which must be a loopback address; port 0 takes a free one.
pub async fn bind(address: SocketAddr) -> Result<Http, HttpError> {
    if !address.ip().to_canonical().is_loopback() {
        return Err(HttpError::NotLoopback(address));
    }
    let failed = |source| HttpError::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Http { listener, address, bounds: BOUNDS, grace: GRACE })
}

#[derive(Clone)]
struct Endpoint {
    mcp: Mcp,
    sessions: Arc<Sessions>,
    service: StreamableHttpService<Mcp, Sessions>,
    stop: CancellationToken,
    call: Call,
}

/// Lives for as long as a call runs, also where its client is gone: it goes with the request to the handler.
#[derive(Clone)]
struct Call {
    _running: mpsc::Sender<Infallible>,
}

impl Http {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    #[cfg(test)]
    pub(in crate::mcp) fn with_bounds(mut self, sessions: usize, idle: Duration) -> Self {
        self.bounds = Bounds { sessions, idle };
        self
    }

    #[cfg(test)]
    pub(in crate::mcp) fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Serves until `stop` is cancelled; then streams end, and calls have a few seconds to be answered.
    pub async fn serve(self, mcp: Mcp, stop: CancellationToken) -> Result<(), HttpError> {
        let sessions = Arc::new(Sessions::new(mcp.clone(), self.bounds, stop.clone()));
        // Cancels handlers, so it comes after the calls were waited for.
        let cut = CancellationToken::new();
        let _cut = cut.clone().drop_guard();
        let (running, mut calls) = mpsc::channel(1);
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(cut.clone())
            .with_json_response(true)
            .with_sse_retry(None)
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_max_request_body_bytes(MOST_BYTES)
            .disable_allowed_hosts();
        let factory = mcp.clone();
        let service = StreamableHttpService::new(move || Ok(factory.clone()), Arc::clone(&sessions), config);
        let endpoint = Endpoint {
            mcp,
            sessions: Arc::clone(&sessions),
            service,
            stop: stop.clone(),
            call: Call { _running: running },
        };
        let router =
            Router::new().route("/mcp", any(handle)).route("/mcp/", any(handle)).with_state(endpoint);
        // With Nagle's algorithm every answer on a stream waits for an acknowledgement of the last one.
        let listener = self.listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "no TCP_NODELAY on a connection");
            }
        });
        let served = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
        let drained = async move {
            served.await.map_err(HttpError::Serve)?;
            calls.recv().await;
            Ok(())
        };
        let mut drained = pin!(drained);
        let too_long = async {
            stop.cancelled().await;
            tokio::time::sleep(self.grace).await;
        };
        tokio::select! {
            ended = &mut drained => return ended,
            () = sessions.sweep() => {}
            () = too_long => {}
        }
        tracing::warn!("calls were still running when HTTP stopped");
        sessions.end();
        if let Ok(ended) = timeout(LAST, &mut drained).await {
            return ended;
        }
        cut.cancel();
        timeout(LAST, drained).await.unwrap_or(Ok(()))
    }
}

async fn handle(State(endpoint): State<Endpoint>, request: Request) -> Response {
    match endpoint.answer(request).await {
        Ok(response) | Err(response) => response,
    }
}

impl Endpoint {
    async fn answer(&self, mut request: Request) -> Result<Response, Response> {
        check_origin(&request)?;
        let body = if request.method() == Method::POST {
            check_content(request.headers())?;
            widen_accept(request.headers_mut());
            let body = std::mem::take(request.body_mut());
            let body = tokio::select! {
                biased;
                body = read_body(request.headers(), body) => body?,
                () = self.stop.cancelled() => return Err(stopping()),
            };
            if body.trim_ascii_start().first() == Some(&b'[') {
                return Err(fault(StatusCode::BAD_REQUEST, &bad(&body)));
            }
            Some(body)
        } else {
            None
        };
        self.check_session(&mut request, body.as_deref())?;
        request.extensions_mut().insert(Arrival {
            stamp: self.mcp.control().stamp(),
            stop: self.stop.clone(),
            transport: "http",
            session: None,
        });
        request.extensions_mut().insert(self.call.clone());
        let ends_session = request.method() == Method::DELETE;
        *request.body_mut() = body.clone().map_or_else(Body::empty, Body::from);
        let response = self.service.handle(request).await.map(Body::new);
        // What else could be wrong with the media type was checked: the SDK says this of a body that it cannot read.
        match body {
            Some(body) if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Err(fault(StatusCode::BAD_REQUEST, &bad(&body)))
            }
            // The SDK has no words for a call whose handler was cut.
            Some(body) if response.status() == StatusCode::INTERNAL_SERVER_ERROR => {
                Err(fault(StatusCode::INTERNAL_SERVER_ERROR, &cut(&body)))
            }
            // Done, and nothing more to say: clients take 202 here for a failure.
            _ if ends_session && response.status() == StatusCode::ACCEPTED => {
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            _ => Ok(response),
        }
    }

    /// Answers for sessions that are gone, and for those that cannot be had.
    #[expect(clippy::result_large_err, reason = "a response is what the caller needs, once a request")]
    fn check_session(&self, request: &mut Request, body: Option<&[u8]>) -> Result<(), Response> {
        if is_modern(request.headers()) {
            return Ok(());
        }
        let known =
            request.headers().get(SESSION).map(|id| id.to_str().is_ok_and(|id| self.sessions.knows(id)));
        match known {
            Some(true) => return Ok(()),
            Some(false) if body.is_some_and(is_initialize) => {
                // An id from before a restart: the client gets a new one.
                request.headers_mut().remove(SESSION);
            }
            Some(false) => {
                return Err(plain(StatusCode::NOT_FOUND, "no such session: initialize a new one"));
            }
            None => {}
        }
        if request.method() == Method::POST && !self.sessions.has_room() {
            let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "too many sessions: try again later");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            return Err(response);
        }
        Ok(())
    }
}

fn is_modern(headers: &HeaderMap) -> bool {
    headers.get(VERSION).and_then(|version| version.to_str().ok()).is_some_and(|version| version >= MODERN)
}

fn is_initialize(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Method<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Method<'_>>(body).is_ok_and(|body| body.method == "initialize")
}

/// Refuses what a page of a foreign site could send: a browser names the site, or was led here by its name.
#[expect(clippy::result_large_err, reason = "a response is what the caller needs, once a request")]
fn check_origin(request: &Request) -> Result<(), Response> {
    let host = match request.headers().get(HOST) {
        Some(host) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
        None => request.uri().authority().cloned(),
    };
    if !host.is_some_and(|host| is_loopback(host.host())) {
        return Err(plain(
            StatusCode::FORBIDDEN,
            "the Host header must name a loopback address or localhost",
        ));
    }
    let Some(origin) = request.headers().get(ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    if origin.as_ref().and_then(Uri::host).is_some_and(is_loopback) {
        Ok(())
    } else {
        Err(plain(StatusCode::FORBIDDEN, "the Origin header must name a loopback address or localhost"))
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[expect(clippy::result_large_err, reason = "a response is what the caller needs, once a request")]
fn check_content(headers: &HeaderMap) -> Result<(), Response> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(JSON) {
        Ok(())
    } else {
        Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json"))
    }
}

/// Takes `*/*`, and a header that is left out, for what they mean; the SDK wants both types by name.
fn widen_accept(headers: &mut HeaderMap) {
    let anything = headers.get_all(ACCEPT).iter().any(|accept| {
        let accept = accept.to_str().unwrap_or_default();
        accept.split(',').any(|range| range.split(';').next().unwrap_or_default().trim() == "*/*")
    });
    if anything || !headers.contains_key(ACCEPT) {
        headers.insert(ACCEPT, HeaderValue::from_static(BOTH));
    }
}

async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, Response> {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let too_large = || close(plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 256 KiB"));
    if announced.is_some_and(|length| length > MOST_BYTES) {
        return Err(too_large());
    }
    match timeout(BODY, to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(body)) => Ok(body),
        // Either it is too large, or the client is gone and reads no answer.
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(close(plain(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"))),
    }
}

/// What is wrong with a body that the SDK cannot read.
fn bad(body: &[u8]) -> Fault {
    match message::parse(body) {
        Incoming::Bad(fault) => fault,
        Incoming::Message(_) | Incoming::Nothing => Fault::invalid("not a JSON-RPC message"),
    }
}

/// That a call was cut before its answer.
fn cut(body: &[u8]) -> Fault {
    let id = match message::parse(body) {
        Incoming::Message(message) => match *message {
            ClientJsonRpcMessage::Request(request) => Some(request.id),
            _ => None,
        },
        Incoming::Bad(fault) => fault.id,
        Incoming::Nothing => None,
    };
    let message = "the call ended before there was an answer: read the tag before you repeat a write";
    Fault { code: ErrorCode::INTERNAL_ERROR, message, id }
}

fn fault(status: StatusCode, fault: &Fault) -> Response {
    (status, [(CONTENT_TYPE, JSON)], fault.answer()).into_response()
}

fn plain(status: StatusCode, reason: &'static str) -> Response {
    (status, reason).into_response()
}

fn stopping() -> Response {
    close(plain(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"))
}

fn close(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
