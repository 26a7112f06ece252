//! A pair of pseudo-terminals, and the path by which a host opens its end.
//!
//! Knows file descriptors and paths; no bytes of any protocol.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{OpenOptionsExt, symlink},
        },
    },
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{OptionalActions, ioctl_tiocnxcl, tcgetattr, tcsetattr},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd};

/// The adapter's end, and the host's end held open so that a host may close and open it as it likes. Dropping it hangs up
/// and removes the link.
#[derive(Debug)]
pub(super) struct Pty {
    adapter: AsyncFd<OwnedFd>,
    host: OwnedFd,
    link: PathBuf,
}

impl Pty {
    /// A new pair, reached through a symbolic link at `link`.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` where anything but a link to nowhere is at `link`.
    pub(super) fn open(link: &Path) -> io::Result<Self> {
        let adapter = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&adapter)?;
        unlockpt(&adapter)?;
        fcntl_setfl(&adapter, fcntl_getfl(&adapter)? | OFlags::NONBLOCK)?;
        rustix::io::fcntl_setfd(&adapter, rustix::io::FdFlags::CLOEXEC)?;
        let name = ptsname(&adapter, Vec::new())?;
        let name = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or_default();
        let host = fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(&name)?;
        let mut mode = tcgetattr(&host)?;
        mode.make_raw();
        tcsetattr(&host, OptionalActions::Now, &mode)?;
        let adapter = watch(adapter)?;
        point(link, &name)?;
        Ok(Self { adapter, host: host.into(), link: link.to_owned() })
    }

    /// Lets others open the host's end. A host that was killed leaves it claimed, since it stays open here.
    fn release(&self) {
        if let Err(error) = ioctl_tiocnxcl(&self.host) {
            tracing::debug!(%error, "cannot release the port");
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.link) {
            tracing::debug!(%error, path = %self.link.display(), "cannot remove the link to a port");
        }
    }
}

impl AsyncRead for Pty {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.adapter.poll_read_ready(cx))?;
            let read = |fd: &AsyncFd<OwnedFd>| Ok(rustix::io::read(fd.as_fd(), out.initialize_unfilled())?);
            match guard.try_io(read) {
                Ok(Ok(count)) => {
                    out.advance(count);
                    self.release();
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_not_ready) => {}
            }
        }
    }
}

impl AsyncWrite for Pty {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.adapter.poll_write_ready(cx))?;
            match guard.try_io(|fd| Ok(rustix::io::write(fd.as_fd(), bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => return Poll::Ready(written),
                Err(_not_ready) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[expect(
    deprecated,
    reason = "what replaces it is unsafe; an `OwnedFd` stays open and the same, as that asks for"
)]
fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}

/// Makes `link` lead to `target`, without a moment at which it leads elsewhere.
fn point(link: &Path, target: &Path) -> io::Result<()> {
    let stale = fs::symlink_metadata(link).is_ok_and(|meta| meta.is_symlink()) && !link.exists();
    if stale {
        fs::remove_file(link)?;
    }
    symlink(target, link).map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::AlreadyExists {
            "; remove it or give another path"
        } else {
            ""
        };
        io::Error::new(error.kind(), format!("cannot make {}: {error}{hint}", link.display()))
    })
}
