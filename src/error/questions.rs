//! Classifies errors: whether they are transient, whether the call may have taken effect, and whether a job is to
//! blame.

use crate::id::Enqueued;

use super::error::{Error, TOO_MUCH};
use super::transient;

/// Errors of a broken sink, whatever the job: the sink does not exist, has other parameters, or may not be executed
/// (201, 206, 229, 2812, 8144, 8145), or a column, table or database that it uses does not exist (207, 208, 911, 916).
const BROKEN_SINK: [i32; 10] = [201, 206, 207, 208, 229, 911, 916, 2812, 8144, 8145];

impl Error {
    /// Whether the same call may succeed later. Some causes pass by themselves: a deadlock, a timeout, a lost or
    /// refused connection, a failover, a busy server. Others need an operator, who makes space on a full disk or in a
    /// full log, or brings the database back. A [`Worker`](crate::worker::Worker) waits in these cases, and stops after
    /// any other error.
    ///
    /// [`QueueFull`](Error::QueueFull) is not transient, because it may last as long as no worker runs.
    ///
    /// [`EnqueueInDoubt`](Error::EnqueueInDoubt) and [`EnqueuedInPart`](Error::EnqueuedInPart) are not transient,
    /// because the same call might enqueue jobs a second time. Their `cause` may be transient.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Connect { .. }
            | Error::Credentials { .. }
            | Error::TimedOut { .. }
            | Error::NoFreeConnection { .. }
            | Error::ConnectionLost { .. } => true,
            // A failover, as seen on the old primary.
            Error::ReadOnlyDatabase { .. } => true,
            Error::LoginFailed { may_pass, .. } => *may_pass,
            Error::Sql { number, .. } | Error::Database { number, .. } | Error::ResultRefused { number, .. } => {
                transient::is_transient(*number)
            }
            _ => false,
        }
    }

    /// Whether this call timed out. A connection that timed out does not count, because nothing was sent.
    pub(crate) fn is_time_out_of(&self, call: &str) -> bool {
        matches!(self, Error::TimedOut { call: timed_out, .. } if timed_out == call)
    }

    /// Whether a call that returned this error may still have taken effect. A statement error rolls the call back
    /// (XACT_ABORT). But the transaction may have been committed if SQL Server did not respond. The same is true if the
    /// error concerns the server (severity 17 or higher), the session, or an object that changed during the call: it
    /// may come from a statement after the commit.
    pub(crate) fn leaves_open(&self) -> bool {
        match self {
            Error::Sql { number, severity, .. } => {
                *severity >= 17 || transient::ends_the_session(*number) || transient::is_to_be_run_again(*number)
            }
            // A missing object or a read-only database means that nothing was changed.
            Error::ReadOnlyDatabase { .. } | Error::NotInstalled { .. } | Error::WrongSetOptions { .. } => false,
            other => other.sql_number().is_none(),
        }
    }

    /// Whether the connection is still usable after SQL Server answered with this error. It is not if the error is
    /// about the connection, its login or the whole server: only a new connection notices a failover, or admits a new
    /// member of a Windows group.
    pub(crate) fn spares_the_connection(&self) -> bool {
        match self {
            Error::Sql { number, severity, .. } => *severity < 20 && !transient::is_of_the_connection(*number),
            Error::ResultRefused { number, .. } => !transient::is_of_the_connection(*number),
            Error::UnknownQueue { .. }
            | Error::LeaseLost
            | Error::Refused { .. }
            | Error::BatchNotOpen { .. }
            | Error::QueueInUse { .. }
            | Error::QueueFull { .. }
            | Error::NotInstalled { .. } => true,
            _ => false,
        }
    }

    /// Whether one of a finish call's jobs is to blame for the sink's error. It is not if the error is transient
    /// or the sink is broken. For an error that cannot be read, one of the jobs is assumed to be to blame.
    pub(crate) fn blames_a_job(&self) -> bool {
        match self {
            Error::UnreadableText { .. } => true,
            Error::ResultRefused { number, .. } => !self.is_transient() && !BROKEN_SINK.contains(number),
            _ => false,
        }
    }

    /// The error of an enqueue whose first jobs were committed by earlier calls.
    pub(crate) fn after(self, mut enqueued: Vec<Enqueued>) -> Error {
        match self {
            Error::EnqueuedInPart { enqueued: more, cause } => {
                enqueued.extend(more);
                Error::EnqueuedInPart { enqueued, cause }
            }
            error if enqueued.is_empty() => error,
            error => Error::EnqueuedInPart { enqueued, cause: Box::new(error) },
        }
    }

    /// SQL Server's error number, if SQL Server sent one.
    pub fn sql_number(&self) -> Option<i32> {
        match self {
            Error::Sql { number, .. }
            | Error::LoginFailed { number, .. }
            | Error::Database { number, .. }
            | Error::PermissionDenied { number, .. } => Some(*number),
            Error::NotInstalled { number, .. }
            | Error::ReadOnlyDatabase { number, .. }
            | Error::WrongSetOptions { number, .. } => *number,
            Error::UnknownQueue { .. } => Some(58001),
            Error::LeaseLost => Some(58002),
            Error::Refused { .. } => Some(58003),
            Error::ResultRefused { .. } => Some(58020),
            Error::BatchNotOpen { .. } => Some(58021),
            Error::QueueInUse { .. } => Some(58022),
            Error::QueueFull { .. } => Some(58023),
            Error::EnqueueInDoubt { cause, .. } | Error::EnqueuedInPart { cause, .. } => cause.sql_number(),
            _ => None,
        }
    }

    pub(crate) fn is_too_much(&self) -> bool {
        matches!(self, Error::ConnectionLost { cause } if cause.kind() == TOO_MUCH)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::error::driver::of_sink;

    fn sql(number: i32) -> Error {
        Error::Sql { number, severity: 13, message: "text".into(), procedure: "readpast.claim".into(), line: 7 }
    }

    #[test]
    fn what_passes_by_itself_is_transient_and_nothing_else() {
        assert!(sql(1205).is_transient() && sql(1105).is_transient() && !sql(2627).is_transient());
        assert!(Error::Database { number: 4060, message: String::new() }.is_transient());
        assert!(!Error::Database { number: 911, message: String::new() }.is_transient());
        assert!(Error::TimedOut { call: "claim".into(), after: Duration::from_secs(30) }.is_transient());
        assert!(!Error::LeaseLost.is_transient());
        let refused = |may_pass| Error::login_failed(18456, String::new(), String::new(), may_pass);
        assert!(!refused(false).is_transient() && refused(true).is_transient());
        assert!(Error::Credentials { source_name: "the token".into(), message: "none".into() }.is_transient());
        let part = Error::EnqueuedInPart { enqueued: Vec::new(), cause: Box::new(sql(1205)) };
        assert!(!part.is_transient(), "the same call would enqueue the first jobs a second time");
        assert_eq!(part.sql_number(), Some(1205));
    }

    #[test]
    fn a_sink_s_error_is_a_job_s_unless_it_passes_or_the_sink_is_broken() {
        let error = |number: i32| of_sink(format!("{number}: the sink failed: text"));
        assert_eq!(error(547).to_string(), "the sink failed: text");
        assert!(error(547).blames_a_job() && !error(547).is_transient() && !error(547).leaves_open());
        assert!(error(1205).is_transient() && !error(1205).blames_a_job() && !error(1205).leaves_open());
        for broken in [2812, 208] {
            assert!(!error(broken).blames_a_job() && !error(broken).is_transient());
        }
        assert!(!Error::Refused { message: String::new() }.blames_a_job());
    }

    #[test]
    fn only_a_statement_s_own_error_has_certainly_undone_it() {
        let with = |number, severity| Error::Sql {
            number,
            severity,
            message: String::new(),
            procedure: String::new(),
            line: 1,
        };
        assert!(!with(1205, 13).leaves_open() && !with(1222, 16).leaves_open());
        assert!(!Error::LeaseLost.leaves_open());
        assert!(with(601, 12).leaves_open() && with(2801, 16).leaves_open(), "perhaps behind the commit");
        assert!(!with(3906, 16).leaves_open() && !with(2812, 16).leaves_open(), "not written to, not there");
        assert!(with(40197, 17).leaves_open() && with(40501, 20).leaves_open());
        assert!(with(40549, 16).leaves_open() && with(596, 21).leaves_open(), "the session was ended");
        assert!(Error::TimedOut { call: "claim".into(), after: Duration::from_secs(30) }.leaves_open());
    }

    #[test]
    fn a_connection_outlives_the_errors_of_statements_alone() {
        let with = |number, severity| {
            let (message, procedure) = (String::new(), String::new());
            Error::Sql { number, severity, message, procedure, line: 1 }.spares_the_connection()
        };
        assert!(with(1205, 13) && with(1222, 16) && with(2627, 14) && with(1105, 17) && with(3960, 16));
        assert!(!with(9001, 21) && !with(824, 24), "SQL Server closes the connection");
        assert!(!with(40197, 17) && !with(10928, 16) && !with(596, 16) && !with(37396, 16) && !with(983, 14));
        assert!(of_sink("547: text".to_owned()).spares_the_connection());
        assert!(!of_sink("40549: text".to_owned()).spares_the_connection());
        assert!(!Error::ReadOnlyDatabase { number: Some(3906), message: String::new() }.spares_the_connection());
        assert!(!Error::Protocol { message: String::new() }.spares_the_connection());
    }

    #[test]
    fn a_broken_connection_is_transient_and_a_strange_answer_is_not() {
        let broken = tiberius::error::Error::Io { kind: io::ErrorKind::ConnectionReset, message: "reset".into() };
        assert!(Error::from_driver(broken, "db:1433", "readpast").is_transient());
        let strange = tiberius::error::Error::Protocol("what".into());
        assert!(!Error::from_driver(strange, "db:1433", "readpast").is_transient());
        let cut = "ERROR/INFO token string is not valid UTF-16";
        let unreadable = tiberius::error::Error::Protocol(cut.into());
        let unreadable = Error::from_driver(unreadable, "db:1433", "readpast");
        assert!(unreadable.blames_a_job() && unreadable.leaves_open() && !unreadable.spares_the_connection());
    }
}
