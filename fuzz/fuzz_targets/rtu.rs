#![no_main]

use fieldbridge_fuzz::rtu::{Input, check};

libfuzzer_sys::fuzz_target!(|input: Input| check(&input));
