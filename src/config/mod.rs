//! Configuration: `raw` says what the files say, `resolve` what they mean. Opens no sockets.

mod site;

pub use site::{Connection, DeviceSpec, Endpoint, ServerSettings, Site, Source, TagSpec, WriteMode};
