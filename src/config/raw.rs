//! What a site file says, key by key; what it means is [`resolve`](super::resolve)'s.

mod connection;

pub(crate) use connection::{
    AnnounceTable, ConnectionTable, Driver, Ids, PemPath, PortPath, Session, TlsTable,
};

use super::{
    leaf::{Choice, Flag, HttpAddress, Name, ProfileName, Text, Whole},
    read::List,
    section::section,
    site::WriteMode,
};
use crate::profile::{
    dialect::{ReadsTable, WritesTable},
    raw::{
        AnyTag, DefaultOrder,
        topic::{AvailabilityTable, Captures, Level},
    },
};

/// A scan interval in milliseconds: 10 ms to a day.
pub(crate) type ScanMs = Whole<10, 86_400_000>;
/// An age in milliseconds: 10 ms to a week.
pub(crate) type StaleMs = Whole<10, 604_800_000>;
/// Deadline of a write in milliseconds: 10 ms to ten minutes.
pub(crate) type WriteMs = Whole<10, 600_000>;

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
    /// One device.
    pub(crate) struct DeviceTable {
        /// Name of the device: the first part of its tags' paths.
        required name: Name;
        /// What it is and where it stands, for people and assistants. Default: the profile's.
        optional description: Text;
        /// Name of the connection that it hangs on.
        required connection: Name;
        /// Modbus unit id, which every Modbus device needs. 1 to 247 are devices behind a gateway or on a line; a device with its own network socket
        /// answers to 255, 0 or whatever its manual says. On a line, 0 is a broadcast.
        optional unit_id: Whole<0, 255>;
        /// Whether what is written goes to all devices at once, of which none answers; needs `unit_id = 0`. Such a
        /// device has only tags that can be written. Default: true for `unit_id = 0` with `modbus-rtu` and
        /// `modbus-rtu-tcp`, else false.
        optional broadcast: Flag;
        /// Address of a J1939 device on its bus: what this address sends are its values.
        optional source_address: Whole<0, 253>;
        /// Its profile, as `vendor/model`: `devices/vendor/model.toml` in the folder beside the one that holds this
        /// file, then those built into the program.
        optional profile: ProfileName;
        /// What the names in the topics of an MQTT device stand for, such as `{ device = "plug_3" }` for
        /// `tele/{device}/SENSOR`. Default for `device`: the device's own name.
        optional captures: Captures;
        /// Messages that tell whether an MQTT device is there; of several all must say so. They replace the profile's.
        optional availability: List<AvailabilityTable>;
        /// Quality of service of an MQTT device's subscriptions. Default: the profile's, else 1.
        optional qos: Level;
        /// How often its tags are read, in milliseconds; for Modbus. Default: the profile's, else 1000.
        optional scan_ms: ScanMs;
        /// Order in which the bytes of a value arrive. Default: the profile's, else `ABCD`.
        optional byte_order: Choice<DefaultOrder>;
        /// Age in milliseconds at which a good value becomes uncertain. Default: the profile's, else three times the
        /// tag's scan interval; for MQTT three times its `interval_ms`, and never where there is none.
        optional stale_after_ms: StaleMs;
        /// What one request may read; each key wins over the profile's.
        optional reads: ReadsTable;
        /// How it is written to; each key wins over the profile's.
        optional writes: WritesTable;
        /// Tags beside those of the profile; one with the name of a profile's tag replaces all of it.
        optional tags: List<AnyTag>;
    }
}
