//! The measure: one `echo` tool that returns its argument, as rmcp's documentation writes a server.
//!
//! Knows nothing of fieldbridge. Only for HTTP it departs from the documentation: it turns Nagle off, which would
//! otherwise cost 40 ms a call and make any comparison meaningless.

use anyhow::Result;
use axum::serve::ListenerExt;
use rmcp::{
    ServerHandler, ServiceExt,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    tool, tool_handler, tool_router,
    transport::{
        StreamableHttpService, stdio, stdio_pipes,
        streamable_http_server::{StreamableHttpServerConfig, session::local::LocalSessionManager},
    },
};
use tokio::net::TcpListener;

/// Where the echo is served.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct EchoRequest {
    /// The text to return.
    text: String,
}

/// As the first page of the documentation has it: the table of tools is made anew at every call.
#[derive(Debug, Clone)]
struct Echo;

#[tool_router(server_handler)]
impl Echo {
    #[expect(clippy::unused_self, reason = "the documentation's form of a tool")]
    #[tool(description = "Returns its text")]
    fn echo(&self, Parameters(EchoRequest { text }): Parameters<EchoRequest>) -> String {
        text
    }
}

/// As fast as the SDK is: the table of tools is kept, and pipes are served without the pool of blocking threads.
#[derive(Debug, Clone)]
struct Lean {
    tools: ToolRouter<Self>,
}

#[tool_router(router = tools)]
impl Lean {
    #[expect(clippy::unused_self, reason = "the documentation's form of a tool")]
    #[tool(description = "Returns its text")]
    fn echo(&self, Parameters(EchoRequest { text }): Parameters<EchoRequest>) -> String {
        text
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Lean {}

/// Serves until the client leaves, over HTTP until the process is killed.
#[tokio::main]
pub(crate) async fn serve(transport: Transport, lean: bool) -> Result<()> {
    match (transport, lean) {
        (Transport::Stdio, false) => drop(Echo.serve(stdio()).await?.waiting().await?),
        (Transport::Stdio, true) => {
            drop(Lean { tools: Lean::tools() }.serve(stdio_pipes()).await?.waiting().await?);
        }
        (Transport::Http, false) => over_http(Echo).await?,
        (Transport::Http, true) => over_http(Lean { tools: Lean::tools() }).await?,
    }
    Ok(())
}

async fn over_http(echo: impl ServerHandler + Clone) -> Result<()> {
    let service: StreamableHttpService<_, LocalSessionManager> = StreamableHttpService::new(
        move || Ok(echo.clone()),
        LocalSessionManager::default().into(),
        StreamableHttpServerConfig::default(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(&format!("serving MCP at http://{}/mcp", listener.local_addr()?));
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            announce(&format!("nagle stays on: {error}"));
        }
    });
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}

fn announce(line: &str) {
    eprintln!("{line}");
}
