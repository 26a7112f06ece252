//! Serial ports: 8 data bits, no flow control, for nobody but us.

use std::{
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_serial::{
    ClearBuffer, DataBits, ErrorKind, FlowControl, SerialPort, SerialPortBuilderExt, SerialStream,
};
pub use tokio_serial::{Parity, StopBits};

use crate::link::LinkError;

/// Where udev names ports by what is plugged in, so that a name stays with its adapter.
const BY_ID: &str = "/dev/serial/by-id";

/// How a port is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub path: String,
    pub baud: u32,
    pub parity: Parity,
    pub stop_bits: StopBits,
}

/// An open port. One that is unplugged ends: reads give end of file or an error, writes an error.
///
/// Its flush does nothing. What was written is the kernel's, and the library would wait for its last bit with the
/// thread blocked.
#[derive(Debug)]
pub struct Port(SerialStream);

/// Opens a port for us alone, with nothing left in its buffers.
pub fn open(settings: &Settings) -> Result<Port, LinkError> {
    let Settings { path, baud, parity, stop_bits } = settings;
    let fail = |problem: String| LinkError { address: path.clone(), problem, lasting: false };
    if is_other(Path::new(path)) {
        return Err(fail("not a serial port".to_owned()));
    }
    let port = tokio_serial::new(path.as_str(), *baud)
        .data_bits(DataBits::Eight)
        .parity(*parity)
        .stop_bits(*stop_bits)
        .flow_control(FlowControl::None)
        .exclusive(true)
        .open_native_async();
    let port = port.map(Port).map_err(|error| fail(explain(&error)))?;
    port.discard().map_err(|error| fail(error.to_string()))?;
    Ok(port)
}

impl Port {
    /// Whether all that was written has left; as far as is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.bytes_to_write().is_ok_and(|left| left == 0)
    }

    /// Throws away what was received and not read, and what was written and not sent.
    pub fn discard(&self) -> io::Result<()> {
        Ok(self.0.clear(ClearBuffer::All)?)
    }
}

impl Drop for Port {
    /// Nothing is left to be sent later, and closing waits for nothing.
    fn drop(&mut self) {
        // What left the port may still be read at the other end of a pseudo terminal. A port that is gone has no buffers.
        if !self.is_empty() {
            drop(self.discard());
        }
    }
}

impl From<SerialStream> for Port {
    /// A port that is open already, such as an end of a pair.
    fn from(stream: SerialStream) -> Self {
        Self(stream)
    }
}

impl AsyncRead for Port {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Port {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Whether something stands at `path` that no serial port is.
fn is_other(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata(path).is_ok_and(|about| !about.file_type().is_char_device())
    }
    #[cfg(not(unix))]
    {
        path.is_dir()
    }
}

/// A failed open in words, with what helps.
fn explain(error: &tokio_serial::Error) -> String {
    match error.kind() {
        // What the library makes of a port that is locked or opened exclusively.
        ErrorKind::NoDevice => format!("another program has it open ({error})"),
        ErrorKind::Io(io::ErrorKind::PermissionDenied) => {
            "permission denied: the user that runs this program must be in the group of the port, on most systems \
             `dialout`"
                .to_owned()
        }
        ErrorKind::Io(io::ErrorKind::NotFound) => format!("no such serial port: {}", present(Path::new(BY_ID))),
        _ => error.to_string(),
    }
}

/// Which ports there are, by the names in `folder`, else by those of the system.
fn present(folder: &Path) -> String {
    let named = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut ports: Vec<String> = named.map(|entry| entry.path().display().to_string()).collect();
    if ports.is_empty() {
        ports = tokio_serial::available_ports().into_iter().flatten().map(|port| port.port_name).collect();
    }
    ports.sort();
    if ports.is_empty() {
        "this machine has none".to_owned()
    } else {
        format!("there are {}", ports.join(", "))
    }
}

#[cfg(all(test, unix))]
#[path = "serial_tests.rs"]
mod tests;
