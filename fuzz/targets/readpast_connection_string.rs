#![no_main]

//! Any text as a connection string, with a password after it that no message may show.

use readpast::Config;

const SECRET: &str = "0p3n-s3same";

libfuzzer_sys::fuzz_target!(|text: &str| {
    let mut config = Config::default();
    config.connection.url = format!("{text};Password={SECRET}").into();
    let shown = format!("{config:?} {:?}", config.validate());
    // Its 0 can come from `\0`, which is how Debug shows a NUL.
    assert!(text.contains(&SECRET[1..]) || !shown.contains(SECRET));
});
