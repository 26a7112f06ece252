//! fieldbridge lets an AI assistant work on a plant: it reads tags, watches them and writes setpoints.

pub mod model;
