//! `schema_info`: which version of the schema is installed, and what the login may do.

use std::fmt;

use serde::Serialize;

use crate::connection::Session;
use crate::error::Error;

/// A role of the schema: what its members may do (`sql/README.md`, "Who may do what").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// `readpast_producer`: enqueues.
    Producer,
    /// `readpast_worker`: claims and finishes.
    Worker,
    /// `readpast_operator`: changes queues and jobs.
    Operator,
    /// `readpast_monitor`: reads queues and jobs.
    Monitor,
    /// `readpast_autoscaler`: asks how many workers a queue needs.
    Autoscaler,
}

impl Role {
    const WORDS: [(&str, Role); 5] = [
        ("producer", Role::Producer),
        ("worker", Role::Worker),
        ("operator", Role::Operator),
        ("monitor", Role::Monitor),
        ("autoscaler", Role::Autoscaler),
    ];

    /// Reads roles from words separated by spaces. Unknown words, of later releases, are ignored.
    pub(crate) fn all_of(words: &str) -> Vec<Role> {
        let role = |word| Role::WORDS.iter().find(|(of, _)| *of == word).map(|(_, role)| *role);
        words.split_whitespace().filter_map(role).collect()
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Role::WORDS.iter().find(|(_, role)| role == self).map(|(word, _)| *word);
        f.pad(word.unwrap_or_default()) // all have one
    }
}

/// What holds all queues of a schema, so that nothing is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Held {
    /// An operator has paused all queues ([`Admin::pause_all`](crate::admin::Admin::pause_all)).
    Schema,
    /// The database was restored or copied, and nobody has confirmed it
    /// ([`Admin::confirm_copy`](crate::admin::Admin::confirm_copy)). Schedules are held, too.
    Copy,
}

impl Held {
    pub(crate) const WORDS: [(&'static str, Held); 2] = [("schema", Held::Schema), ("copy", Held::Copy)];
}

/// The reason in words, and what to do.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Held::Schema => "an operator has paused all queues; `readpast queue resume --all` resumes them",
            Held::Copy => {
                "this database was restored or copied, so its jobs may have run elsewhere since; cancel those that must \
                 not run again, then confirm it with `readpast confirm-copy`"
            }
        })
    }
}

/// The version of the schema that this release needs, which the last script writes to `schema_version`.
pub(crate) const SCHEMA_VERSION: i32 = 1;

/// The result of `schema_info`.
#[derive(Debug)]
pub(crate) struct SchemaInfo {
    /// The installed version, or `None` if an installation did not complete.
    pub(crate) version: Option<Version>,
    pub(crate) database: String,
    pub(crate) read_only: bool,
    /// Whether READ_COMMITTED_SNAPSHOT is on, or `None` if the login cannot see it.
    pub(crate) row_versions: Option<bool>,
    pub(crate) wrong_set_options: String,
    pub(crate) queue_exists: bool,
    /// The roles whose procedures the login may run.
    pub(crate) roles: Vec<Role>,
    pub(crate) server_version: String,
    /// The database's compatibility level, or `None` if the login cannot see it.
    pub(crate) compatibility_level: Option<i32>,
    /// What holds all queues.
    pub(crate) held: Option<Held>,
}

/// An installed version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    pub(crate) found: i32,
    /// The oldest version of workers and producers that works with this version.
    pub(crate) min_compatible: i32,
}

impl Version {
    pub(crate) fn check(self) -> Result<(), Error> {
        check_compatible(self.min_compatible)?;
        if self.found < SCHEMA_VERSION {
            return Err(Error::SchemaTooOld { found: self.found, wanted: SCHEMA_VERSION });
        }
        Ok(())
    }
}

/// Checks whether this release works with an installed schema. Running workers check this with each heartbeat.
///
/// # Errors
///
/// [`Error::SchemaTooNew`] if it does not.
pub(crate) fn check_compatible(min_compatible: i32) -> Result<(), Error> {
    if min_compatible > SCHEMA_VERSION {
        return Err(Error::SchemaTooNew { needed: min_compatible, known: SCHEMA_VERSION });
    }
    Ok(())
}

impl Session {
    pub(crate) async fn version(&mut self) -> Result<Version, Error> {
        let info = self.schema_info("").await?;
        info.version.ok_or_else(|| self.installation_broke_off())
    }

    /// Checks that a schema is installed with which this release works.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`], [`Error::SchemaTooOld`], [`Error::SchemaTooNew`], and the errors of the call.
    pub(crate) async fn check_version(&mut self) -> Result<(), Error> {
        self.version().await?.check()
    }

    pub(crate) async fn schema_info(&mut self, queue: &str) -> Result<SchemaInfo, Error> {
        let mut command = self.command("schema_info");
        command.bind_param("@queue", queue);
        let mut row = self.row("schema_info", command).await?;
        let (found, min_compatible) = (row.optional("version")?, row.optional("min_compatible")?);
        let version = found.zip(min_compatible).map(|(found, min_compatible)| Version { found, min_compatible });
        let database = row.required("database_name")?;
        let read_only = row.required("read_only")?;
        let row_versions = row.optional("read_committed_snapshot")?;
        let wrong_set_options: String = row.required("wrong_set_options")?;
        let queue_exists = row.required("queue_exists")?;
        let roles = Role::all_of(&row.required::<String>("roles")?);
        let server_version = row.required("server_version")?;
        let compatibility_level = row.optional("compatibility_level")?;
        let held = row.optional_one_of("held", &Held::WORDS)?;
        Ok(SchemaInfo {
            version,
            database,
            read_only,
            row_versions,
            wrong_set_options: wrong_set_options.trim_end().to_string(),
            queue_exists,
            roles,
            server_version,
            compatibility_level,
            held,
        })
    }

    pub(crate) fn installation_broke_off(&self) -> Error {
        self.not_installed("an installation has not come to its end")
    }

    fn not_installed(&self, message: &str) -> Error {
        Error::NotInstalled { number: None, schema: self.schema().to_string(), message: message.to_string() }
    }
}
