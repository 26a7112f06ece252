//! What a site file says, key by key; what it means is [`resolve`](super::resolve)'s.

use super::{
    leaf::{Choice, HostPort, HttpAddress, Name, ProfileName, Text, Whole, Words},
    read::List,
    section::section,
    site::WriteMode,
};
use crate::profile::raw::{DefaultOrder, TagTable};

/// A scan interval in milliseconds: 10 ms to a day.
pub(crate) type ScanMs = Whole<10, 86_400_000>;
/// An age in milliseconds: 10 ms to a week.
pub(crate) type StaleMs = Whole<10, 604_800_000>;
/// Deadline of a write in milliseconds: 10 ms to ten minutes.
pub(crate) type WriteMs = Whole<10, 600_000>;

/// The drivers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    ModbusTcp,
}

impl Words for Driver {
    const WORDS: &'static [(&'static str, Self)] = &[("modbus-tcp", Self::ModbusTcp)];
}

section! {
    /// A site of fieldbridge: which devices hang where, and how they are served.
    pub(crate) struct SiteFile {
        /// The plant as a whole.
        required site: SiteTable;
        /// How the tags are served.
        implied server: ServerTable;
        /// The links to devices, each with a name of its own.
        optional connections: List<ConnectionTable>;
        /// The devices, each on one connection.
        optional devices: List<DeviceTable>;
    }
}

section! {
    /// The plant as a whole.
    pub(crate) struct SiteTable {
        /// Name of the plant, for people and assistants.
        required name: Text;
        /// Who may write: `off` nobody, `confirm` only what a person confirmed (until that is built every write is
        /// refused), `allow` every client within each tag's limits.
        default writes: Choice<WriteMode> = "off";
        /// What holds for writes to tags that do not say it themselves.
        implied write: SiteWriteTable;
    }
}

section! {
    /// What holds for writes to tags that do not say it themselves.
    pub(crate) struct SiteWriteTable {
        /// Deadline of a write in milliseconds, counted from its arrival.
        default timeout_ms: WriteMs = 5000;
    }
}

section! {
    /// How the tags are served.
    pub(crate) struct ServerTable {
        /// Address and port where HTTP listens, such as `127.0.0.1:8910`; loopback only. Left out, only stdio is
        /// served.
        optional http: HttpAddress;
        /// Least time in milliseconds between two notifications of one tag to one subscriber.
        default notify_min_ms: Whole<0, 60_000> = 100;
    }
}

section! {
    /// One link to one or more devices.
    pub(crate) struct ConnectionTable {
        /// Name by which devices refer to it.
        required name: Name;
        /// Protocol and transport.
        required driver: Choice<Driver>;
        /// `host:port` of the device or gateway; Modbus TCP is usually at port 502. IPv6 addresses stand in brackets.
        required address: HostPort;
        /// How long an answer, or a connect, may take, in milliseconds.
        default timeout_ms: Whole<10, 60_000> = 1000;
    }
}

section! {
    /// One device.
    pub(crate) struct DeviceTable {
        /// Name of the device: the first part of its tags' paths.
        required name: Name;
        /// What it is and where it stands, for people and assistants. Default: the profile's.
        optional description: Text;
        /// Name of the connection that it hangs on.
        required connection: Name;
        /// Modbus unit id. 1 to 247 are devices behind a gateway or on a line; a device with its own network socket
        /// answers to 255, 0 or whatever its manual says.
        required unit_id: Whole<0, 255>;
        /// Its profile, as `vendor/model`: `devices/vendor/model.toml` in the folder beside the one that holds this
        /// file, then those built into the program.
        optional profile: ProfileName;
        /// How often its tags are read, in milliseconds. Default: the profile's, else 1000.
        optional scan_ms: ScanMs;
        /// Order in which the bytes of a value arrive. Default: the profile's, else `ABCD`.
        optional byte_order: Choice<DefaultOrder>;
        /// Age in milliseconds at which a good value becomes uncertain. Default: the profile's, else three times the
        /// tag's scan interval.
        optional stale_after_ms: StaleMs;
        /// Tags beside those of the profile; one with the name of a profile's tag replaces all of it.
        optional tags: List<TagTable>;
    }
}
