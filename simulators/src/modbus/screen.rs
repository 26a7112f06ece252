//! A connection's transport: hands well-formed requests on to the library, and answers the others itself.
//!
//! It gives out one request at a time, and the library reads again only when it has answered: so answers keep the
//! order of the requests. Knows framing (MBAP); no tables.

use std::{
    io,
    ops::RangeInclusive,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::mpsc,
};

use super::{handle::Handle, pdu};

/// Transaction, protocol and length, before the bytes that the length counts (messaging on TCP/IP V1.0b, section 3.1).
const PREFIX: usize = 6;
/// Lengths that are read: from unit and function code alone to a write of 255 bytes. The specification ends at 254, but a
/// write of too many values is worth an exception; with any other length the stream is not Modbus.
const LENGTHS: RangeInclusive<u16> = 2..=262;

/// Counted as open from its creation until its socket is closed.
#[derive(Debug)]
pub(super) struct Screen {
    socket: TcpStream,
    /// Read from the socket and not yet given out.
    inbox: BytesMut,
    /// So many bytes at the front of `inbox` have been passed.
    passed: usize,
    /// Own answers on their way.
    outbox: BytesMut,
    /// After `socket`, so that it is dropped later.
    seat: Seat,
}

/// Keeps the count of open connections, and lets the server wait until the last one is gone.
#[derive(Debug)]
struct Seat {
    handle: Handle,
    _alive: mpsc::Sender<()>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.handle.disconnected();
    }
}

impl Screen {
    pub(super) fn new(socket: TcpStream, handle: Handle, alive: mpsc::Sender<()>) -> Self {
        handle.connected();
        let seat = Seat { handle, _alive: alive };
        Self { socket, inbox: BytesMut::new(), passed: 0, outbox: BytesMut::new(), seat }
    }

    /// Looks at the first complete request in the inbox: passes, answers or drops it. False: there is none.
    fn sort(&mut self) -> io::Result<bool> {
        let Some((&[t1, t2, p1, p2, l1, l2], rest)) = self.inbox.split_first_chunk::<PREFIX>() else {
            return Ok(false);
        };
        let length = u16::from_be_bytes([l1, l2]);
        if [p1, p2] != [0, 0] || !LENGTHS.contains(&length) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a Modbus TCP header"));
        }
        let size = usize::from(length);
        let Some(&[unit, function, ref body @ ..]) = rest.get(..size) else {
            return Ok(false);
        };
        match pdu::check(function, body) {
            Ok(()) => self.passed = PREFIX + size,
            Err(code) => {
                if let Some(code) = self.seat.handle.reject(unit, function, code) {
                    let adu = [t1, t2, 0, 0, 0, 3, unit, function | 0x80, code.into()];
                    self.outbox.extend_from_slice(&adu);
                }
                self.inbox.advance(PREFIX + size);
            }
        }
        Ok(true)
    }

    fn poll_outbox(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() {
            let count = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.outbox))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outbox.advance(count);
        }
        Poll::Ready(Ok(()))
    }

    /// False: the client has closed its side.
    fn poll_inbox(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut space = [0; 512];
        let mut chunk = ReadBuf::new(&mut space);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut chunk))?;
        self.inbox.extend_from_slice(chunk.filled());
        Poll::Ready(Ok(!chunk.filled().is_empty()))
    }
}

impl AsyncRead for Screen {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let screen = self.get_mut();
        loop {
            ready!(screen.poll_outbox(cx))?;
            if screen.passed > 0 {
                let count = screen.passed.min(buf.remaining());
                buf.put_slice(&screen.inbox.split_to(count));
                screen.passed -= count;
                return Poll::Ready(Ok(()));
            }
            if !screen.sort()? && !ready!(screen.poll_inbox(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Screen {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
