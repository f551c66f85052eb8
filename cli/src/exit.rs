//! How an error becomes a message, a hint and an exit code.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::net::AddrParseError;
use std::num::ParseIntError;
use std::process::ExitCode;
use std::str::ParseBoolError;
use std::time::Duration;

use readpast::Error;

use crate::connection::Common;
use crate::payload_text::printable;
use crate::texts::nearest;

/// How the program ends. The numbers are part of its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All that was asked for has happened.
    Ok = 0,
    /// Something else went wrong; the message says what.
    Failed = 1,
    /// The command line, the settings or the input are not valid.
    Usage = 2,
    /// There is no such queue, job, schedule or batch, or the job is in no state for it.
    NotFound = 3,
    /// It is not allowed as things are, or was not confirmed.
    Refused = 4,
    /// The login may not do it.
    PermissionDenied = 5,
    /// SQL Server cannot be reached, does not let this login in, or does not answer.
    Unreachable = 6,
    /// readpast is not installed there, in a version that this one does not work with, or cannot be used.
    Schema = 7,
    /// `wait` and `drain`: the time is over.
    TimedOut = 8,
    /// `wait`: the job is dead.
    Dead = 9,
    /// `wait`: the job was cancelled.
    Cancelled = 10,
    /// Ctrl-C: what was done before stays done.
    Interrupted = 130,
}

impl Exit {
    /// For the documentation: each code with its meaning.
    pub const ALL: [(Exit, &str); 12] = [
        (Exit::Ok, "success"),
        (Exit::Failed, "any other failure; the message says what"),
        (Exit::Usage, "the command line, the settings or the input is not valid"),
        (
            Exit::NotFound,
            "the queue, job, schedule or batch does not exist, or a job is in a state that does not allow the action",
        ),
        (Exit::Refused, "refused in the current state, or not confirmed"),
        (Exit::PermissionDenied, "the login lacks a permission; the message names the role"),
        (Exit::Unreachable, "SQL Server cannot be reached, rejects the login, or does not respond"),
        (
            Exit::Schema,
            "readpast is not installed in the schema, has another version there, or cannot be used as configured",
        ),
        (Exit::TimedOut, "`wait` and `drain`: timed out"),
        (Exit::Dead, "`wait`: the job is dead"),
        (Exit::Cancelled, "`wait`: the job was cancelled"),
        (Exit::Interrupted, "Ctrl-C; what was done before is kept"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error of the program's own.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An error with its exit code.
pub fn failure(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    Failure { exit, message: message.into() }.into()
}

/// Prints what is wrong with the command line, without words that only Rust's programmers know.
pub fn report_usage(error: &clap::Error) -> Exit {
    let is_terminal = io::stderr().is_terminal();
    let whole = match is_terminal {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    match std::error::Error::source(error).and_then(|source| Some((source, in_words(source)?))) {
        Some((source, words)) => {
            let _ = write!(io::stderr(), "{}", whole.replace(&source.to_string(), words));
        }
        None => {
            let _ = error.print(); // help and the version go to standard output
        }
    }
    if error.use_stderr() { Exit::Usage } else { Exit::Ok }
}

/// What a value must be that one of Rust's own types does not take.
fn in_words(source: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    if let Some(error) = source.downcast_ref::<ParseIntError>() {
        return Some(match error.kind() {
            PosOverflow => "the number is too large",
            NegOverflow => "the number is too small",
            _ => "it must be an integer",
        });
    }
    if source.is::<AddrParseError>() {
        return Some("it must be an address and a port, such as 127.0.0.1:7380");
    }
    if source.is::<ParseBoolError>() {
        return Some("it must be true or false");
    }
    source
        .is::<readpast::crates::uuid::Error>()
        .then_some("it must be a UUID, such as 67e55044-10b1-426f-9247-bb680e5fe0c8")
}

/// How long the names of queues may take, for a hint.
const NAMES: Duration = Duration::from_secs(2);

/// Where a queue is not there and another one's name is like its name: the error with that name.
pub async fn with_near_queue(error: anyhow::Error, common: &Common) -> anyhow::Error {
    let Some(Error::UnknownQueue { message, .. }) = library_error(&error) else { return error };
    let Some(queue) = message.split('\'').nth(1) else { return error };
    let names = async { common.schema().await.ok()?.admin().all_stats(Some(1)).await.ok() };
    let Ok(Some(queues)) = tokio::time::timeout(NAMES, names).await else { return error };
    match nearest(queue, queues.iter().map(|stats| stats.queue.as_str())) {
        Some(near) => failure(code(&error), format!("there is no queue '{queue}'; did you mean '{near}'?")),
        None => error,
    }
}

/// Prints an error to standard error, and returns the code to end with.
pub fn report(error: &anyhow::Error) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Ok; // `readpast jobs q | head`: whoever reads has seen enough
    }
    match library_error(error).and_then(|library| Some((library, hint(library)?))) {
        // What the message says to do is meant for programs.
        Some((library, hint)) => {
            let whole = format!("{error:#}");
            let (what, to_do) = (library.to_string(), what_is_wrong(library));
            say(&whole.replace(&what, &to_do));
            let _ = writeln!(io::stderr(), "hint: {hint}");
        }
        None => say(&format!("{error:#}")),
    }
    code(error)
}

/// A message on standard error. Where that is closed, nobody wants to know.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "readpast: {}", printable(message));
}

/// The code of an error.
pub fn code(error: &anyhow::Error) -> Exit {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.exit;
    }
    match library_error(error) {
        Some(Error::EnqueuedInPart { cause, .. } | Error::EnqueueInDoubt { cause, .. }) => code_of(cause),
        Some(error) => code_of(error),
        None if error.downcast_ref::<readpast_adopt::Error>().is_some() => Exit::Usage,
        None => Exit::Failed,
    }
}

/// The exit code of an error of the library.
pub fn code_of(error: &Error) -> Exit {
    match error {
        Error::Config { .. }
        | Error::ConfigFile { .. }
        | Error::ConfigSyntax { .. }
        | Error::ConnectionString { .. }
        | Error::InvalidJob { .. }
        | Error::InvalidBatch { .. }
        | Error::InvalidSchedule { .. }
        | Error::Refused { .. }
        | Error::Json { .. } => Exit::Usage,
        Error::UnknownQueue { .. } => Exit::NotFound,
        Error::BatchNotOpen { .. } | Error::QueueInUse { .. } => Exit::Refused,
        Error::PermissionDenied { .. } => Exit::PermissionDenied,
        Error::Connect { .. }
        | Error::Tls { .. }
        | Error::Credentials { .. }
        | Error::LoginFailed { .. }
        | Error::Database { .. }
        | Error::ConnectionLost { .. }
        | Error::NoFreeConnection { .. }
        | Error::TimedOut { .. } => Exit::Unreachable,
        Error::NotInstalled { .. }
        | Error::SchemaTooOld { .. }
        | Error::SchemaTooNew { .. }
        | Error::WrongSetOptions { .. }
        | Error::ReadOnlyDatabase { .. } => Exit::Schema,
        _ => Exit::Failed,
    }
}

/// What to do next, in the program's own words; most messages say it themselves.
fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::Config { key, value, .. } if key == "connection.url" && value == "empty" => Some(
            "set READPAST_URL, for example to 'Server=db1;Database=work;User ID=app;Password=…'; to try readpast without a \
             server, run `readpast dev`",
        ),
        Error::Connect { .. } => Some(
            "check Server and its port, that TCP/IP is enabled on the server, and that no firewall blocks the port",
        ),
        Error::NotInstalled { .. } => Some(
            "run `readpast install` as db_owner, or correct --schema; `readpast install --script` prints the script for a DBA",
        ),
        Error::SchemaTooOld { .. } => {
            Some("run `readpast upgrade` as db_owner; `readpast upgrade --script` prints the script for a DBA")
        }
        Error::UnknownQueue { .. } => {
            Some("run `readpast queues` to list the queues, or `readpast queue create` to create one")
        }
        Error::QueueInUse { message, .. } if message.contains("jobs") => {
            Some("`readpast queue show` shows how many; pass --with-jobs to delete them, too")
        }
        _ => None,
    }
}

/// An error with what to do next.
pub fn with_hint(error: &Error) -> String {
    hint(error).map_or_else(|| error.to_string(), |hint| format!("{}; {hint}", what_is_wrong(error)))
}

/// The message of an error that has a hint, without what it says to do.
fn what_is_wrong(error: &Error) -> String {
    let message = error.to_string();
    message.split("; ").next().unwrap_or_default().trim_end_matches('.').to_owned()
}

fn library_error(error: &anyhow::Error) -> Option<&Error> {
    error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(readpast_adopt::Error::Readpast(error)) => Some(error),
        _ => cause.downcast_ref::<Error>(),
    })
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
