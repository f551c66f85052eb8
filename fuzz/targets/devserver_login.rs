#![no_main]

#[path = "../../devserver/tests/fuzz/bodies.rs"]
mod bodies;
#[path = "../../devserver/tests/wire/mod.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::login(bytes));
