//! A client over HTTP/1.1: one connection that stays, one call at a time, and as little parsing as that needs.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::handshake::{INITIALIZED, LEGACY, initialize};

/// One client: a connection, and a session where one was opened.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    /// Request line and headers up to the body's length.
    head: String,
    output: Vec<u8>,
    input: Vec<u8>,
    body: Vec<u8>,
}

/// What a response's headers say.
#[derive(Debug, Default)]
struct Head {
    status: u16,
    session: Option<String>,
    chunked: bool,
    length: usize,
    /// Where the body begins.
    end: usize,
}

impl Client {
    /// Connects.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        Ok(Self { stream, head, output: Vec::new(), input: Vec::new(), body: Vec::new() })
    }

    /// Opens a legacy session.
    pub(crate) async fn open_session(&mut self) -> Result<()> {
        let opened = self.post(&initialize()).await?;
        ensure!(opened.status == 200, "not initialized: {opened:?}");
        let session = opened.session.context("no session")?;
        self.add_headers(&[("Mcp-Session-Id", &session), ("MCP-Protocol-Version", LEGACY)]);
        let told = self.post(INITIALIZED).await?;
        ensure!(told.status == 202, "not initialized: {told:?}");
        Ok(())
    }

    /// Sends these with every request from now on.
    pub(crate) fn add_headers(&mut self, headers: &[(&str, &str)]) {
        self.head.extend(headers.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]));
    }

    /// Sends a request and returns the message that answers it.
    pub(crate) async fn exchange(&mut self, request: &str) -> Result<&str> {
        let head = self.post(request).await?;
        let body = std::str::from_utf8(&self.body)?;
        ensure!(head.status == 200, "{head:?}: {body}");
        if body.starts_with('{') {
            return Ok(body);
        }
        // A stream of events; the first may be empty, to tell the client from where to resume.
        body.lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(str::trim_start)
            .find(|data| data.starts_with('{'))
            .with_context(|| format!("no message in {body}"))
    }

    async fn post(&mut self, body: &str) -> Result<Head> {
        self.output.clear();
        self.output.extend_from_slice(self.head.as_bytes());
        self.output.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        self.output.extend_from_slice(body.as_bytes());
        self.stream.write_all(&self.output).await?;
        self.input.clear();
        self.body.clear();
        let head = loop {
            self.more().await?;
            if let Some(head) = parse_head(&self.input)? {
                break head;
            }
        };
        self.input.drain(..head.end);
        if head.chunked {
            while !self.take_chunks()? {
                self.more().await?;
            }
        } else {
            while self.input.len() < head.length {
                self.more().await?;
            }
            std::mem::swap(&mut self.input, &mut self.body);
        }
        Ok(head)
    }

    async fn more(&mut self) -> Result<()> {
        let reading = self.stream.read_buf(&mut self.input);
        let read = tokio::time::timeout(Duration::from_secs(30), reading).await.context("no answer")??;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }

    /// Moves whole chunks to the body; true after the last one.
    fn take_chunks(&mut self) -> Result<bool> {
        loop {
            let Some(line) = find(&self.input, b"\r\n") else { return Ok(false) };
            let digits = std::str::from_utf8(self.input.get(..line).unwrap_or_default())?;
            let length =
                usize::from_str_radix(digits, 16).with_context(|| format!("chunk length {digits:?}"))?;
            let start = line + 2;
            let Some(chunk) = self.input.get(start..start + length + 2) else { return Ok(false) };
            self.body.extend_from_slice(chunk.get(..length).unwrap_or_default());
            self.input.drain(..start + length + 2);
            if length == 0 {
                return Ok(true);
            }
        }
    }
}

fn parse_head(input: &[u8]) -> Result<Option<Head>> {
    let Some(end) = find(input, b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(input.get(..end).unwrap_or_default())?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let Some(status) = status else { bail!("no status in {text}") };
    let mut head = Head { status, end: end + 4, ..Head::default() };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            head.length = value.parse()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            head.chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            head.session = Some(value.to_owned());
        }
    }
    Ok(Some(head))
}

fn find(input: &[u8], mark: &[u8]) -> Option<usize> {
    input.windows(mark.len()).position(|window| window == mark)
}
