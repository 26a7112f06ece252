//! How a legacy session of MCP begins.

use serde_json::json;

/// The last revision of the protocol that has sessions.
pub(crate) const LEGACY: &str = "2025-11-25";

pub(crate) fn initialize() -> String {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" }
        }
    })
    .to_string()
}

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
