#![no_main]

#[allow(dead_code)] // each target uses its part
#[path = "../../tests/support/tampered.rs"]
mod tampered;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tampered::payload(bytes));
