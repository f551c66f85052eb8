//! [`Error`]: everything that can fail.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::id::{Enqueued, JobId};

use super::{remedy, transient};

/// Marks an [`Error::ConnectionLost`] whose response exceeded its size limit. Sockets never return this kind.
pub(crate) const TOO_MUCH: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// Everything that can go wrong, by what to do about it.
///
/// The message is complete: it names the cause and, if known, the remedy. [`source`](std::error::Error::source) is
/// `None`, so that a program that prints sources prints no cause twice. Only [`Payload`](Error::Payload) has a source,
/// by which a handler's error is recognized.
///
/// [`is_transient`](Error::is_transient) tells whether the same call may succeed later.
///
/// `{:?}` writes the message, too, because `unwrap` and a `main` that returns the error print it.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has an invalid value, or conflicts with another setting. Correct the named key.
    #[error("{key} is {value}; it must be {allowed}")]
    #[non_exhaustive]
    Config {
        /// The key as in the TOML file (`worker.lease_ms`), or the environment variable.
        key: String,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: String,
    },

    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}: {cause}", path.display())]
    #[non_exhaustive]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: Arc<io::Error>,
    },

    /// The configuration is not valid TOML, or has an unknown key or a value of the wrong type.
    #[error("the configuration is not valid: {place}: {message}")]
    #[non_exhaustive]
    ConfigSyntax {
        /// The file, if there is one, and the line.
        place: String,
        /// The fault, and the key that was probably meant. Never quotes the line, which may contain the connection
        /// string.
        message: String,
    },

    /// The connection string (`connection.url`) is wrong. The message names the key and its allowed values.
    #[error("the connection string is not valid: {reason}")]
    #[non_exhaustive]
    ConnectionString {
        /// The fault.
        reason: String,
    },

    /// No connection could be opened: the server is down or unreachable, or its name does not resolve. Check host, port
    /// and firewall.
    #[error("cannot connect to SQL Server at {server}: {cause}")]
    #[non_exhaustive]
    Connect {
        /// Host and port, or host and instance.
        server: String,
        /// The operating system's error.
        cause: Arc<io::Error>,
    },

    /// The encrypted connection could not be established, most often because this machine does not trust the server's
    /// certificate. Install its certificate authority, or name it with `TrustServerCertificateCA=<file>`. On a
    /// development machine only, set `TrustServerCertificate=true`.
    #[error("cannot make an encrypted connection to SQL Server at {server}: {message}; {}", remedy::for_tls(message))]
    #[non_exhaustive]
    Tls {
        /// Host and port, or host and instance.
        server: String,
        /// The TLS library's error.
        message: String,
    },

    /// The credentials are not available: the password file cannot be read, the source of tokens fails or does not
    /// respond, or Kerberos issues no ticket. Nothing was sent to SQL Server. Fix the named source; a running
    /// [`Worker`](crate::worker::Worker) waits for it.
    #[error("cannot log in: {source_name}: {message}")]
    #[non_exhaustive]
    Credentials {
        /// The source of the credentials.
        source_name: String,
        /// The cause. Never contains the password or the token.
        message: String,
    },

    /// SQL Server refused the login (18456 and related numbers). Check the credentials. SQL Server's error log has the
    /// reason, which clients are not told.
    ///
    /// The error is [transient](Error::is_transient) if this process has logged in before and uses a password file, a
    /// token or the operating system's user. The next login is tried after a pause, or as soon as the password file
    /// changes. Until then, connecting returns this error. `docs/logins.md` lists the pauses. A call on an open
    /// connection whose token has expired can also return this error; the next call reconnects.
    #[error("login failed: {message} (error {number}); {remedy}; SQL Server's error log has the reason")]
    #[non_exhaustive]
    LoginFailed {
        /// SQL Server's error number.
        number: i32,
        /// SQL Server's message. Names the user, never the password.
        message: String,
        /// What to check for this kind of login.
        remedy: String,
        /// The result of [`is_transient`](Error::is_transient).
        #[doc(hidden)]
        may_pass: bool,
    },

    /// The login succeeded, but the database cannot be opened (4060, 911, 916): it does not exist, is offline, or the
    /// login has no user in it. Check `Database` in the connection string.
    #[error(
        "cannot open the database: {message} (error {number}); check Database, and that the login has a user in the database"
    )]
    #[non_exhaustive]
    Database {
        /// SQL Server's error number.
        number: i32,
        /// SQL Server's message. Names the database.
        message: String,
    },

    /// A call took longer than `connection.command_timeout_ms` or `connection.connect_timeout_ms`. It may or may not
    /// have taken effect, unless it was still connecting.
    #[error("{call} timed out after {} ms", after.as_millis())]
    #[non_exhaustive]
    TimedOut {
        /// The procedure, or `connecting to` and the server. `the login before this one` if the password was not sent
        /// because another connection's login with it was still unanswered.
        call: String,
        /// The time limit, or how long the call waited for the other login.
        after: Duration,
    },

    /// All connections shared by a queue and its clones stayed in use for as long as a call may wait for one: SQL
    /// Server is slow or unreachable, or there were too many calls at once. Nothing was sent.
    #[error("no connection became available within {} ms; nothing was sent", after.as_millis())]
    #[non_exhaustive]
    NoFreeConnection {
        /// The time limit, `connection.command_timeout_ms`.
        after: Duration,
    },

    /// The connection broke during a call, which may or may not have taken effect.
    #[error("the connection to SQL Server was lost: {cause}")]
    #[non_exhaustive]
    ConnectionLost {
        /// The operating system's error.
        cause: Arc<io::Error>,
    },

    /// An error of SQL Server without a variant of its own.
    #[error("{message} (error {number}, severity {severity}, {procedure} line {line})")]
    #[non_exhaustive]
    Sql {
        /// SQL Server's error number.
        number: i32,
        /// 11 to 16: the statement's fault. 17 and higher: the server's.
        severity: u8,
        /// SQL Server's message.
        message: String,
        /// The procedure that raised it; empty for a batch.
        procedure: String,
        /// The line in the procedure or batch.
        line: u32,
    },

    /// The queue does not exist (58001). Create it with [`Admin::create`](crate::admin::Admin::create), or correct
    /// `queue.name`.
    #[error("{message} or Admin::create, or correct queue.name")]
    #[non_exhaustive]
    UnknownQueue {
        /// SQL Server's message. Names the queue.
        message: String,
    },

    /// The worker is not registered, or was marked lost because its lease was not renewed in time (58002). Its jobs may
    /// already be running elsewhere. A [`Worker`](crate::worker::Worker) re-registers by itself.
    #[error("the worker lost its lease; its jobs may be running on another worker")]
    LeaseLost,

    /// SQL Server rejected a queue's setting or a job because of its contents (58003). Correct the call.
    #[error("{message}")]
    #[non_exhaustive]
    Refused {
        /// The fault and the allowed values.
        message: String,
    },

    /// The sink, a follow-up, or the change of an adopted table's row failed in the transaction of a finish (58020),
    /// which was rolled back as a whole. A [`Worker`](crate::worker::Worker) finds the job whose result is rejected,
    /// and retries it. The worker stops if the sink cannot be called at all, or if an object that the sink uses does
    /// not exist.
    #[error("{message}")]
    #[non_exhaustive]
    ResultRefused {
        /// The sink's own error number.
        number: i32,
        /// Its text, and where it was raised.
        message: String,
    },

    /// The job is not valid. Nothing was sent. Correct the job.
    #[error("cannot enqueue the job: {reason}")]
    #[non_exhaustive]
    InvalidJob {
        /// The fault and the allowed values.
        reason: String,
    },

    /// A checkpoint is too large. The previous one stays. Store the state elsewhere, and its address in the checkpoint.
    #[error("the checkpoint is {bytes} bytes; it must be at most 65535")]
    #[non_exhaustive]
    CheckpointTooLarge {
        /// Its size.
        bytes: usize,
    },

    /// The schedule is not valid. Nothing was sent. Correct the schedule.
    #[error("cannot set the schedule: {reason}")]
    #[non_exhaustive]
    InvalidSchedule {
        /// The fault and the allowed values.
        reason: String,
    },

    /// The batch is not valid. Nothing was sent. Correct the batch.
    #[error("cannot create the batch: {reason}")]
    #[non_exhaustive]
    InvalidBatch {
        /// The fault and the allowed values.
        reason: String,
    },

    /// The batch is sealed, was never created, or was deleted a week after it ended (58021). No job can be added.
    /// Create another with [`Queue::create_batch`](crate::queue::Queue::create_batch), and add its jobs before sealing
    /// it.
    #[error("{message}")]
    #[non_exhaustive]
    BatchNotOpen {
        /// The reason, and the batch's id.
        message: String,
    },

    /// The queue cannot be deleted because it is in use (58022). Stop its workers, complete the batches whose
    /// follow-ups belong to it, or let [`Admin::delete`](crate::admin::Admin::delete) delete its jobs, too.
    #[error("{message}")]
    #[non_exhaustive]
    QueueInUse {
        /// Names the users of the queue.
        message: String,
    },

    /// The queue is full ([`QueueOptions::max_depth`](crate::admin::QueueOptions::max_depth), 58023). The job was not
    /// added. A caller's transaction is still usable, unless it has set XACT_ABORT ON. Enqueue it again when the workers have finished others.
    #[error("{message}")]
    #[non_exhaustive]
    QueueFull {
        /// Names the queue and its limit.
        message: String,
    },

    /// SQL Server did not respond to an enqueue, or ended the session, or the tokio runtime that had sent the job for
    /// several callers has stopped. Either all of the jobs are in the queue, or none of them. Enqueue them again only if running them twice does no harm.
    ///
    /// Jobs that all have a [deduplication key](crate::job::NewJob::dedup_key), and the jobs of
    /// [`Queue::enqueue_part`](crate::queue::Queue::enqueue_part), have already been sent again, without success, if
    /// `cause` is [transient](Error::is_transient) and there was time left. You can enqueue them again: with a key, no
    /// job is added while the first one is unfinished; a part is added once if its number stays the same.
    #[error("it is unknown whether {} enqueued: {cause}", jobs_were(*jobs))]
    #[non_exhaustive]
    EnqueueInDoubt {
        /// Their number: 1, or a chunk of an [`enqueue_many`](crate::queue::Queue::enqueue_many).
        jobs: usize,
        /// The error of the first try.
        cause: Box<Error>,
    },

    /// The first jobs of an [`enqueue_many`](crate::queue::Queue::enqueue_many) were committed before a chunk failed or
    /// the queue was full, or those of an [`enqueue_in`](crate::transaction::enqueue_in) were added to the transaction
    /// before the queue was full. The later jobs are not in the queue, unless `cause` is an [`Error::EnqueueInDoubt`]: then the next `jobs` jobs may
    /// be in the queue.
    #[error("{} enqueued, then: {cause}", jobs_were(enqueued.len()))]
    #[non_exhaustive]
    EnqueuedInPart {
        /// The jobs that are certainly in the queue, in the caller's order.
        enqueued: Vec<Enqueued>,
        /// The error of the next job or chunk.
        cause: Box<Error>,
    },

    /// readpast is not installed in this schema of the database, or only in part. Call
    /// [`Admin::install`](crate::admin::Admin::install) as a member of db_owner, or have the scripts in `sql/` run. Or
    /// correct `connection.schema` or `Database` in the connection string.
    #[error(
        "readpast is not installed in schema {schema} of this database: {message}; {}, or correct connection.schema or Database",
        remedy::INSTALL
    )]
    #[non_exhaustive]
    NotInstalled {
        /// SQL Server's error number; `None` if the check found this before SQL Server refused anything.
        number: Option<i32>,
        /// The schema.
        schema: String,
        /// What is missing.
        message: String,
    },

    /// The installed schema is too old for this release. Call [`Admin::install`](crate::admin::Admin::install) as a
    /// member of db_owner, or have the scripts in `sql/` run. They upgrade the schema; older releases keep working if
    /// the changes allow it.
    #[error(
        "the installed schema is version {found}, but this release needs version {wanted}; to upgrade, {}",
        remedy::INSTALL
    )]
    #[non_exhaustive]
    SchemaTooOld {
        /// The installed version.
        found: i32,
        /// The version of this release.
        wanted: i32,
    },

    /// A newer release installed a schema that this release cannot use. Use a newer release of the crate.
    #[error(
        "the installed schema needs a release that supports version {needed}, but readpast {} supports at most {known}; use a newer \
         release of the crate",
        env!("CARGO_PKG_VERSION")
    )]
    #[non_exhaustive]
    SchemaTooNew {
        /// The oldest version that works with the installed schema.
        needed: i32,
        /// The version of this release.
        known: i32,
    },

    /// The login lacks a permission. Make its user a member of `<schema>_worker`, `<schema>_producer`,
    /// `<schema>_operator` or `<schema>_monitor`: see "Who may do what" in `sql/README.md`. Installing needs db_owner.
    #[error("permission denied: {message} (error {number}); {remedy}")]
    #[non_exhaustive]
    PermissionDenied {
        /// SQL Server's error number.
        number: i32,
        /// SQL Server's message. Names the object and the permission.
        message: String,
        /// The role that has the permission, or who else has it.
        remedy: String,
    },

    /// The database is a secondary replica, a standby, or set to read-only. Connect to the primary, without
    /// `ApplicationIntent=ReadOnly`.
    #[error("the database is read-only: {message}; connect to the primary")]
    #[non_exhaustive]
    ReadOnlyDatabase {
        /// SQL Server's error number; `None` if the check found this before SQL Server refused anything.
        number: Option<i32>,
        /// Names the database.
        message: String,
    },

    /// The SET options of the session, the login's defaults or the installation make SQL Server refuse changes to
    /// tables with filtered indexes (1934). Set the named options to their defaults, and install again.
    #[error("wrong SET options: {message}")]
    #[non_exhaustive]
    WrongSetOptions {
        /// SQL Server's error number; `None` if the check found this before SQL Server refused anything.
        number: Option<i32>,
        /// The options.
        message: String,
    },

    /// A job's payload is not what the handler expects. The job becomes dead, because a retry cannot help.
    #[error("invalid payload of job {job_id}: {reason}")]
    #[non_exhaustive]
    Payload {
        /// The job.
        job_id: JobId,
        /// The fault.
        #[source]
        reason: InvalidPayload,
    },

    /// A value cannot be written as JSON, for example a map with keys that are not strings.
    #[error("cannot write the value as JSON: {message}")]
    #[non_exhaustive]
    Json {
        /// The fault.
        message: String,
    },

    /// This release does not understand SQL Server's response: the procedures were changed, or the driver has a bug.
    /// Run the scripts in `sql/` to restore the procedures of this release.
    #[error("unexpected response from SQL Server: {message}")]
    #[non_exhaustive]
    Protocol {
        /// The unexpected part.
        message: String,
    },

    /// SQL Server's response contains text that cannot be decoded. Most often an error or a message quotes half a
    /// character, because a trigger, a sink or another procedure cut a text inside a surrogate pair: fix that code. The
    /// call may or may not have taken effect.
    ///
    /// If a finish returns this error, the [`Worker`](crate::worker::Worker) finds the job that causes it, and retries
    /// that job. If a claim does, the job that causes it becomes dead, and the worker stops after three such claims in
    /// a row. With [`Delivery::AtMostOnce`](crate::job::Delivery::AtMostOnce), it stops after the first.
    #[error("cannot read text in SQL Server's response: {message}")]
    #[non_exhaustive]
    UnreadableText {
        /// The driver's message.
        message: String,
    },

    /// The operating system could not start the worker's threads. Lower `worker.threads`, or raise the limit on
    /// threads.
    #[error("cannot start the worker's threads: {message}; lower worker.threads, or raise the limit on threads")]
    #[non_exhaustive]
    Threads {
        /// The operating system's error.
        message: String,
    },

    /// Code outside a handler panicked in the worker: the program's metrics recorder, its tracing subscriber, a hook,
    /// or a bug in this crate. The worker has stopped and released its jobs.
    #[error("the worker panicked outside of a handler: {message}")]
    #[non_exhaustive]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

/// The fault of a payload. A type of its own, so that a handler can find it in a wrapped error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPayload(String);

impl InvalidPayload {
    pub(crate) fn new(reason: String) -> InvalidPayload {
        InvalidPayload(reason)
    }
}

/// `1 job was`, `2 jobs were`.
fn jobs_were(jobs: usize) -> String {
    if jobs == 1 { "1 job was".to_owned() } else { format!("{jobs} jobs were") }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Whether a lock was not granted within LOCK_TIMEOUT, to a procedure or to the sink that it called.
    pub(crate) fn is_lock_time_out(&self) -> bool {
        matches!(self, Error::Sql { number, .. } | Error::ResultRefused { number, .. } if *number == transient::LOCK_TIME_OUT)
    }
}

/// Any error returned by a handler. Every [`std::error::Error`], `anyhow::Error` and text converts to it with `?`.
pub type BoxError = Box<dyn StdError + Send + Sync>;
