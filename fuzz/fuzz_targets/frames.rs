#![no_main]

use fieldbridge_fuzz::frames::{Input, check};

libfuzzer_sys::fuzz_target!(|input: Input| check(&input));
