//! The process's own stdin and stdout, such that a pending read does not hold up the end of the program.

use std::{
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::mpsc,
};

/// Something to read from.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
/// Something to write to.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Stdin and stdout, non-blocking where they are pipes or sockets. Files and terminals work as well: they are read
/// by a thread of their own, which nobody waits for.
///
/// Must be called within a runtime, and once.
#[must_use]
pub fn stdio() -> (Reader, Writer) {
    let reader = special::reader().unwrap_or_else(|| Box::new(Threaded::spawn(io::stdin())));
    let writer = special::writer().unwrap_or_else(|| Box::new(tokio::io::stdout()));
    (reader, writer)
}

/// Pipes, which most clients start us with, and the socket pairs that Node.js gives its children.
#[cfg(unix)]
mod special {
    use std::{fs::File, io, os::fd::AsFd, os::unix::fs::FileTypeExt, os::unix::net};

    use tokio::net::{UnixStream, unix::pipe};

    use super::{Reader, Writer};

    pub(super) fn reader() -> Option<Reader> {
        // Opened anew, so that the descriptor that child processes inherit stays blocking.
        if let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
            return Some(Box::new(pipe));
        }
        Some(Box::new(socket(&io::stdin())?))
    }

    pub(super) fn writer() -> Option<Writer> {
        if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
            return Some(Box::new(pipe));
        }
        Some(Box::new(socket(&io::stdout())?))
    }

    fn socket(stream: &impl AsFd) -> Option<UnixStream> {
        let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
        if !file.metadata().ok()?.file_type().is_socket() {
            return None;
        }
        let socket = net::UnixStream::from(std::os::fd::OwnedFd::from(file));
        socket.set_nonblocking(true).ok()?;
        UnixStream::from_std(socket).ok()
    }
}

#[cfg(not(unix))]
mod special {
    use super::{Reader, Writer};

    pub(super) fn reader() -> Option<Reader> {
        None
    }

    pub(super) fn writer() -> Option<Writer> {
        None
    }
}

/// A blocking reader behind a thread.
#[derive(Debug)]
struct Threaded {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    rest: Bytes,
}

impl Threaded {
    fn spawn(mut reader: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = mpsc::channel(4);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 16 * 1024];
            loop {
                let chunk = match reader.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) => Ok(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = chunk.is_err();
                if sender.blocking_send(chunk).is_err() || is_last {
                    return;
                }
            }
        });
        Self { chunks, rest: Bytes::new() }
    }
}

impl AsyncRead for Threaded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.chunks.poll_recv(context)) {
                Some(chunk) => self.rest = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.rest.len().min(buffer.remaining());
        buffer.put_slice(self.rest.get(..length).unwrap_or_default());
        self.rest.advance(length);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_blocking_reader_is_read_to_its_end() {
        let input = vec![7_u8; 100_000];
        let mut read = Vec::new();
        let length = Threaded::spawn(io::Cursor::new(input.clone())).read_to_end(&mut read).await;
        assert_eq!(length.ok(), Some(100_000));
        assert_eq!(read, input);
    }
}
