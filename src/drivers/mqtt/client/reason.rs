//! Reason codes of brokers (MQTT 5.0, section 2.4; MQTT 3.1.1, sections 3.2.2.3 and 3.9.3).

use std::fmt;

/// A reason code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::drivers::mqtt) struct Code {
    pub(in crate::drivers::mqtt) number: u8,
    name: &'static str,
}

const NO_SUBSCRIBERS: u8 = 0x10;
const TAKEN_OVER: u8 = 0x8E;

impl Code {
    /// A code of MQTT 5.
    pub(super) fn v5(number: u8) -> Self {
        let name = match number {
            NO_SUBSCRIBERS => "no matching subscribers",
            0x80 => "unspecified error",
            0x81 => "malformed packet",
            0x82 => "protocol error",
            0x83 => "implementation specific error",
            0x84 => "unsupported protocol version",
            0x85 => "client identifier not valid",
            0x86 => "bad user name or password",
            0x87 => "not authorized",
            0x88 => "server unavailable",
            0x89 => "server busy",
            0x8A => "banned",
            0x8B => "server shutting down",
            0x8C => "bad authentication method",
            0x8D => "keep alive timeout",
            TAKEN_OVER => "session taken over",
            0x8F => "topic filter invalid",
            0x90 => "topic name invalid",
            0x91 => "packet identifier in use",
            0x92 => "packet identifier not found",
            0x93 => "receive maximum exceeded",
            0x94 => "topic alias invalid",
            0x95 => "packet too large",
            0x96 => "message rate too high",
            0x97 => "quota exceeded",
            0x98 => "administrative action",
            0x99 => "payload format invalid",
            0x9A => "retain not supported",
            0x9B => "QoS not supported",
            0x9C => "use another server",
            0x9D => "server moved",
            0x9E => "shared subscriptions not supported",
            0x9F => "connection rate exceeded",
            0xA0 => "maximum connect time",
            0xA1 => "subscription identifiers not supported",
            0xA2 => "wildcard subscriptions not supported",
            _ => "unknown reason",
        };
        Self { number, name }
    }

    /// The answer to a connect in MQTT 3.1.1.
    pub(super) fn v311(number: u8) -> Self {
        let name = match number {
            1 => "unacceptable protocol version",
            2 => "identifier rejected",
            3 => "server unavailable",
            4 => "bad user name or password",
            5 => "not authorized",
            0x80 => "failure",
            _ => "unknown reason",
        };
        Self { number, name }
    }

    /// Whether nobody listens to a message.
    pub(in crate::drivers::mqtt) fn is_unheard(self) -> bool {
        self.number == NO_SUBSCRIBERS
    }

    pub(super) fn is_taken_over(self) -> bool {
        self.number == TAKEN_OVER
    }

    /// Whether somebody must change something before a refused client is let in.
    pub(super) fn is_lasting(self) -> bool {
        matches!(self.number, 1 | 2 | 4 | 5 | 0x84..=0x87 | 0x8A | 0x8C | TAKEN_OVER)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:02X})", self.name, self.number)
    }
}
