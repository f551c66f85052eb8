//! Converts an error to a message, a hint and an exit code.

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

/// The exit codes, which are part of the interface. [`Exit::ALL`] explains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    PermissionDenied = 5,
    Unreachable = 6,
    Schema = 7,
    TimedOut = 8,
    Dead = 9,
    Cancelled = 10,
    Recycled = 11,
    Interrupted = 130,
}

impl Exit {
    /// Each code with its meaning, for docs/cli.md.
    pub const ALL: [(Exit, &str); 13] = [
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
        (Exit::Recycled, "`work`: stopped because the process was larger than worker.recycle_above; start it again"),
        (Exit::Interrupted, "Ctrl-C; what was done before is kept"),
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error of the CLI itself.
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

pub fn failure(exit: Exit, message: impl Into<String>) -> anyhow::Error {
    Failure { exit, message: message.into() }.into()
}

/// Prints an error of the command line, without terms of Rust.
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

/// Says what a value must be, if a standard type has rejected it.
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

/// Time limit for reading the names of queues for a hint.
const NAMES: Duration = Duration::from_secs(2);

/// Adds the most similar queue name to the error of an unknown queue.
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

/// Prints an error, and returns its exit code.
pub fn report(error: &anyhow::Error) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Ok; // `readpast jobs q | head`: whoever reads has seen enough
    }
    match library_error(error).and_then(|library| Some((library, hint(library)?))) {
        // The message's own remedy is for programs.
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

/// Prints a message to standard error; ignores failures.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr(), "readpast: {}", printable(message));
}

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
        Error::BatchNotOpen { .. } | Error::QueueInUse { .. } | Error::QueueFull { .. } => Exit::Refused,
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

/// The CLI's hint, if the message's own remedy does not suit the command line.
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
        Error::QueueFull { .. } => {
            Some("pass --wait to wait for room, or raise the limit: `readpast queue set --max-depth`")
        }
        Error::QueueInUse { message, .. } if message.contains("jobs") => {
            Some("`readpast queue show` shows how many; pass --with-jobs to delete them, too")
        }
        _ => None,
    }
}

/// The error with its hint.
pub fn with_hint(error: &Error) -> String {
    hint(error).map_or_else(|| error.to_string(), |hint| format!("{}; {hint}", what_is_wrong(error)))
}

/// The message without its own remedy.
fn what_is_wrong(error: &Error) -> String {
    let message = error.to_string();
    message.split("; ").next().unwrap_or_default().trim_end_matches('.').to_owned()
}

pub fn library_error(error: &anyhow::Error) -> Option<&Error> {
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
