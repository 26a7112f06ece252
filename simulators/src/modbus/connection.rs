//! One connection over a network: requests in, answers out, in the order of the requests.
//!
//! Requests are carried out as they arrive, also while earlier answers are still on their way. Knows framing; what a
//! request does is the handle's matter.
//!
//! The library's server is not used: it takes one request at a time, which no client can then be seen to pipeline, it
//! knows no TLS, and its RTU decoder gives up on noise.

use std::{collections::VecDeque, future, io};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, sleep_until},
};

use super::{
    framing::Framing,
    handle::{Handle, Reaction},
    rtu::Side,
    state::Medium,
};

/// No more is read while so much waits to be carried out, so that a client that floods is slowed by TCP.
const INBOX: usize = 64 * 1024;

/// Keeps the count of open connections.
#[derive(Debug)]
struct Seat(Handle);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.disconnected();
    }
}

/// Serves until the client has closed and has its answers.
pub(super) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    framing: Framing,
    handle: Handle,
) -> io::Result<()> {
    handle.connected();
    let seat = Seat(handle);
    let mut connection = Connection::new(framing, &seat.0);
    while !connection.is_done() {
        connection.carry_out()?;
        let wake = connection.wake();
        let reading = !connection.ended && connection.inbox.len() < INBOX;
        tokio::select! {
            count = stream.read_buf(&mut connection.inbox), if reading => connection.ended = count? == 0,
            () = wake => {
                for frame in connection.due() {
                    stream.write_all(&frame).await?;
                }
                stream.flush().await?;
            }
        }
    }
    stream.shutdown().await
}

struct Connection<'a> {
    framing: Framing,
    handle: &'a Handle,
    inbox: BytesMut,
    outbox: VecDeque<(Instant, Vec<u8>)>,
    /// A unit holds its answer back until then, and all that follows.
    busy: Option<Instant>,
    /// The client sends no more.
    ended: bool,
}

impl<'a> Connection<'a> {
    fn new(framing: Framing, handle: &'a Handle) -> Self {
        Self { framing, handle, inbox: BytesMut::new(), outbox: VecDeque::new(), busy: None, ended: false }
    }

    fn is_done(&self) -> bool {
        self.ended && self.outbox.is_empty() && self.busy.is_none()
    }

    /// Carries out what has arrived, up to a unit that holds its answer back.
    fn carry_out(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.busy.is_some_and(|until| until <= now) {
            self.busy = None;
        }
        while self.busy.is_none() {
            let Some((_, frame)) = self.framing.take(Side::Request, &mut self.inbox)? else { break };
            let Some((unit, pdu)) = self.framing.open(&frame) else { continue };
            let medium = match self.framing {
                Framing::Tcp => Medium::Network,
                Framing::Rtu => Medium::Serial,
            };
            let Reaction { delay, pdu } = self.handle.serve(medium, unit, pdu);
            self.busy = (!delay.is_zero()).then(|| now + delay);
            if let Some(pdu) = pdu {
                let due = now + delay + self.handle.network_latency();
                self.outbox.push_back((due, self.framing.seal(&frame, unit, &pdu)));
            }
        }
        Ok(())
    }

    /// Ends when an answer is due or the unit is no longer busy.
    fn wake(&self) -> impl Future<Output = ()> + use<> {
        let due = self.outbox.front().map(|(due, _)| *due);
        let next = due.into_iter().chain(self.busy).min();
        async move {
            match next {
                Some(at) => sleep_until(at).await,
                None => future::pending().await,
            }
        }
    }

    /// Takes the answers that are due.
    fn due(&mut self) -> Vec<Vec<u8>> {
        let now = Instant::now();
        let count = self.outbox.iter().take_while(|(due, _)| *due <= now).count();
        self.outbox.drain(..count).map(|(_, frame)| frame).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::modbus::Tables;

    fn read(transaction: u8) -> [u8; 12] {
        [0, transaction, 0, 0, 0, 6, 1, 3, 0, 0, 0, 1]
    }

    fn handle() -> Handle {
        let mut tables = Tables::new();
        tables.set_holdings(0, &[1]);
        Handle::new([(1, tables)])
    }

    /// When the answers to `count` requests, sent at once, arrived.
    async fn answers(handle: &Handle, count: u8) -> Vec<Duration> {
        let (mut client, server) = tokio::io::duplex(4096);
        let task = tokio::spawn(serve(server, Framing::Tcp, handle.clone()));
        let start = Instant::now();
        let requests: Vec<u8> = (0..count).flat_map(read).collect();
        client.write_all(&requests).await.unwrap();
        let mut times = Vec::new();
        for transaction in 0..count {
            let mut answer = [0; 11];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, [0, transaction, 0, 0, 0, 5, 1, 3, 2, 0, 1]);
            times.push(start.elapsed());
        }
        drop(client);
        task.await.unwrap().unwrap();
        times
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_way_holds_nothing_up() {
        let handle = handle();
        handle.latency(Duration::from_millis(5));
        assert_eq!(answers(&handle, 16).await, [Duration::from_millis(5); 16]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_unit_holds_up_what_follows() {
        let handle = handle();
        handle.unit(1).unwrap().delay(Duration::from_millis(300));
        assert_eq!(answers(&handle, 3).await, [300, 600, 900].map(Duration::from_millis));
    }

    #[tokio::test(start_paused = true)]
    async fn carries_a_request_out_before_its_answer() {
        let handle = handle();
        let unit = handle.unit(1).unwrap();
        unit.delay(Duration::from_secs(3));
        let (mut client, server) = tokio::io::duplex(4096);
        let start = Instant::now();
        tokio::spawn(serve(server, Framing::Tcp, handle.clone()));
        client.write_all(&[0, 1, 0, 0, 0, 6, 1, 6, 0, 0, 0, 7]).await.unwrap();
        unit.wait_for(|unit| unit.holding(0) == Some(7)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        client.read_exact(&mut [0; 12]).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    }
}
