//! Modbus servers with any number of simulated units, and handles that look into them and disturb them.
//!
//! The same units can be served over TCP, TLS, RTU over TCP and a serial line, at once. Owns the tables, the counts
//! and the log of writes. Knows no physics and nothing of the bridge under test.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use simulators::modbus::{Server, Tables};
//!
//! let mut tables = Tables::new();
//! tables.set_holdings(10, &[650, 80]);
//! let server = Server::start(([127, 0, 0, 1], 0).into(), [(1, tables)])?;
//! // … point a client at server.local_addr(), let it write …
//! server.handle().wait_for(|handle| !handle.writes().is_empty()).await;
//! server.stop().await;
//! # Ok(())
//! # }
//! ```

mod connection;
mod execute;
mod fault;
mod framing;
mod handle;
mod identity;
#[cfg(unix)]
mod line;
mod pdu;
mod proxy;
mod rtu;
mod server;
mod state;
mod tables;
pub mod tls;

pub use fault::{FAULTS, Fault, FaultError, Faults};
pub use framing::Framing;
pub use handle::{Handle, Unit};
pub use identity::Identity;
#[cfg(unix)]
pub use line::{Line, Pace, Traffic};
pub use proxy::Proxy;
pub use server::Server;
pub use state::{Refusal, Reply, Values, Write};
pub use tables::{Table, Tables};
pub use tokio_modbus::ExceptionCode;
