//! The log lines of an outage of SQL Server: one at its start, one a minute, and one at its end, for all stages of a
//! worker together.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::Error;

const AGAIN: Duration = Duration::from_secs(60);

/// Detects outages of SQL Server from the results of a worker's calls.
#[derive(Debug, Default)]
pub(in crate::worker) struct OutageLog {
    is_on: AtomicBool,
    lasting: Mutex<Option<Lasting>>,
}

#[derive(Debug)]
struct Lasting {
    since: Instant,
    said_at: Instant,
    failed: u64,
    /// Failed calls that are being retried. The outage is over when all of them have succeeded.
    repeated: BTreeSet<&'static str>,
}

/// The log line of a failed call.
enum Line {
    None,
    Begin,
    Lasts { since: Instant, failed: u64 },
}

impl OutageLog {
    /// Records the failure of a call that is retried until it succeeds ([`answered`](Self::answered)). Returns whether
    /// the outage explains the error, so that the caller need not log it. It does not explain a deadlock, for example.
    pub(in crate::worker) fn tells_of(&self, call: &'static str, error: &Error) -> bool {
        self.note(call, error, true)
    }

    /// Same as [`tells_of`](Self::tells_of), for a call that is not retried: the end of the outage does not depend on
    /// it.
    pub(in crate::worker) fn tells_of_one(&self, call: &'static str, error: &Error) -> bool {
        self.note(call, error, false)
    }

    fn note(&self, call: &'static str, error: &Error, is_repeated: bool) -> bool {
        if !is_of_an_outage(error) {
            return false;
        }
        let sql_error = error.sql_number();
        // Without the lock, because the log calls user code.
        match self.failed(call, is_repeated, Instant::now()) {
            Line::Begin => {
                tracing::warn!(call, sql_error, %error, "SQL Server does not respond; retrying until it does");
            }
            Line::Lasts { since, failed } => {
                let lasts = since.elapsed();
                tracing::warn!(?lasts, failed, call, sql_error, %error, "SQL Server still does not respond");
            }
            Line::None => tracing::debug!(call, sql_error, %error, "a call failed during the outage"),
        }
        true
    }

    fn failed(&self, call: &'static str, is_repeated: bool, now: Instant) -> Line {
        let mut lasting = self.lasting.lock();
        let is_first = lasting.is_none();
        let outage = lasting.get_or_insert_with(|| {
            self.is_on.store(true, Ordering::Release);
            Lasting { since: now, said_at: now, failed: 0, repeated: BTreeSet::new() }
        });
        outage.failed += 1;
        if is_repeated {
            outage.repeated.insert(call);
        }
        if is_first {
            return Line::Begin;
        }
        if now.duration_since(outage.said_at) < AGAIN {
            return Line::None;
        }
        outage.said_at = now;
        Line::Lasts { since: outage.since, failed: outage.failed }
    }

    /// Records that a call succeeded. Without an outage, this only reads a flag.
    pub(in crate::worker) fn answered(&self, call: &'static str) {
        if !self.is_on() {
            return;
        }
        let ended = {
            let mut lasting = self.lasting.lock();
            let is_over = lasting.as_mut().is_some_and(|outage| {
                outage.repeated.remove(call);
                outage.repeated.is_empty()
            });
            self.is_on.store(!is_over && lasting.is_some(), Ordering::Release);
            if is_over { lasting.take() } else { None }
        };
        if let Some(Lasting { since, failed, .. }) = ended {
            tracing::info!(after = ?since.elapsed(), failed, "SQL Server responds again");
        }
    }

    pub(in crate::worker) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }
}

/// Whether the error shows that the server, its database or the network is away, so that other calls fail, too.
fn is_of_an_outage(error: &Error) -> bool {
    error.is_transient()
        && matches!(
            error,
            Error::Connect { .. }
                | Error::Tls { .. }
                | Error::Credentials { .. }
                | Error::LoginFailed { .. }
                | Error::Database { .. }
                | Error::ReadOnlyDatabase { .. }
                | Error::ConnectionLost { .. }
                | Error::NoFreeConnection { .. }
                | Error::TimedOut { .. }
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_a_line_at_its_beginning_one_a_minute_and_one_at_its_end() {
        let (outage, start) = (OutageLog::default(), Instant::now());
        let at = |seconds, call| match outage.failed(call, true, start + Duration::from_secs(seconds)) {
            Line::None => "",
            Line::Begin => "begin",
            Line::Lasts { .. } => "lasts",
        };
        let lines: Vec<_> = (0..130).flat_map(|second| [at(second, "claim"), at(second, "heartbeat")]).collect();
        let count = |word| lines.iter().filter(|line| **line == word).count();
        assert_eq!((lines[0], count("begin"), count("lasts")), ("begin", 1, 2));
        outage.answered("heartbeat");
        assert!(outage.is_on(), "claims still fail");
        outage.answered("finish");
        assert!(outage.is_on());
        outage.answered("claim");
        assert!(!outage.is_on());
        assert_eq!(at(131, "claim"), "begin");
    }

    #[test]
    fn an_error_of_one_call_alone_is_no_outage() {
        let outage = OutageLog::default();
        let (message, procedure) = ("deadlock".into(), "claim".into());
        assert!(!outage.tells_of("claim", &Error::Sql { number: 1205, severity: 13, message, procedure, line: 1 }));
        assert!(!outage.is_on());
        assert!(outage.tells_of_one("sample", &Error::TimedOut { call: "sample".into(), after: Duration::ZERO }));
        outage.answered("claim");
        assert!(!outage.is_on(), "nobody repeats that call: the next answer is the end");
    }
}
