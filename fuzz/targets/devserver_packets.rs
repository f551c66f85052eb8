#![no_main]

#[allow(dead_code)] // each target uses its part
#[path = "../../devserver/tests/fuzz/bodies.rs"]
mod bodies;
#[allow(dead_code)] // each target uses its part
#[path = "../../devserver/tests/wire/mod.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::packets(bytes));
