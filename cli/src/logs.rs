//! The log of long-running commands.

use std::env;
use std::io::{self, IsTerminal};

use anyhow::Result;
use tracing::Level;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::{Exit, failure};

/// Filters log lines: `info`, or `warn,readpast=debug`.
const VARIABLE: &str = "RUST_LOG";

/// The log of this process.
pub struct Log {
    asked: Targets,
    now: reload::Handle<Targets, Registry>,
}

impl Log {
    /// Writes readpast's debug messages from now on, or no longer.
    pub fn debug(&self, begins: bool) {
        let targets = self.asked.clone();
        let is_less = !self.asked.would_enable("readpast", &Level::DEBUG);
        let targets = if begins && is_less { targets.with_target("readpast", LevelFilter::DEBUG) } else { targets };
        let _ = self.now.reload(targets); // an error: the log no longer exists
    }
}

/// Starts logging to standard error, once per process.
///
/// # Errors
///
/// With [`Exit::Usage`], if `RUST_LOG` is not valid.
pub fn to_stderr() -> Result<Log> {
    let asked = env::var_os(VARIABLE).unwrap_or_default();
    let has_colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let lines = fmt::layer().with_ansi(has_colour).with_target(false).with_writer(io::stderr);
    // A closed standard error must not end the process.
    let lines = lines.log_internal_errors(false);
    let asked = targets(&asked.to_string_lossy())?;
    let (filter, now) = reload::Layer::new(asked.clone());
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(Log { asked, now })
}

fn targets(asked: &str) -> Result<Targets> {
    let targets = if asked.trim().is_empty() {
        Targets::new().with_default(LevelFilter::INFO)
    } else {
        asked.parse().map_err(|_| {
            let allowed = "levels (off, error, warn, info, debug, trace) or `target=level`, separated by commas";
            failure(Exit::Usage, format!("{VARIABLE} is `{asked}`; it must be {allowed}"))
        })?
    };
    // The driver's events are off, because it also returns its errors.
    Ok(targets.with_target("tiberius", LevelFilter::OFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_log_chooses_what_is_written() {
        let shown = |asked: &str, target, level| targets(asked).unwrap().would_enable(target, &level);
        assert!(shown("", "readpast::worker", Level::INFO) && !shown(" ", "readpast::worker", Level::DEBUG));
        assert!(shown("warn,readpast=debug", "readpast::worker", Level::DEBUG));
        assert!(!shown("warn,readpast=debug", "hyper", Level::INFO));
        assert!(!shown("trace", "tiberius::client", Level::ERROR) && shown("trace", "readpast", Level::TRACE));
        let error = targets("readpast=loud").unwrap_err().to_string();
        assert!(error.contains("RUST_LOG is `readpast=loud`") && error.contains("trace"), "{error}");
    }
}
