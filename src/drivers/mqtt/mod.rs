//! MQTT: what publishes and listens on topics of a broker.

pub mod topic;
