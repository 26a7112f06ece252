//! An MQTT broker in process, and simulated devices as its clients, with handles that look into both and disturb them.
//!
//! The broker takes MQTT 3.1.1 and 5 on one port, from any client; the devices can use any broker. Owns what devices say
//! and obey, and what goes wrong with it. Knows nothing of the bridge under test.
//!
//! ```
//! # async fn example() -> std::io::Result<()> {
//! use simulators::mqtt::{Broker, Device, Settings, family::Plug};
//!
//! let broker = Broker::start(([127, 0, 0, 1], 0).into()).await?;
//! let plug = Device::start(&broker.url(), Plug::new("plug_3"), Settings::by_hand());
//! plug.wait_for(|plug| plug.connected()).await;
//! plug.beat().await?;
//! // … point a client at broker.local_addr(), let it switch the plug …
//! plug.wait_for(|plug| plug.with(|plug| plug.is_on())).await;
//! plug.stop().await;
//! broker.stop().await;
//! # Ok(())
//! # }
//! ```

mod broker;
mod device;
pub mod family;
mod fault;
mod model;
mod rules;
mod watch;

pub use broker::{Broker, Listen};
pub use device::{Device, Settings};
pub use fault::{FAULTS, Fault, FaultError};
pub use model::{Message, Model, Part, Publication};
pub use mqtt5::QoS;
pub use watch::{Handle, Published};
