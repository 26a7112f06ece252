//! TCP, whose connections leave nothing behind.
//!
//! A socket that is closed the usual way goes on sending what its peer has not acknowledged, for a quarter of an hour:
//! an old write would arrive after newer ones that went over another connection. So every connection ends with a reset,
//! however it ends, and the kernel throws away what is unacknowledged. What the peer acknowledged it has; a reset takes
//! nothing of that back.

use std::{io, time::Duration};

use tokio::{net::TcpStream, time::timeout};

use crate::link::LinkError;

/// How long bytes may at least stay unacknowledged: the first repeats of a packet that was lost take a second.
#[cfg(target_os = "linux")]
const PATIENCE: Duration = Duration::from_secs(1);

/// Opens `host:port`; resolving a name and connecting together take `limit` at most.
///
/// Where the system can do so (Linux) it ends a connection whose peer acknowledges nothing for `limit`, a second at
/// least.
pub async fn connect(address: &str, limit: Duration) -> Result<TcpStream, LinkError> {
    let problem = match timeout(limit, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => match prepare(&stream, limit) {
            Ok(()) => return Ok(stream),
            Err(error) => error.to_string(),
        },
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => format!("no connection within {} ms", limit.as_millis()),
    };
    Err(LinkError { address: address.to_owned(), problem, lasting: false })
}

#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only Linux bounds the time"))]
fn prepare(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    // Without this a small request waits for the acknowledgement of the one before it.
    stream.set_nodelay(true)?;
    stream.set_zero_linger()?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_user_timeout(Some(limit.max(PATIENCE)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::link::transport::Delivery;

    async fn pair(limit: Duration) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ours = connect(&address, limit).await.unwrap();
        (ours, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn however_a_connection_ends_it_ends_with_a_reset() {
        let (ours, mut theirs) = pair(Duration::from_secs(10)).await;
        drop(ours);
        let error = theirs.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_a_peer_acknowledged_it_has_in_spite_of_the_reset() {
        let (ours, mut theirs) = pair(Duration::from_secs(10)).await;
        ours.writable().await.unwrap();
        assert_eq!(ours.try_write(b"taken").unwrap(), 5);
        assert!(!Delivery::of(&ours).is_open());
        drop(ours);
        let mut taken = [0; 5];
        theirs.read_exact(&mut taken).await.unwrap();
        assert_eq!(taken, *b"taken");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_peer_that_acknowledges_nothing_is_noticed() {
        for (limit, expected) in [(200, 1000), (3000, 3000)] {
            let (ours, _theirs) = pair(Duration::from_millis(limit)).await;
            let patience = socket2::SockRef::from(&ours).tcp_user_timeout().unwrap();
            assert_eq!(patience, Some(Duration::from_millis(expected)));
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_kernel_tells_what_is_undelivered() {
        let (ours, theirs) = pair(Duration::from_secs(10)).await;
        let delivery = Delivery::of(&ours);
        assert!(!delivery.is_open());
        // The peer reads nothing: at some time its side is full, and the rest stays here.
        let mut last = 1;
        while last > 0 {
            last = ours.try_write(&[0; 8192]).unwrap_or(0);
        }
        assert!(delivery.is_open());
        drop(theirs);
    }
}
