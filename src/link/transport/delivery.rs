//! Whether bytes that were sent are still on their way, so that the peer may get them at any later time.
//!
//! Linux tells it in the tables of its sockets, which can be read without unsafe code (the ioctl for it cannot be
//! called so). Where nobody tells, bytes count as undelivered: whoever asks must be on the safe side.

use std::{fmt, net::SocketAddr};

use tokio::net::TcpStream;

/// Tells of one connection whether its peer has yet to acknowledge bytes that were sent.
pub struct Delivery(Box<dyn Fn() -> bool + Send>);

impl Delivery {
    /// Asks the kernel about a TCP connection.
    #[must_use]
    pub fn of(stream: &TcpStream) -> Self {
        let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
        Self::told_by(move || ends.and_then(|(local, peer)| unacknowledged(local, peer)) != Some(0))
    }

    /// Asks `open`, which says whether bytes are undelivered.
    #[must_use]
    pub fn told_by(open: impl Fn() -> bool + Send + 'static) -> Self {
        Self(Box::new(open))
    }

    /// Whether bytes are undelivered, or may be.
    #[must_use]
    pub fn is_open(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Delivery")
    }
}

/// How many bytes the peer's TCP has not acknowledged; `None` where that cannot be known.
fn unacknowledged(local: SocketAddr, peer: SocketAddr) -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let table = if local.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    queued(&std::fs::read_to_string(table).ok()?, local, peer)
}

/// The send queue of a connection in a table of sockets: what was written less what was acknowledged
/// (`tx_queue` in the kernel's `Documentation/networking/proc_net_tcp.rst`).
fn queued(table: &str, local: SocketAddr, peer: SocketAddr) -> Option<u64> {
    let (local, peer) = (place(local), place(peer));
    table.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        if words.next()? != local || words.next()? != peer {
            return None;
        }
        u64::from_str_radix(words.nth(1)?.split_once(':')?.0, 16).ok()
    })
}

/// An address as the table has it: each word of it as the machine's own number, then the port.
fn place(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port()),
        SocketAddr::V6(v6) => {
            let octets = v6.ip().octets();
            let words = octets.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word));
            let words = words.map(|word| format!("{word:08X}")).collect::<Vec<_>>().concat();
            format!("{words}:{:04X}", v6.port())
        }
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_send_queue_in_the_tables() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:A001 0100007F:01F6 01 0000000C:00000000 01:00000014 00000003  1000        0 2 4 0 20 4 0 10 -1
   2: 0100007F:A002 0100007F:01F6 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 0 10 -1
";
        let asked = |port: u16| {
            queued(table, SocketAddr::from(([127, 0, 0, 1], port)), "127.0.0.1:502".parse().unwrap())
        };
        assert_eq!((asked(0xA001), asked(0xA002), asked(0xA003)), (Some(12), Some(0), None));
        let six = "   0: B80D0120000000000000000001000000:A001 00000000000000000000000001000000:01F6 01 \
                   0000000C:00000000 01:00000014";
        let (local, peer) = ("[2001:db8::1]:40961".parse().unwrap(), "[::1]:502".parse().unwrap());
        assert_eq!(queued(six, local, peer), Some(12));
    }
}
