//! TCP.

use std::time::Duration;

use tokio::{net::TcpStream, time::timeout};

use crate::link::LinkError;

/// Opens `host:port`; resolving a name and connecting together take `limit` at most.
pub async fn connect(address: &str, limit: Duration) -> Result<TcpStream, LinkError> {
    let problem = match timeout(limit, TcpStream::connect(address)).await {
        // Without this a small request waits for the acknowledgement of the one before it.
        Ok(Ok(stream)) => match stream.set_nodelay(true) {
            Ok(()) => return Ok(stream),
            Err(error) => error.to_string(),
        },
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => format!("no connection within {} ms", limit.as_millis()),
    };
    Err(LinkError { address: address.to_owned(), problem })
}
