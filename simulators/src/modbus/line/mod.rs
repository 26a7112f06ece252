//! A serial line with simulated units: Modbus RTU on a pseudo-terminal that a master opens by its path.
//!
//! A plain thread owns the port and keeps the pace: timers of an async runtime leave gaps of 2 to 3 ms. What the devices
//! do is the handle's matter, what goes wrong on the way the faults'.
//!
//! A pseudo-terminal knows no speed and no parity: a master may open it with any. The pace says how long bytes take.

mod pace;
mod port;
mod station;

use std::{
    io::{self, Read as _, Write as _},
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use tempfile::TempDir;

pub use pace::Pace;
use port::Port;
use station::Station;
pub use station::Traffic;

use super::{fault::Faults, handle::Handle, state::lock};

/// Before the end of an answer the thread wakes so much early and spins, since a wake-up is late by about 0.1 ms.
const SPIN: Duration = Duration::from_micros(250);

/// A running line. Dropping it stops it as well.
#[derive(Debug)]
pub struct Line {
    path: PathBuf,
    handle: Handle,
    faults: Faults,
    traffic: Arc<Mutex<Traffic>>,
    orders: mpsc::Sender<(Order, mpsc::Sender<io::Result<()>>)>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
    /// Holds the link where no path was asked for.
    _folder: Option<TempDir>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Unplug,
    Replug,
    Stop,
}

impl Line {
    /// A line at a path of its own, with these units.
    pub fn start(handle: &Handle, pace: Pace) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("line-").tempdir()?;
        let path = folder.path().join("port");
        Self::run(path, handle, pace, Some(folder))
    }

    /// A line at this path, where a symbolic link to the pseudo-terminal will stand.
    ///
    /// # Errors
    /// What the system says; `AlreadyExists` where anything but a link to nowhere is there.
    pub fn start_at(path: &Path, handle: &Handle, pace: Pace) -> io::Result<Self> {
        Self::run(path.to_owned(), handle, pace, None)
    }

    fn run(path: PathBuf, handle: &Handle, pace: Pace, folder: Option<TempDir>) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (orders, to_obey) = mpsc::channel();
        let (faults, traffic) = (Faults::new(), Arc::default());
        let worker = Worker {
            port: Some(Port::open(&path)?),
            path: path.clone(),
            station: Station::new(handle.clone(), faults.clone(), pace),
            traffic: Arc::clone(&traffic),
            orders: to_obey,
            woken,
        };
        let thread = thread::Builder::new().name("serial line".to_owned()).spawn(move || worker.run())?;
        let handle = handle.clone();
        Ok(Self { path, handle, faults, traffic, orders, wake, thread: Some(thread), _folder: folder })
    }

    /// What a master opens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The units, the counts and the log.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The faults to come, and the record of frames. Faults that end a connection do nothing here.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What went over the line so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        *lock(&self.traffic)
    }

    /// The port is gone from now on, as when a USB adapter is pulled: its path leads nowhere, and a master that has it
    /// open is hung up on.
    pub fn unplug(&self) -> io::Result<()> {
        self.order(Order::Unplug)
    }

    /// The port is back at its path. A master that had it open before must open it again.
    pub fn replug(&self) -> io::Result<()> {
        self.order(Order::Replug)
    }

    /// Stops it; the path is gone when this returns.
    pub fn stop(mut self) {
        self.end();
    }

    fn order(&self, order: Order) -> io::Result<()> {
        let (done, obeyed) = mpsc::channel();
        let gone = || io::Error::other("the line's thread has ended");
        self.orders.send((order, done)).or(Err(gone()))?;
        (&self.wake).write_all(&[0])?;
        obeyed.recv().or(Err(gone()))?
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if let Err(error) = self.order(Order::Stop) {
            tracing::warn!(%error, "cannot stop a serial line");
        }
        if thread.join().is_err() {
            tracing::warn!("the thread of a serial line failed");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread's side.
struct Worker {
    path: PathBuf,
    port: Option<Port>,
    station: Station,
    traffic: Arc<Mutex<Traffic>>,
    orders: mpsc::Receiver<(Order, mpsc::Sender<io::Result<()>>)>,
    woken: UnixStream,
}

impl Worker {
    fn run(mut self) {
        while self.obey() {
            if let Err(error) = self.turn() {
                tracing::warn!(%error, path = %self.path.display(), "a serial line failed");
                self.unplug();
            }
        }
    }

    /// Waits for whatever comes first, and deals with it.
    fn turn(&mut self) -> io::Result<()> {
        self.wait()?;
        // Several wake-ups are as good as one.
        match self.woken.read(&mut [0; 64]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let Some(port) = &self.port else { return Ok(()) };
        let mut bytes = [0; 512];
        match rustix::io::read(port.devices(), &mut bytes) {
            Ok(count) => {
                let bytes = bytes.get(..count).unwrap_or_default();
                self.station.receive(Instant::now(), bytes);
                port.release();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for bytes in self.station.advance(Instant::now()) {
            match rustix::io::write(port.devices(), &bytes) {
                // What does not fit is lost: nobody listens.
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        *lock(&self.traffic) = self.station.traffic;
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let next = self.station.next();
        let spin = |last| if last { SPIN } else { Duration::ZERO };
        let timeout =
            next.map(|(due, last)| due.saturating_duration_since(Instant::now()).saturating_sub(spin(last)));
        let timeout = timeout.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        let wake = PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN);
        let devices = self.port.as_ref().map(Port::devices);
        let devices = devices.as_ref().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        let mut fds: Vec<_> = [Some(wake), devices].into_iter().flatten().collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => {}
            Ok(_) | Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if let Some((due, _)) = next {
            while Instant::now() < due {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// False: the line is to stop, or was dropped.
    fn obey(&mut self) -> bool {
        loop {
            let (order, done) = match self.orders.try_recv() {
                Ok(order) => order,
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            };
            let result = match order {
                Order::Unplug | Order::Stop => {
                    self.unplug();
                    Ok(())
                }
                Order::Replug if self.port.is_some() => Ok(()),
                Order::Replug => Port::open(&self.path).map(|port| self.port = Some(port)),
            };
            // Who gave the order may not wait.
            drop(done.send(result));
            if order == Order::Stop {
                return false;
            }
        }
    }

    fn unplug(&mut self) {
        if self.port.is_some()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove the link to a port");
        }
        self.port = None;
        self.station.cut();
    }
}
