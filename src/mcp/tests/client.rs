//! Clients that know nothing of the SDK.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream},
    net::{TcpStream, tcp::OwnedReadHalf},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::plant::Plant;
use crate::mcp::{Http, HttpError, Mcp, StdioError, bind, serve_stdio};

/// After this long a test hangs; no test asserts on time.
const HANG: Duration = Duration::from_secs(20);

pub(super) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}"#;
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client on a pair of pipes.
pub(super) struct Pipes {
    writer: Option<DuplexStream>,
    reader: BufReader<DuplexStream>,
    pub(super) stop: CancellationToken,
    server: JoinHandle<Result<(), StdioError>>,
}

impl Pipes {
    pub(super) fn new(mcp: &Mcp) -> Self {
        let (writer, input) = tokio::io::duplex(64 * 1024);
        let (output, reader) = tokio::io::duplex(64 * 1024);
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve_stdio(mcp.clone(), input, output, stop.clone()));
        Self { writer: Some(writer), reader: BufReader::new(reader), stop, server }
    }

    /// A client with an open legacy session.
    pub(super) async fn open(mcp: &Mcp) -> Self {
        let mut client = Self::new(mcp);
        client.send(INITIALIZE).await;
        client.receive().await;
        client.send(INITIALIZED).await;
        client
    }

    pub(super) async fn send(&mut self, line: impl std::fmt::Display) {
        let line = format!("{line}\n");
        self.writer.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.writer.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    /// The next message; `None` where the server closed its output.
    pub(super) async fn next(&mut self) -> Option<Json> {
        let mut line = String::new();
        timeout(HANG, self.reader.read_line(&mut line)).await.expect("a message").unwrap();
        let text = line.strip_suffix('\n')?;
        assert!(!text.ends_with('\r') && !text.is_empty(), "one object a line: {text:?}");
        let json = serde_json::from_str::<Json>(text).expect("JSON");
        assert_eq!(json["jsonrpc"], "2.0", "{text}");
        Some(json)
    }

    pub(super) async fn receive(&mut self) -> Json {
        self.next().await.expect("the session is open")
    }

    pub(super) async fn request(&mut self, method: &str, params: Json) -> Json {
        self.send(json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params })).await;
        loop {
            let message = self.receive().await;
            if message["id"] == method {
                return message;
            }
        }
    }

    /// The result of a tool call.
    pub(super) async fn call(&mut self, tool: &str, arguments: Json) -> Json {
        let mut answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    pub(super) fn end_input(&mut self) {
        self.writer = None;
    }

    /// Ends the input, and returns what still comes and how serving ended.
    pub(super) async fn finish(mut self) -> (Vec<Json>, Result<(), StdioError>) {
        self.end_input();
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        (messages, timeout(HANG, self.server).await.expect("it ends").unwrap())
    }
}

/// A server on a loopback port.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    pub(super) stop: CancellationToken,
    server: JoinHandle<Result<(), HttpError>>,
}

/// An answer that came whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: String,
}

/// An answer of which only the head was read.
pub(super) struct Stream {
    pub(super) status: u16,
    pub(super) headers: HashMap<String, String>,
    reader: BufReader<OwnedReadHalf>,
    _writer: tokio::net::tcp::OwnedWriteHalf,
}

impl Site {
    pub(super) async fn new(plant: &Plant) -> Self {
        Self::bounded(plant, 1000).await
    }

    pub(super) async fn bounded(plant: &Plant, sessions: usize) -> Self {
        let http = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self::serve(plant, http.with_bounds(sessions, Duration::from_secs(3600)))
    }

    /// A server that waits for no call when it is stopped.
    pub(super) async fn impatient(plant: &Plant) -> Self {
        let http = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self::serve(plant, http.with_grace(Duration::ZERO))
    }

    fn serve(plant: &Plant, http: Http) -> Self {
        let (address, stop) = (http.local_addr(), CancellationToken::new());
        let server = tokio::spawn(http.serve(plant.mcp.clone(), stop.clone()));
        Self { address, stop, server }
    }

    /// Sends a request as it is written, and reads the head of the answer.
    pub(super) async fn raw(&self, request: &[u8]) -> Stream {
        let (reader, mut writer) = TcpStream::connect(self.address).await.unwrap().into_split();
        // A server that has answered already may take no more.
        drop(writer.write_all(request).await);
        let mut reader = BufReader::new(reader);
        let (mut status, mut headers) = (0, HashMap::new());
        loop {
            let mut line = String::new();
            timeout(HANG, reader.read_line(&mut line)).await.expect("an answer").unwrap();
            match line.trim_end() {
                "" => return Stream { status, headers, reader, _writer: writer },
                line if status == 0 => status = line.split(' ').nth(1).unwrap().parse().unwrap(),
                line => {
                    let (name, value) = line.split_once(':').unwrap();
                    headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
                }
            }
        }
    }

    pub(super) async fn open(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Stream {
        let mut fields = vec![("Host", "127.0.0.1"), ("Accept", "application/json, text/event-stream")];
        if method == "POST" {
            fields.push(("Content-Type", "application/json"));
        }
        for header in headers {
            fields.retain(|field| !field.0.eq_ignore_ascii_case(header.0));
            fields.push(*header);
        }
        let mut request = format!("{method} /mcp HTTP/1.1\r\n");
        for (name, value) in fields.into_iter().filter(|field| !field.1.is_empty()) {
            request.extend([name, ": ", value, "\r\n"]);
        }
        request.extend(["Content-Length: ", &body.len().to_string(), "\r\n\r\n", body]);
        self.raw(request.as_bytes()).await
    }

    pub(super) async fn http(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut headers = headers.to_vec();
        headers.push(("Connection", "close"));
        self.open(method, &headers, body).await.whole().await
    }

    pub(super) async fn post(&self, headers: &[(&str, &str)], body: impl std::fmt::Display) -> Answer {
        self.http("POST", headers, &body.to_string()).await
    }

    /// Opens a legacy session and returns its id.
    pub(super) async fn session(&self) -> String {
        let answer = self.post(&[], INITIALIZE).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.headers["mcp-session-id"].clone();
        assert_eq!(self.post(&[("Mcp-Session-Id", &id)], INITIALIZED).await.status, 202);
        id
    }

    /// A request within a session.
    pub(super) async fn request(&self, session: &str, method: &str, params: Json) -> Json {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&[("Mcp-Session-Id", session)], request).await.json()
    }

    /// A request of 2026-07-28.
    pub(super) async fn modern(&self, method: &str, params: Json) -> Stream {
        let body = modern(1, method, params);
        let name =
            body["params"]["name"].as_str().or(body["params"]["uri"].as_str()).unwrap_or_default().to_owned();
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", &name)];
        self.open("POST", &headers, &body.to_string()).await
    }

    pub(super) async fn finish(self) -> Result<(), HttpError> {
        self.stop.cancel();
        timeout(HANG, self.server).await.expect("it stops").unwrap()
    }
}

/// A request of 2026-07-28, with the metadata that it carries.
pub(super) fn modern(id: u64, method: &str, mut params: Json) -> Json {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "probe", "version": "1" }
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

impl Answer {
    /// The one message of the answer, as JSON or as an event.
    pub(super) fn json(&self) -> Json {
        let text = self.body.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or(&self.body);
        serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Stream {
    /// The next message of an event stream; `None` at its end.
    pub(super) async fn event(&mut self) -> Option<Json> {
        loop {
            let mut line = String::new();
            let length =
                timeout(HANG, self.reader.read_line(&mut line)).await.expect("an event").unwrap_or(0);
            // The last chunk of a body has no bytes.
            if length == 0 || line == "0\r\n" {
                return None;
            }
            if let Some(data) = line.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty()) {
                return Some(serde_json::from_str(data).expect("JSON"));
            }
        }
    }

    /// Reads a body of known length, or an event stream up to its first message.
    pub(super) async fn message(&mut self) -> Json {
        if self.headers["content-type"].starts_with("text/event-stream") {
            return self.event().await.expect("a message");
        }
        let mut body = vec![0; self.headers["content-length"].parse().unwrap()];
        timeout(HANG, self.reader.read_exact(&mut body)).await.expect("a body").unwrap();
        serde_json::from_slice(&body).expect("JSON")
    }

    async fn whole(mut self) -> Answer {
        let mut body = Vec::new();
        drop(timeout(HANG, self.reader.read_to_end(&mut body)).await.expect("the end"));
        let body = String::from_utf8_lossy(&body).into_owned();
        Answer { status: self.status, headers: self.headers, body }
    }
}
