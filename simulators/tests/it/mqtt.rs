//! The MQTT broker and its devices, by a client of both versions of the protocol.

mod broker;
mod client;
mod devices;
mod faults;
