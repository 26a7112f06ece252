//! CAN interfaces of Linux (SocketCAN).

use std::{
    fs,
    io::{self, ErrorKind, IoSliceMut},
    os::fd::AsRawFd,
    path::Path,
    time::{Duration, SystemTime},
};

use futures_util::{FutureExt, future::BoxFuture};
use nix::{
    cmsg_space,
    libc::{MSG_PEEK, SO_MEMINFO, SOL_SOCKET},
    sys::{
        socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt},
        time::TimeSpec,
    },
};
use socket2::{MaybeUninitSlice, SockRef};
use socketcan::{
    CanDataFrame, CanFdFrame, CanFdSocket, CanFilter, EmbeddedFrame, ExtendedId, Id as AnyId, Socket,
    SocketOptions, StandardId, id::FdFlags,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::Instant,
};

use super::bus::{Bus, Failure, Inflow, Received, Unsent};
use crate::{
    codec::can::{BusError, Data, Fd, Frame, Id},
    link::LinkError,
};

/// Bytes of the kernel's buffer for frames that are not read yet: some 10,000 of them.
const BUFFER: usize = 8 << 20;
/// Frames that are taken at once.
const BATCH: usize = 256;
/// All classes of error frames (linux/can/error.h).
const ALL_ERRORS: u32 = 0x1FFF_FFFF;
/// Filters that a socket can have (linux/can/raw.h); beyond that all frames are taken.
const MOST_FILTERS: usize = 512;
/// Bits of an identifier, as the kernel writes it (linux/can.h).
const EXTENDED: u32 = 0x8000_0000;
const REMOTE: u32 = 0x4000_0000;
const ERROR: u32 = 0x2000_0000;
/// Bytes of a frame, and of one of CAN FD.
const CLASSIC_SIZE: usize = 16;
const FD_SIZE: usize = 72;
/// Flags of CAN FD.
const BRS: u8 = 0x01;
const ESI: u8 = 0x02;

/// An open interface.
pub(super) struct SocketCan {
    socket: AsyncFd<CanFdSocket>,
    /// Whether frames of CAN FD are wanted.
    fd: bool,
    /// Frames that the kernel lost, as it counts them: each frame tells what was lost before it came, and the socket what
    /// was lost behind the last one.
    dropped: u32,
    /// Frames of ours that are still to come back.
    expected: usize,
    control: Vec<u8>,
}

/// Opens an interface that is up.
pub(super) fn open(
    interface: &str,
    fd: bool,
    listen_only: bool,
    filters: &[(Id, u32)],
) -> Result<Box<dyn Bus>, LinkError> {
    let fail = |problem: String| LinkError { address: interface.to_owned(), problem, lasting: false };
    let socket = prepare(interface, fd, listen_only, filters).map_err(|error| {
        let is_there = Path::new("/sys/class/net").join(interface).exists();
        let is_other = error.raw_os_error() == Some(nix::libc::ENODEV) && is_there;
        fail(if is_other { "it is no CAN interface".to_owned() } else { explain(&error) })
    })?;
    if let Some(problem) = is_down(interface) {
        return Err(fail(problem));
    }
    Ok(Box::new(socket))
}

fn prepare(interface: &str, fd: bool, listen_only: bool, filters: &[(Id, u32)]) -> io::Result<SocketCan> {
    let socket = CanFdSocket::open(interface)?;
    socket.set_recv_own_msgs(!listen_only)?;
    socket.set_error_filter(ALL_ERRORS)?;
    if filters.len() <= MOST_FILTERS {
        let filter = |(id, mask): &(Id, u32)| {
            // The kind of identifier must be the same, and no remote frame is wanted.
            CanFilter::new(id.flagged(), mask | EXTENDED | REMOTE)
        };
        socket.set_filters(&filters.iter().map(filter).collect::<Vec<_>>())?;
    }
    // Beyond what the system allows only with its rights; what it gives then is what there is.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        SockRef::from(&socket).set_recv_buffer_size(BUFFER)?;
    }
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    socket.set_nonblocking(true)?;
    #[expect(
        deprecated,
        reason = "the socket keeps its descriptor as long as it lives; what replaces this is unsafe"
    )]
    let socket = AsyncFd::with_interest(socket, Interest::READABLE | Interest::ERROR)?;
    let control = cmsg_space!(TimeSpec, u32);
    Ok(SocketCan { socket, fd, dropped: 0, expected: 0, control })
}

/// Why nothing comes from an interface that is there.
fn is_down(interface: &str) -> Option<String> {
    /// `IFF_UP` (linux/if.h).
    const UP: u32 = 1;
    let flags = fs::read_to_string(Path::new("/sys/class/net").join(interface).join("flags")).ok()?;
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok()?;
    (flags & UP == 0).then(|| "the interface is down".to_owned())
}

fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::ENODEV) => "there is no such interface".to_owned(),
        Some(nix::libc::EAFNOSUPPORT | nix::libc::EPROTONOSUPPORT) => {
            "the kernel has no CAN (modules can and can_raw)".to_owned()
        }
        Some(nix::libc::ENETDOWN) => "the interface is down".to_owned(),
        _ => error.to_string(),
    }
}

impl SocketCan {
    async fn flow(&mut self, inflow: &mut Inflow) -> Result<(), Failure> {
        loop {
            let mut ready = self.socket.ready(Interest::READABLE | Interest::ERROR).await?;
            let mut took = 0;
            while took < BATCH {
                match receive(ready.get_inner(), self.expected > 0, &mut self.control) {
                    Ok(got) => {
                        took += 1;
                        take(&got, self.fd, &mut self.expected, &mut self.dropped, inflow);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        ready.clear_ready();
                        let count = drops(self.socket.get_ref())?.unwrap_or(self.dropped);
                        inflow.lost +=
                            u64::from(count.wrapping_sub(std::mem::replace(&mut self.dropped, count)));
                        break;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // What came before counts all the same.
                    Err(error) => return Err(Failure::adapter(explain(&error))),
                }
            }
            if took > 0 || inflow.lost > 0 {
                return Ok(());
            }
            if let Some(error) = SockRef::from(self.socket.get_ref()).take_error()? {
                return Err(Failure::adapter(explain(&error)));
            }
        }
    }
}

/// Frames that a socket lost since it is open; `None` where the kernel does not tell, as before 4.12.
fn drops(socket: &CanFdSocket) -> io::Result<Option<u32>> {
    /// The ninth of the numbers (`SK_MEMINFO_DROPS` in `linux/sock_diag.h`).
    const PLACE: usize = 8 * 4;
    let mut numbers = [0; 64];
    let size = socket.get_socket_option_bytes(SOL_SOCKET, SO_MEMINFO, &mut numbers)?;
    let number = numbers.get(..size).and_then(|numbers| numbers.get(PLACE..)?.first_chunk::<4>());
    Ok(number.map(|number| u32::from_ne_bytes(*number)))
}

/// One frame as the kernel gives it.
struct Got {
    bytes: [u8; FD_SIZE],
    size: usize,
    is_own: bool,
    time: Option<Duration>,
    dropped: Option<u32>,
}

fn receive(socket: &CanFdSocket, may_be_own: bool, control: &mut [u8]) -> io::Result<Got> {
    // The library that reads time stamps does not tell whose a frame is, and the one that does reads no time stamps.
    let is_own = may_be_own && {
        let mut nothing: [MaybeUninitSlice<'_>; 0] = [];
        let (_, flags) = SockRef::from(socket).recv_vectored_with_flags(&mut nothing, MSG_PEEK)?;
        flags.is_confirm()
    };
    let mut bytes = [0; FD_SIZE];
    let (size, mut time, mut dropped) = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::empty())?;
        let (mut time, mut dropped) = (None, None);
        for told in message.cmsgs()? {
            match told {
                ControlMessageOwned::ScmTimestampns(at) => time = Some(Duration::from(at)),
                ControlMessageOwned::RxqOvfl(count) => dropped = Some(count),
                _ => {}
            }
        }
        (message.bytes, time, dropped)
    };
    Ok(Got { bytes, size, is_own, time: time.take(), dropped: dropped.take() })
}

fn take(got: &Got, fd: bool, expected: &mut usize, dropped: &mut u32, inflow: &mut Inflow) {
    let lost =
        got.dropped.map_or(0, |count| u64::from(count.wrapping_sub(std::mem::replace(dropped, count))));
    if got.is_own {
        *expected = expected.saturating_sub(1);
    }
    match decode(&got.bytes, got.size) {
        Some(Frame::Data(data)) if data.fd.is_some() && !fd => inflow.garbled += 1,
        Some(frame) => inflow.frames.push(Received { frame, at: moment(got.time), is_own: got.is_own, lost }),
        None => {
            inflow.garbled += 1;
            inflow.lost += lost;
        }
    }
}

/// The monotonic moment of a wall clock's time stamp.
fn moment(time: Option<Duration>) -> Instant {
    let now = Instant::now();
    let age = time.and_then(|time| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + time).ok());
    age.and_then(|age| now.checked_sub(age)).unwrap_or(now)
}

/// A frame of the kernel's layout (linux/can.h): identifier, length, flags, two bytes that are reserved, payload.
fn decode(bytes: &[u8; FD_SIZE], size: usize) -> Option<Frame> {
    let [a, b, c, d, len, flags, _, _, payload @ ..] = bytes;
    let raw = u32::from_ne_bytes([*a, *b, *c, *d]);
    let payload = payload.get(..usize::from(*len))?;
    if raw & ERROR != 0 {
        let data = payload.try_into().ok()?;
        return Some(Frame::Error(BusError { class: raw & ALL_ERRORS, data }));
    }
    let id = Id::from_flagged(raw & !REMOTE)?;
    match size {
        CLASSIC_SIZE if raw & REMOTE != 0 => Some(Frame::Remote { id, len: *len }),
        CLASSIC_SIZE => Data::new(id, payload, None).map(Frame::Data),
        FD_SIZE => {
            let fd = Fd { brs: flags & BRS != 0, esi: flags & ESI != 0 };
            Data::new(id, payload, Some(fd)).map(Frame::Data)
        }
        _ => None,
    }
}

fn identifier(id: Id) -> Option<AnyId> {
    if id.is_extended() {
        ExtendedId::new(id.number()).map(AnyId::Extended)
    } else {
        StandardId::new(u16::try_from(id.number()).ok()?).map(AnyId::Standard)
    }
}

impl Bus for SocketCan {
    fn receive<'a>(&'a mut self, inflow: &'a mut Inflow) -> BoxFuture<'a, Result<(), Failure>> {
        self.flow(inflow).boxed()
    }

    fn send(&mut self, data: &Data) -> Result<(), Unsent> {
        let unfit = || Unsent::Unfit("the interface carries no such frame".to_owned());
        let id = identifier(data.id).ok_or_else(unfit)?;
        let bytes = data.payload.bytes();
        let socket = self.socket.get_ref();
        let sent = match data.fd {
            None => socket.write_frame(&CanDataFrame::new(id, bytes).ok_or_else(unfit)?),
            Some(fd) => {
                let flags = if fd.brs { FdFlags::BRS } else { FdFlags::empty() };
                socket.write_frame(&CanFdFrame::with_flags(id, bytes, flags).ok_or_else(unfit)?)
            }
        };
        match sent {
            Ok(()) => {
                self.expected += 1;
                Ok(())
            }
            Err(error) => Err(match error.raw_os_error() {
                // Its queue is full, or our own share of it.
                Some(nix::libc::ENOBUFS | nix::libc::EAGAIN) => Unsent::Busy,
                Some(nix::libc::EINVAL | nix::libc::EMSGSIZE) => {
                    Unsent::Unfit("the interface carries no such frame: CAN FD needs an mtu of 72".to_owned())
                }
                _ => Unsent::Lost(Failure::adapter(explain(&error))),
            }),
        }
    }

    fn has_echo(&self) -> bool {
        true
    }
}
