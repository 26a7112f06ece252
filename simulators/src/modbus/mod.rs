//! A Modbus TCP server with any number of simulated units, and handles that look into it and disturb it.
//!
//! Owns the tables, the counts and the log of writes. Knows no physics and nothing of the bridge under test.
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

mod handle;
mod pdu;
mod screen;
mod server;
mod state;
mod tables;

pub use handle::{Handle, Unit};
pub use server::Server;
pub use state::{Refusal, Reply, Values, Write};
pub use tables::{Table, Tables};
pub use tokio_modbus::ExceptionCode;
