//! What a transport knows of a message as it comes in, carried to the handler in the message's extensions.

use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::{RoleServer, model::Extensions, service::RequestContext};
use tokio_util::sync::CancellationToken;

use crate::control::Stamp;

/// Longest name of a client that is passed on to the log.
const NAME_CHARS: usize = 64;

/// Set by the transport on every message, before the SDK spawns anything.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    /// Orders writes by when they came in.
    pub(super) stamp: Stamp,
    /// Cancelled when the transport ends, so that streams end with it.
    pub(super) stop: CancellationToken,
    /// `stdio` or `http`.
    pub(super) transport: &'static str,
    /// The legacy HTTP session that it belongs to.
    pub(super) session: Option<Arc<str>>,
}

impl Arrival {
    /// On stdio it stands in the message's extensions, on HTTP in those of the HTTP request inside them.
    pub(super) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Self>().or_else(|| extensions.get::<Parts>()?.extensions.get::<Self>())
    }
}

/// Who called, for the log: `http claude-desktop 1.2 session ab12cd34`.
pub(super) fn caller(context: &RequestContext<RoleServer>) -> String {
    let arrival = Arrival::of(&context.extensions);
    let mut text = arrival.map_or("mcp", |arrival| arrival.transport).to_owned();
    if let Some(client) = context.client_info() {
        for part in [&client.name, &client.version] {
            text.push(' ');
            text.extend(part.chars().filter(|c| !c.is_control()).take(NAME_CHARS));
        }
    }
    if let Some(session) = arrival.and_then(|arrival| arrival.session.as_ref()) {
        text.push_str(" session ");
        text.extend(session.chars().filter(char::is_ascii_alphanumeric).take(8));
    }
    text
}
