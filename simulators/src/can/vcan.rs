//! A bus tied to a `SocketCAN` interface of this machine: what is on one of them is on both.
//!
//! Owns the socket; knows nothing of what frames mean.

use std::io;

use rustix::io::Errno;
use socketcan::{
    CanAnyFrame, CanDataFrame, CanErrorFrame, CanFdFrame, CanFdSocket, CanId, CanRemoteFrame,
    EmbeddedFrame as _, Frame as _, Socket as _, SocketOptions as _, id::FdFlags,
};
use tokio::{io::unix::AsyncFd, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    bus::{Bus, Receiver, Sender},
    frame::{Fd, Frame, Id, Kind},
};

/// Why a bus cannot be tied to an interface.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The kernel has no `SocketCAN`: the modules `can` and `can_raw` are missing.
    #[error("this kernel has no SocketCAN, load the modules can and can_raw")]
    Kernel,
    /// No interface has this name.
    #[error("no interface `{name}`, a virtual one is made by `ip link add dev {name} type vcan`")]
    Interface { name: String },
    /// Anything else.
    #[error("cannot open interface `{name}`")]
    Open { name: String, source: io::Error },
}

/// A bus tied to an interface. Dropping it unties them as well, only without waiting.
#[derive(Debug)]
pub struct Bridge {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Bridge {
    /// Ties the bus to the interface, CAN FD frames included. To be called within a tokio runtime.
    pub fn start(bus: &Bus, interface: &str) -> Result<Self, BridgeError> {
        let failed = |source| BridgeError::Open { name: interface.to_owned(), source };
        // Any interface will do to learn whether there are CAN sockets.
        match CanFdSocket::open_iface(0) {
            Err(error) if is(&error, Errno::AFNOSUPPORT) => return Err(BridgeError::Kernel),
            _ => {}
        }
        let socket = CanFdSocket::open(interface).map_err(|error| {
            if is(&error, Errno::NODEV) {
                BridgeError::Interface { name: interface.to_owned() }
            } else {
                failed(error)
            }
        })?;
        socket.set_error_filter_accept_all().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let socket = watch(socket).map_err(failed)?;
        let (sender, receiver) = bus.attach().split();
        let stop = CancellationToken::new();
        let (stopped, name) = (stop.clone(), interface.to_owned());
        let task = tokio::spawn(async move {
            let both = async {
                tokio::select! {
                    result = inwards(&socket, &sender) => result,
                    result = outwards(&socket, receiver) => result,
                }
            };
            if let Some(Err(error)) = stopped.run_until_cancelled(both).await {
                tracing::warn!(%error, interface = name, "a can interface is lost");
            }
        });
        Ok(Self { stop: stop.drop_guard(), task })
    }

    /// Unties them.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "can bridge task failed");
        }
    }
}

#[expect(deprecated, reason = "what replaces it is unsafe; a socket owns its descriptor, as that asks for")]
fn watch(socket: CanFdSocket) -> io::Result<AsyncFd<CanFdSocket>> {
    AsyncFd::new(socket)
}

async fn inwards(socket: &AsyncFd<CanFdSocket>, sender: &Sender) -> io::Result<()> {
    loop {
        let mut guard = socket.readable().await?;
        match guard.try_io(|socket| socket.get_ref().read_frame()) {
            Ok(frame) => {
                // Error frames of the interface are not those of this bus.
                let Some(frame) = from_kernel(&frame?) else { continue };
                if let Err(error) = sender.send(frame).await {
                    tracing::debug!(%error, "a frame does not pass a can bridge");
                }
            }
            Err(_not_ready) => {}
        }
    }
}

async fn outwards(socket: &AsyncFd<CanFdSocket>, mut receiver: Receiver) -> io::Result<()> {
    loop {
        let received = receiver.recv().await;
        if received.own {
            continue;
        }
        let Some(frame) = to_kernel(&received.frame) else { continue };
        loop {
            let mut guard = socket.writable().await?;
            match guard.try_io(|socket| socket.get_ref().write_frame(&frame)) {
                Ok(written) => {
                    refused(written, &received.frame)?;
                    break;
                }
                Err(_not_ready) => {}
            }
        }
    }
}

/// A frame that the interface does not take, as a CAN FD frame of a classic one or one too many, is lost.
fn refused(written: io::Result<()>, frame: &Frame) -> io::Result<()> {
    match written {
        Err(error) if is(&error, Errno::NOBUFS) || is(&error, Errno::INVAL) => {
            tracing::debug!(%error, %frame, "a can interface does not take a frame");
            Ok(())
        }
        other => other,
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn from_kernel(frame: &CanAnyFrame) -> Option<Frame> {
    let id = Id { value: frame.raw_id(), extended: frame.is_extended() };
    let converted = match frame {
        CanAnyFrame::Normal(frame) => Frame::data(id, frame.data()),
        CanAnyFrame::Remote(frame) => Frame::remote(id, u8::try_from(frame.dlc()).ok()?),
        CanAnyFrame::Fd(frame) => {
            Frame::flexible(id, frame.data(), Fd { brs: frame.is_brs(), esi: frame.is_esi() })
        }
        CanAnyFrame::Error(_) => return None,
    };
    converted.ok()
}

fn to_kernel(frame: &Frame) -> Option<CanAnyFrame> {
    let id = if frame.extended {
        CanId::extended(frame.id)?
    } else {
        CanId::standard(u16::try_from(frame.id).ok()?)?
    };
    match (frame.kind, frame.fd) {
        (Kind::Error { class, data }, _) => {
            CanErrorFrame::new_error(class, &data).ok().map(CanAnyFrame::from)
        }
        (Kind::Remote(length), _) => CanRemoteFrame::new_remote(id, length.into()).map(CanAnyFrame::from),
        (Kind::Data, None) => CanDataFrame::new(id, &frame.bytes).map(CanAnyFrame::from),
        (Kind::Data, Some(fd)) => {
            let mut flags = FdFlags::empty();
            flags.set(FdFlags::BRS, fd.brs);
            flags.set(FdFlags::ESI, fd.esi);
            CanFdFrame::with_flags(id, &frame.bytes, flags).map(CanAnyFrame::from)
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_missing_is_named() {
        let bus = Bus::new("can0");
        let error = Bridge::start(&bus, "nosuch7").unwrap_err();
        match &error {
            // Which of them depends on the machine.
            BridgeError::Kernel => assert!(error.to_string().contains("can_raw")),
            BridgeError::Interface { name } => assert_eq!(name, "nosuch7"),
            BridgeError::Open { .. } => unreachable!("{error:?}"),
        }
        assert_eq!(bus.ports(), 0);
    }

    #[test]
    fn frames_are_the_same_on_both_sides() {
        let id = |value, extended| Id { value, extended };
        let frames = [
            Frame::standard(0x7FF, [1, 2, 3]),
            Frame::extended(0x123, [0; 8]),
            Frame::standard(0, []),
            Frame::remote(id(0x123, false), 5).unwrap(),
            Frame::remote(id(0x1FFF_FFFF, true), 8).unwrap(),
            Frame::flexible(id(0x4A0, false), &[7; 48], Fd { brs: true, esi: false }).unwrap(),
            Frame::flexible(id(0x123, true), &[], Fd { brs: false, esi: true }).unwrap(),
        ];
        for frame in frames {
            assert_eq!(from_kernel(&to_kernel(&frame).unwrap()), Some(frame));
        }
        let error = to_kernel(&Frame::error(0x88, [0, 0, 4, 0x0A, 0, 0, 0, 0])).unwrap();
        assert_eq!((error.id_word(), error.data()), (0x2000_0088, &[0, 0, 4, 0x0A, 0, 0, 0, 0][..]));
    }
}
