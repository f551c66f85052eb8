#![no_main]

//! Any text as a configuration: an error that quotes no secret, or settings that are checked without a panic.

use readpast::Config;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Config::from_toml(text) {
        Ok(config) => {
            let _ = config.validate();
        }
        Err(error) => {
            let _ = error.to_string();
        }
    }
});
