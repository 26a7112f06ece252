//! What the commands print and do, one file a command.

pub mod check;
