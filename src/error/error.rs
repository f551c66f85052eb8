//! [`Error`]: everything that can fail.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use crate::id::{Enqueued, JobId};

use super::{remedy, transient};

/// The kind of [`Error::ConnectionLost`]'s cause when an answer exceeds its limit. Sockets never return it.
pub(crate) const TOO_MUCH: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// What can go wrong, sorted by what to do about it.
///
/// The message is complete: it names the cause, and says what to do where that is known.
/// [`source`](std::error::Error::source) is `None`, so that nothing that prints causes prints one twice; only
/// [`Payload`](Error::Payload) has one, by which a handler's error is known.
///
/// [`is_transient`](Error::is_transient) says whether the same call may succeed a little later.
///
/// `{:?}` also writes the message, because that is what a `main` that returns the error prints, and what `unwrap`
/// prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that it cannot have, or that does not go with another setting. Correct the key that is
    /// named.
    #[error("{key} is {value}; it must be {allowed}")]
    #[non_exhaustive]
    Config {
        /// The key as in the TOML file (`worker.lease_ms`), or the environment variable.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },

    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}: {cause}", path.display())]
    #[non_exhaustive]
    ConfigFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },

    /// The configuration is no TOML, or it has a key that does not exist, or a value of the wrong type.
    #[error("the configuration is not valid: {place}: {message}")]
    #[non_exhaustive]
    ConfigSyntax {
        /// The file, where there is one, and the line.
        place: String,
        /// What is wrong, and the key that was probably meant. Never quotes the line itself, which may be that of the
        /// connection string.
        message: String,
    },

    /// The connection string (`connection.url`) is wrong. Correct it; the message names the key and the values it may
    /// have.
    #[error("the connection string is not valid: {reason}")]
    #[non_exhaustive]
    ConnectionString {
        /// What is wrong.
        reason: String,
    },

    /// No connection could be made: the server is down or unreachable, or its name does not resolve. Check host, port
    /// and firewall.
    #[error("cannot connect to SQL Server at {server}: {cause}")]
    #[non_exhaustive]
    Connect {
        /// Host and port, or host and instance.
        server: String,
        /// What the operating system said.
        cause: io::Error,
    },

    /// The encrypted connection could not be made, most often because nobody here trusts the server's certificate.
    /// Install its authority, or name it with `TrustServerCertificateCA=<file>`; on a development machine only,
    /// `TrustServerCertificate=true`.
    #[error("cannot make an encrypted connection to SQL Server at {server}: {message}; {}", remedy::for_tls(message))]
    #[non_exhaustive]
    Tls {
        /// Host and port, or host and instance.
        server: String,
        /// What the TLS library said.
        message: String,
    },

    /// What a connection logs in with cannot be had: the password file cannot be read, the source of tokens fails or
    /// does not answer, or Kerberos gives no ticket. Nothing was sent to SQL Server. Mend the source that is named; a
    /// [`Worker`](crate::worker::Worker) that runs waits for it.
    #[error("cannot log in: {source_name}: {message}")]
    #[non_exhaustive]
    Credentials {
        /// Where they come from.
        source_name: String,
        /// Why there are none. Never the password or the token.
        message: String,
    },

    /// SQL Server refused the login (18456 and its relatives). Check what it logs in with; SQL Server's own log
    /// tells the reason that it does not tell clients.
    ///
    /// It is [transient](Error::is_transient) where it may be gone later without anything done to this process: that
    /// has logged in before, and what it logs in with is a password file, a token or the operating system's user. The
    /// next login is tried after a pause, or as soon as the file has another password; until then, this error is what
    /// connecting ends with. `docs/logins.md` has the pauses. A call on an open connection whose token has run out can
    /// end with it as well; the next call connects anew.
    #[error("login failed: {message} (error {number}); {remedy}; SQL Server's error log has the reason")]
    #[non_exhaustive]
    LoginFailed {
        /// SQL Server's error number.
        number: i32,
        /// SQL Server's message; names the user, never the password.
        message: String,
        /// What to check, by the way in which it logs in.
        remedy: String,
        /// What [`is_transient`](Error::is_transient) says.
        #[doc(hidden)]
        may_pass: bool,
    },

    /// The login is good, but the database cannot be opened (4060, 911, 916): it does not exist, is not on-line, or the
    /// login has no user in it. Check `Database` in the connection string.
    #[error(
        "cannot open the database: {message} (error {number}); check Database, and that the login has a user in the database"
    )]
    #[non_exhaustive]
    Database {
        /// SQL Server's error number.
        number: i32,
        /// SQL Server's message; names the database.
        message: String,
    },

    /// A call took longer than `connection.command_timeout_ms` or `connection.connect_timeout_ms`. What it asked for
    /// may or may not have happened; nothing has where it was still connecting.
    #[error("{call} timed out after {} ms", after.as_millis())]
    #[non_exhaustive]
    TimedOut {
        /// The procedure, or `connecting to` and the server; `the login before this one` where a password is not sent
        /// because another connection's login with it has no answer.
        call: String,
        /// The time limit, or how long the other login was waited for.
        after: Duration,
    },

    /// All connections that a queue and its clones share were in use for as long as a call may wait for one: SQL Server
    /// is slow or out of reach, or too much was asked of it at once. Nothing was sent.
    #[error("no connection became available within {} ms; nothing was sent", after.as_millis())]
    #[non_exhaustive]
    NoFreeConnection {
        /// The time limit, `connection.command_timeout_ms`.
        after: Duration,
    },

    /// The connection broke during a call. What the call asked for may or may not have happened.
    #[error("the connection to SQL Server was lost: {cause}")]
    #[non_exhaustive]
    ConnectionLost {
        /// What the operating system said.
        cause: io::Error,
    },

    /// An error of SQL Server that has no variant of its own here.
    #[error("{message} (error {number}, severity {severity}, {procedure} line {line})")]
    #[non_exhaustive]
    Sql {
        /// SQL Server's error number.
        number: i32,
        /// 11 to 16: the statement's fault; 17 and more: the server's.
        severity: u8,
        /// SQL Server's message.
        message: String,
        /// The procedure it comes from; empty for a batch.
        procedure: String,
        /// The line in the procedure or batch.
        line: u32,
    },

    /// The queue does not exist (58001). Create it with [`Admin::create`](crate::admin::Admin::create), or correct
    /// `queue.name`.
    #[error("{message} or Queue::create, or correct queue.name")]
    #[non_exhaustive]
    UnknownQueue {
        /// Names the queue.
        message: String,
    },

    /// The worker is not registered or was marked lost, because its lease was not renewed in time (58002). Its jobs may
    /// run elsewhere by now. A [`Worker`](crate::worker::Worker) registers anew by itself.
    #[error("the worker lost its lease; its jobs may be running on another worker")]
    LeaseLost,

    /// SQL Server refused what was asked for because of its contents (58003): a queue's setting, or a job. Correct the
    /// call.
    #[error("{message}")]
    #[non_exhaustive]
    Refused {
        /// What is wrong and what is allowed.
        message: String,
    },

    /// The queue's sink, the enqueueing of a follow-up, or what is to become of the row of an adopted table, failed in
    /// the transaction of an acknowledgement (58020), which was rolled back as a whole. A
    /// [`Worker`](crate::worker::Worker) finds the job whose result is refused, and retries it; it stops where the sink
    /// cannot be called at all, or what the sink uses is not there.
    #[error("{message}")]
    #[non_exhaustive]
    ResultRefused {
        /// The number of the sink's own error.
        number: i32,
        /// Its text, and where it was raised.
        message: String,
    },

    /// A job cannot be enqueued as it is. Nothing was sent. Correct the job.
    #[error("cannot enqueue the job: {reason}")]
    #[non_exhaustive]
    InvalidJob {
        /// What is wrong and what is allowed.
        reason: String,
    },

    /// A checkpoint is too large to be kept. The one before it stays. Keep such a state elsewhere, and its address in
    /// the checkpoint.
    #[error("the checkpoint is {bytes} bytes; it must be at most 65535")]
    #[non_exhaustive]
    CheckpointTooLarge {
        /// How large it is.
        bytes: usize,
    },

    /// A schedule cannot be set as it is. Nothing was sent. Correct the schedule.
    #[error("cannot set the schedule: {reason}")]
    #[non_exhaustive]
    InvalidSchedule {
        /// What is wrong and what is allowed.
        reason: String,
    },

    /// A batch cannot be created as it is. Nothing was sent. Correct the batch.
    #[error("cannot create the batch: {reason}")]
    #[non_exhaustive]
    InvalidBatch {
        /// What is wrong and what is allowed.
        reason: String,
    },

    /// There is no batch of this number, because it was never created or was forgotten a week after its end; or it is
    /// sealed, so that no job can be added (58021). Create another with
    /// [`Queue::create_batch`](crate::queue::Queue::create_batch), and add its jobs before sealing it.
    #[error("{message}")]
    #[non_exhaustive]
    BatchNotOpen {
        /// Which of the two it is, and the batch's number.
        message: String,
    },

    /// The queue cannot be deleted (58022), because it is in use: the message says what by. Stop its workers, end the
    /// batches whose follow-ups belong to it, or have [`Admin::delete`](crate::admin::Admin::delete) delete its jobs,
    /// too.
    #[error("{message}")]
    #[non_exhaustive]
    QueueInUse {
        /// What it is in use by.
        message: String,
    },

    /// SQL Server did not answer to an enqueue, or ended the session: the jobs may be in the queue, all of them or
    /// none. Hand them in again only where running them twice does no harm.
    ///
    /// Jobs that all have a [de-duplication key](crate::job::NewJob::dedup_key) were tried again already, without
    /// success, if `cause` is [transient](Error::is_transient) and there was time left for it. Handing them in again
    /// adds no job a second time while the first has not ended. Those of
    /// [`Queue::enqueue_part`](crate::queue::Queue::enqueue_part) were tried again, too, and can be handed in again
    /// with the same number.
    #[error("it is unknown whether {} enqueued: {cause}", jobs_were(*jobs))]
    #[non_exhaustive]
    EnqueueInDoubt {
        /// How many: 1, or a chunk of an [`enqueue_many`](crate::queue::Queue::enqueue_many).
        jobs: usize,
        /// What came instead of an answer, the first time.
        cause: Box<Error>,
    },

    /// Some chunks of an [`enqueue_many`](crate::queue::Queue::enqueue_many) were committed before one failed. The
    /// later jobs are not in the queue. Exception: where `cause` is an [`Error::EnqueueInDoubt`], the next `jobs` of
    /// them may be.
    #[error("{} enqueued, then: {cause}", jobs_were(enqueued.len()))]
    #[non_exhaustive]
    EnqueuedInPart {
        /// The jobs that are certainly in the queue, in the caller's order.
        enqueued: Vec<Enqueued>,
        /// Why the next chunk failed.
        cause: Box<Error>,
    },

    /// readpast is not installed in this schema of the database, or only in part. Run
    /// [`Admin::install`](crate::admin::Admin::install) as a member of db_owner, or have the scripts in `sql/` run; or
    /// correct `connection.schema` or `Database` in the connection string.
    #[error(
        "readpast is not installed in schema {schema} of this database: {message}; {}, or correct connection.schema or Database",
        remedy::INSTALL
    )]
    #[non_exhaustive]
    NotInstalled {
        /// SQL Server's error number; `None` where this was found before SQL Server refused anything.
        number: Option<i32>,
        /// The schema that was looked in.
        schema: String,
        /// What is missing.
        message: String,
    },

    /// The installed schema is older than this release needs. Run [`Admin::install`](crate::admin::Admin::install) as a
    /// member of db_owner, or have the scripts in `sql/` run: they upgrade it, and releases that work with it now go on
    /// working where its changes allow that.
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

    /// A newer release has installed a schema with which this one no longer works. Use a newer release of the crate.
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

    /// The login lacks a permission. Make its user a member of one of the roles `<schema>_worker`, `<schema>_producer`,
    /// `<schema>_operator` and `<schema>_monitor`, as `sql/README.md` says under "Who may do what"; installing needs
    /// db_owner.
    #[error("permission denied: {message} (error {number}); {remedy}")]
    #[non_exhaustive]
    PermissionDenied {
        /// SQL Server's error number.
        number: i32,
        /// SQL Server's message; names the object and the permission.
        message: String,
        /// The role that has the permission, or who else may do it.
        remedy: String,
    },

    /// The database is read-only: a secondary replica, a standby, or set so. Connect to the primary, without
    /// `ApplicationIntent=ReadOnly`.
    #[error("the database is read-only: {message}; connect to the primary")]
    #[non_exhaustive]
    ReadOnlyDatabase {
        /// SQL Server's error number; `None` where this was found before SQL Server refused anything.
        number: Option<i32>,
        /// Names the database.
        message: String,
    },

    /// The session, the login's defaults or the installation has SET options under which SQL Server refuses to change
    /// tables with filtered indexes (1934). Set the options that are named to their defaults, and install again.
    #[error("wrong SET options: {message}")]
    #[non_exhaustive]
    WrongSetOptions {
        /// SQL Server's error number; `None` where this was found before SQL Server refused anything.
        number: Option<i32>,
        /// The options.
        message: String,
    },

    /// A job's payload is not what the handler took it for. The job becomes dead, because the payload will not get
    /// better.
    #[error("invalid payload of job {job_id}: {reason}")]
    #[non_exhaustive]
    Payload {
        /// The job.
        job_id: JobId,
        /// What is wrong with it.
        #[source]
        reason: InvalidPayload,
    },

    /// A value cannot be written as JSON, for example a map whose keys are no strings.
    #[error("cannot write the value as JSON: {message}")]
    #[non_exhaustive]
    Json {
        /// What is wrong with it.
        message: String,
    },

    /// SQL Server's answer is not one that this release understands: the procedures were changed, or the driver has a
    /// bug. Have the scripts in `sql/` run to get the procedures of this release.
    #[error("unexpected response from SQL Server: {message}")]
    #[non_exhaustive]
    Protocol {
        /// What was unexpected.
        message: String,
    },

    /// SQL Server's answer contains text that cannot be decoded. Most often an error or a message quotes half a
    /// character, because a trigger, a sink or another procedure cut a text in the middle of a surrogate pair: fix that
    /// code. The call may or may not have taken effect. If an acknowledgement ends like this, the
    /// [`Worker`](crate::worker::Worker) finds the job that causes it, and retries that job; if a claim does, that job
    /// is dead, and the worker ends when the answers to three claims in a row cannot be read. (With
    /// [`Delivery::AtMostOnce`](crate::job::Delivery::AtMostOnce), a claim that ends like this ends the worker.)
    #[error("cannot read text in SQL Server's response: {message}")]
    #[non_exhaustive]
    UnreadableText {
        /// What the driver says.
        message: String,
    },

    /// The operating system gave no threads for the worker's pool. Lower `worker.threads`, or raise the limit on
    /// threads.
    #[error("cannot start the worker's threads: {message}; lower worker.threads, or raise the limit on threads")]
    #[non_exhaustive]
    Threads {
        /// What the operating system said.
        message: String,
    },

    /// Something panicked in the worker outside of a handler: the program's metrics recorder, its tracing subscriber, a
    /// hook, or a defect of this crate. The worker has ended; what it held was given back.
    #[error("the worker panicked outside of a handler: {message}")]
    #[non_exhaustive]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

/// What is wrong with a payload. A cause of its own, so that it is still recognised when the error was wrapped into
/// others.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPayload(String);

impl InvalidPayload {
    pub(crate) fn new(reason: String) -> InvalidPayload {
        InvalidPayload(reason)
    }
}

/// The beginning of a sentence: `1 job was`, `2 jobs were`.
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

/// Any error, as a handler returns it. Every [`std::error::Error`] converts to it with `?`, and so do `anyhow::Error`
/// and text.
pub type BoxError = Box<dyn StdError + Send + Sync>;
