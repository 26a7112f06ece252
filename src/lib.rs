//! fieldbridge lets an AI assistant work on a plant: it reads tags, watches them and writes setpoints.

pub mod codec;
pub mod config;
pub mod drivers;
pub mod link;
pub mod model;
pub mod profile;
