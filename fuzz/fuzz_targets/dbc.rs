#![no_main]

use fieldbridge_fuzz::dbc::{Input, check};

libfuzzer_sys::fuzz_target!(|input: Input| check(&input));
