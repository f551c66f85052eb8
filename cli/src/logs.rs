//! The log of commands that stay: what the library, the worker and the page say of themselves.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Logs on standard error from now on, once in a process.
pub fn to_stderr() {
    let mut filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
    if let Ok(off) = "tiberius=off".parse() {
        filter = filter.add_directive(off); // the driver logs what comes back as an error, too
    }
    let has_colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(has_colour).with_writer(io::stderr);
    // What cannot be written is not worth dying for, as it is when nobody reads any more.
    logs.log_internal_errors(false).init();
}
