//! Checks whether a queue can be used.

use crate::admin::{Admin, FailureGroup, Failures};
use std::fmt;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::config::Config;
use crate::connection::{Session, procedure};
use crate::error::Error;
use crate::procedures::{Role, SchemaInfo};
use crate::queue::Queue;

/// The lowest level with OPENJSON: "OPENJSON" (MicrosoftDocs/sql-docs, docs/t-sql/functions/openjson-transact-sql.md).
const LOWEST_COMPATIBILITY_LEVEL: i32 = 130;

/// Scheduled jobs that are read: those due first.
const LOOKED_AT: usize = 1_000;

/// The checks of [`Admin::findings`](crate::admin::Admin::findings), in their order. If one fails, the later ones
/// cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// SQL Server responds, over TLS if the settings require it.
    Reachable,
    /// SQL Server accepts the login.
    Login,
    /// The login can open the database.
    Database,
    /// readpast is installed in the schema.
    Installed,
    /// The login has the permissions of a producer, worker, operator or monitor; the note lists them.
    Permissions,
    /// This release supports the version of the schema.
    Version,
    /// The database's compatibility level is 130 or higher, as the procedures need; the note has the level and the
    /// server's version.
    Compatibility,
    /// The session has the SET options that filtered indexes require.
    SetOptions,
    /// The database is not read-only.
    ReadOnly,
    /// The queue exists. For operators and monitors, the note also has jobs that workers have postponed
    /// for other workers.
    Queue,
    /// Nothing holds all queues of the schema ([`Held`](crate::admin::Held)).
    NotHeld,
    /// Whether READ_COMMITTED_SNAPSHOT is on. This is only information, and never fails.
    RowVersions,
}

impl Check {
    const ALL: [Check; 12] = [
        Check::Reachable,
        Check::Login,
        Check::Database,
        Check::Installed,
        Check::Permissions,
        Check::Version,
        Check::Compatibility,
        Check::SetOptions,
        Check::ReadOnly,
        Check::Queue,
        Check::NotHeld,
        Check::RowVersions,
    ];

    /// The name in JSON and in printed tables.
    fn word(self) -> &'static str {
        match self {
            Check::Reachable => "reachable",
            Check::Login => "login",
            Check::Database => "database",
            Check::Installed => "installed",
            Check::Version => "version",
            Check::Permissions => "permissions",
            Check::Compatibility => "compatibility",
            Check::SetOptions => "set_options",
            Check::ReadOnly => "read_only",
            Check::Queue => "queue",
            Check::NotHeld => "not_held",
            Check::RowVersions => "row_versions",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The result of a check.
#[derive(Debug)]
#[non_exhaustive]
pub enum CheckResult {
    /// The check passed.
    Ok,
    /// The check failed; the error's message has a remedy.
    Failed(Error),
    /// An earlier check failed.
    NotReached,
}

/// A check and its result.
///
/// The JSON form has `check`, `result` (`ok`, `failed`, `not_reached`), `error` (the message) and `note`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// Its result.
    pub result: CheckResult,
    /// Additional information for people.
    pub note: Option<String>,
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (result, error) = match &self.result {
            CheckResult::Ok => ("ok", None),
            CheckResult::Failed(error) => ("failed", Some(error.to_string())),
            CheckResult::NotReached => ("not_reached", None),
        };
        let mut finding = serializer.serialize_struct("Finding", 4)?;
        finding.serialize_field("check", &self.check)?;
        finding.serialize_field("result", result)?;
        finding.serialize_field("error", &error)?;
        finding.serialize_field("note", &self.note)?;
        finding.end()
    }
}

/// The findings if `check` failed with `error` and the checks before it passed.
fn failed(check: Check, error: Error, notes: &[(Check, String)]) -> Vec<Finding> {
    let mut error = Some(error);
    let mut findings = all_well(notes);
    for finding in findings.iter_mut().skip_while(|finding| finding.check != check) {
        finding.result = error.take().map_or(CheckResult::NotReached, CheckResult::Failed);
        finding.note = None;
    }
    findings
}

fn all_well(notes: &[(Check, String)]) -> Vec<Finding> {
    let note = |check| notes.iter().find(|(of, _)| *of == check).map(|(_, note)| note.clone());
    Check::ALL.map(|check| Finding { check, result: CheckResult::Ok, note: note(check) }).into()
}

/// The findings if no connection could be opened.
pub(crate) fn without_connection(error: Error) -> Vec<Finding> {
    let check = match &error {
        Error::LoginFailed { .. } | Error::Credentials { .. } => Check::Login,
        Error::Database { .. } => Check::Database,
        _ => Check::Reachable,
    };
    failed(check, error, &[])
}

/// Notes the jobs that workers have postponed for other workers. Only operators and monitors may read them.
fn postponed(failures: Result<Failures, Error>) -> String {
    match failures {
        Ok(failures) => {
            let groups = failures.groups.iter().filter(|group| group.was_put_off_for_other_workers());
            let note = |group: &FailureGroup| {
                let FailureGroup { count, example, example_error, .. } = group;
                format!(
                    "; of up to {LOOKED_AT} jobs due next, {count} postponed, such as job {example}: {example_error}"
                )
            };
            groups.map(note).collect()
        }
        Err(Error::PermissionDenied { .. }) => String::new(),
        Err(error) => format!("; its postponed jobs cannot be read: {error}"),
    }
}

/// The findings if there is a connection, but the first call failed.
fn without_answer(error: Error) -> Vec<Finding> {
    let check = match &error {
        Error::PermissionDenied { .. } => Check::Permissions,
        Error::Connect { .. } | Error::ConnectionLost { .. } | Error::TimedOut { .. } => Check::Reachable,
        _ => Check::Installed,
    };
    failed(check, error, &[])
}

/// Returns the error of the first failed check.
pub(crate) fn first_error(findings: Vec<Finding>) -> Result<(), Error> {
    for finding in findings {
        if let CheckResult::Failed(error) = finding.result {
            return Err(error);
        }
    }
    Ok(())
}

impl Session {
    /// Runs all checks.
    pub(crate) async fn findings(&mut self, queue: &str) -> Vec<Finding> {
        if let Err(error) = self.ensure_connected().await {
            return without_connection(error);
        }
        match self.schema_info(queue).await {
            Ok(info) => self.judge(queue, info),
            Err(error) => without_answer(error),
        }
    }

    fn judge(&self, queue: &str, info: SchemaInfo) -> Vec<Finding> {
        let row_versions = match info.row_versions {
            Some(true) => "on",
            Some(false) => "off",
            None => "not visible to the login",
        };
        let level = info.compatibility_level.map_or("not visible to the login".to_owned(), |level| level.to_string());
        let roles: Vec<String> = info.roles.iter().map(Role::to_string).collect();
        let mut notes = vec![
            (Check::Database, info.database.clone()),
            (Check::Installed, format!("in schema {}", self.schema())),
            (Check::Permissions, format!("the login has the permissions of: {}", roles.join(", "))),
            (Check::Compatibility, format!("server version {}, compatibility level {level}", info.server_version)),
            (Check::Queue, queue.to_owned()),
            (Check::RowVersions, format!("READ_COMMITTED_SNAPSHOT is {row_versions}")),
        ];
        let Some(version) = info.version else {
            return failed(Check::Installed, self.installation_broke_off(), &notes);
        };
        notes.push((Check::Version, version.found.to_string()));
        if let Err(error) = version.check() {
            return failed(Check::Version, error, &notes);
        }
        if info.compatibility_level.is_some_and(|level| level < LOWEST_COMPATIBILITY_LEVEL) {
            let database = &info.database;
            let message = format!(
                "the compatibility level of database {database} is {level}; set it to {LOWEST_COMPATIBILITY_LEVEL} or higher"
            );
            return failed(Check::Compatibility, Error::Refused { message }, &notes);
        }
        if !info.wrong_set_options.is_empty() {
            let error = Error::WrongSetOptions { number: None, message: info.wrong_set_options };
            return failed(Check::SetOptions, error, &notes);
        }
        if info.read_only {
            let message = format!("database {} is read-only", info.database);
            return failed(Check::ReadOnly, Error::ReadOnlyDatabase { number: None, message }, &notes);
        }
        if !info.queue_exists {
            let create_queue = procedure(self.schema(), "create_queue");
            let message = format!("there is no queue '{queue}'; create it with {create_queue}");
            return failed(Check::Queue, Error::UnknownQueue { message }, &notes);
        }
        if let Some(held) = info.held {
            return failed(Check::NotHeld, Error::Refused { message: format!("all queues are held: {held}") }, &notes);
        }
        all_well(&notes)
    }
}

impl Admin<'_> {
    /// Checks everything that this queue needs, in the order in which faults would be fixed: reachable, login,
    /// database, installed, permissions, version, compatibility level, SET options, read-only, the queue itself.
    /// Changes nothing.
    ///
    /// # Errors
    ///
    /// The error of the first failed check; the documentation of each [`Error`] has a remedy.
    pub async fn verify(self) -> Result<(), Error> {
        first_error(self.findings().await)
    }

    /// Runs the checks of [`verify`](crate::admin::Admin::verify) and returns the result of each, for example to print
    /// a table.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) {
    /// use readpast::admin::CheckResult;
    ///
    /// for finding in queue.admin().findings().await {
    ///     match finding.result {
    ///         CheckResult::Ok => println!("{} ok {}", finding.check, finding.note.unwrap_or_default()),
    ///         CheckResult::Failed(error) => println!("{} {error}", finding.check),
    ///         _ => println!("{} not reached", finding.check),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn findings(self) -> Vec<Finding> {
        let mut findings = match self.queue.any_session().await {
            Ok(mut session) => session.findings(self.queue.name()).await,
            Err(error) => without_connection(error),
        };
        let queue = findings.iter_mut().find(|finding| finding.check == Check::Queue);
        if let Some(Finding { result: CheckResult::Ok, note: Some(note), .. }) = queue {
            *note += &postponed(self.failures_to_retry(LOOKED_AT).await);
        }
        findings
    }

    /// Returns the roles whose procedures the login may run, as a member or by its own permissions.
    ///
    /// # Errors
    ///
    /// The errors of any call; [`Error::NotInstalled`] and [`Error::PermissionDenied`] if the login may run no
    /// procedure.
    pub async fn roles(self) -> Result<Vec<Role>, Error> {
        Ok(self.queue.any_session().await?.schema_info(self.queue.name()).await?.roles)
    }

    /// Same as [`findings`](crate::admin::Admin::findings), for settings with which [`connect`](Queue::connect) may
    /// fail: such a failure is a finding, too.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] and [`Error::ConnectionString`] for wrong settings.
    pub async fn examine(config: &Config) -> Result<Vec<Finding>, Error> {
        Ok(Queue::new(config)?.admin().findings().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_permission_to_read_postponed_jobs_is_not_noted() {
        let denied = Error::PermissionDenied { number: 229, message: "no".to_owned(), remedy: "a role".to_owned() };
        assert_eq!(postponed(Err(denied)), "");
        let note = postponed(Err(Error::Refused { message: "why".to_owned() }));
        assert!(note.starts_with("; its postponed jobs cannot be read: "), "{note}");
    }
}
