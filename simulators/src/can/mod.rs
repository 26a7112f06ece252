//! CAN buses in process, devices on them, and ways to reach them from outside.
//!
//! The same bus can be reached as a port in process, by slcan on a pseudo-terminal and over TCP, by socketcand, and through a
//! `SocketCAN` interface, at once. Owns frames, arbitration, the physics and messages of the devices, and what goes wrong.
//! Knows nothing of the bridge under test.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use simulators::can::{Bus, Device, drive::Drive};
//!
//! let bus = Bus::new("can0");
//! let drive = Device::start(&bus, Drive::new());
//! let mut port = bus.attach();
//! let received = port.recv().await;
//! assert_eq!(received.frame.id, 0x181);
//! drive.stop().await;
//! # }
//! ```

pub mod battery;
mod bus;
pub mod crc;
mod device;
pub mod drive;
pub mod engine;
mod fault;
mod frame;
mod hex;
mod net;
pub mod slcan;
pub mod socketcand;
#[cfg(target_os = "linux")]
pub mod vcan;

pub use bus::{Bus, Filter, Options, Port, Received, Receiver, SendError, Sender};
pub use device::{Device, Model, Said};
pub use fault::{FAULTS, Fault, FaultError};
pub use frame::{FD_LENGTHS, Fd, Frame, FrameError, Id, IdError, Kind, MAX_EXTENDED, MAX_STANDARD, class};
