//! Configuration: `raw` says what the files say, `resolve` what they mean. Opens no sockets.
//!
//! Layers are merged by the `config` library; its tree is then walked here, so that nothing is coerced and all
//! problems come in one list, each with file, line, key, value and what is allowed.

mod address;
pub(crate) mod broker;
mod can;
mod document;
pub(crate) mod leaf;
mod load;
pub(crate) mod problem;
pub(crate) mod raw;
pub(crate) mod read;
mod resolve;
mod schema;
pub(crate) mod section;
mod site;
#[cfg(test)]
mod tests;

pub use address::{AddressError, can_address, modbus_address, mqtt_address};
pub use broker::{Announce, Login, MqttEndpoint, MqttVersion, Secret};
pub use can::{Adapter, CanDevice, CanEndpoint, Stream};
pub(crate) use document::Document;
pub use leaf::{HttpAddressError, http_address};
pub use load::{load, load_text};
pub use problem::{Origin, Problem, Problems, What};
pub use schema::{profile_schema, site_schema};
pub use site::{
    Connection, DeviceSpec, Endpoint, ModbusDevice, ModbusEndpoint, MqttDevice, Parity, Polled, Serial,
    ServerSettings, Site, TagSpec, Tls, Transport, Wire, WriteMode,
};
