//! A pair of pseudo-terminals, and the path by which a master opens its end.
//!
//! Knows file descriptors and paths; no bytes of any protocol.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{OpenOptionsExt, symlink},
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{OptionalActions, ioctl_tiocnxcl, tcgetattr, tcsetattr},
};

/// The devices' end, and the master's end held open so that a master may close and open it as it likes.
#[derive(Debug)]
pub(super) struct Port {
    devices: OwnedFd,
    master: OwnedFd,
}

impl Port {
    /// A new pair, reached through a symbolic link at `link`. Dropping it hangs up, but leaves the link.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` where anything but a link to nowhere is at `link`.
    pub(super) fn open(link: &Path) -> io::Result<Self> {
        let devices = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&devices)?;
        unlockpt(&devices)?;
        // Where nobody reads the other end, bytes are lost, as on a wire; the thread must not wait for that.
        fcntl_setfl(&devices, fcntl_getfl(&devices)? | OFlags::NONBLOCK)?;
        rustix::io::fcntl_setfd(&devices, rustix::io::FdFlags::CLOEXEC)?;
        let name = ptsname(&devices, Vec::new())?;
        let name = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or_default();
        let master = fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(&name)?;
        let mut mode = tcgetattr(&master)?;
        mode.make_raw();
        tcsetattr(&master, OptionalActions::Now, &mode)?;
        point(link, &name)?;
        Ok(Self { devices, master: master.into() })
    }

    pub(super) fn devices(&self) -> impl AsFd + '_ {
        &self.devices
    }

    /// Lets others open the master's end. A master that was killed leaves it claimed, since it stays open here.
    pub(super) fn release(&self) {
        if let Err(error) = ioctl_tiocnxcl(&self.master) {
            tracing::debug!(%error, "cannot release the port");
        }
    }
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
