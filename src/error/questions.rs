//! What callers ask of an error.

use super::error::{Error, TOO_MUCH};
use super::transient;

/// Of a sink that is broken, whatever the job: it is not there, has other parameters than it is called with, or may not
/// be called (201, 206, 229, 2812, 8144, 8145), or a column, table or database that it uses is not there (207, 208,
/// 911, 916).
const BROKEN_SINK: [i32; 10] = [201, 206, 207, 208, 229, 911, 916, 2812, 8144, 8145];

impl Error {
    /// Whether the same call may succeed a little later: by itself, as after a deadlock, a time-out, a lost or refused
    /// connection, a fail-over, or when a server was busy; or because an operator makes room on a full disk or in a
    /// full log, or brings the database back. A [`Worker`](crate::worker::Worker) waits for such things, and stops on
    /// all others.
    ///
    /// An [`EnqueueInDoubt`](Error::EnqueueInDoubt) and an [`EnqueuedInPart`](Error::EnqueuedInPart) are not transient,
    /// because the same call might enqueue jobs a second time; their `cause` may be.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Connect { .. }
            | Error::Credentials { .. }
            | Error::TimedOut { .. }
            | Error::NoFreeConnection { .. }
            | Error::ConnectionLost { .. } => true,
            // What a fail-over looks like from the old primary.
            Error::ReadOnlyDatabase { .. } => true,
            Error::LoginFailed { may_pass, .. } => *may_pass,
            Error::Sql { number, .. } | Error::Database { number, .. } | Error::ResultRefused { number, .. } => {
                transient::is_transient(*number)
            }
            _ => false,
        }
    }

    /// Whether SQL Server did not answer this call in time. (A connection that took too long to make is another thing:
    /// nothing was sent.)
    pub(crate) fn is_time_out_of(&self, call: &str) -> bool {
        matches!(self, Error::TimedOut { call: timed_out, .. } if timed_out == call)
    }

    /// Whether a call that ended so may have taken effect all the same. A statement's own error has undone it
    /// (XACT_ABORT); when no word came from SQL Server, or one about the server itself (severity 17 and more), the
    /// session, or something that changed under a procedure, which may be a statement behind the commit, the
    /// transaction may have been committed before.
    pub(crate) fn leaves_open(&self) -> bool {
        match self {
            Error::Sql { number, severity, .. } => {
                *severity >= 17 || transient::ends_the_session(*number) || transient::is_to_be_run_again(*number)
            }
            // What is not there, or cannot be written to, has changed nothing.
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
            | Error::NotInstalled { .. } => true,
            _ => false,
        }
    }

    /// Whether one of an acknowledgement's jobs is to blame for the sink's error. It is not if the error is transient
    /// or the sink is broken. For an error that cannot be read, one of the jobs is assumed to be to blame.
    pub(crate) fn blames_a_job(&self) -> bool {
        match self {
            Error::UnreadableText { .. } => true,
            Error::ResultRefused { number, .. } => !self.is_transient() && !BROKEN_SINK.contains(number),
            _ => false,
        }
    }

    /// SQL Server's error number, where SQL Server sent one.
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
            Error::EnqueueInDoubt { cause, .. } | Error::EnqueuedInPart { cause, .. } => cause.sql_number(),
            _ => None,
        }
    }

    /// Whether the server answered with more than the call's answer may have.
    pub(crate) fn is_too_much(&self) -> bool {
        matches!(self, Error::ConnectionLost { cause } if cause.kind() == TOO_MUCH)
    }
}
