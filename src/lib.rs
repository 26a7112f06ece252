//! fieldbridge lets an AI assistant work on a plant: it reads tags, watches them and writes setpoints.

pub mod app;
pub mod cli;
pub mod codec;
pub mod config;
pub mod control;
pub mod drivers;
pub mod link;
pub mod mcp;
pub mod model;
pub mod profile;
pub mod store;
pub mod tls;
