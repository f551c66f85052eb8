#![no_main]

//! Any text as a connection string, with a password after it that no message may show.

use readpast::Config;

const SECRET: &str = "0p3n-s3same";

libfuzzer_sys::fuzz_target!(|text: &str| {
    let mut config = Config::default();
    config.connection.url = format!("{text};Password={SECRET}").into();
    let shown = format!("{config:?} {:?}", config.validate());
    // The text itself may say it: spaces in keys do not count, case neither, and Debug shows a NUL as `\0`.
    let said: String = text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    assert!(said.to_lowercase().contains(&SECRET[1..]) || !shown.contains(SECRET));
});
