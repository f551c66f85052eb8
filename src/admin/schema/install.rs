//! Installing, upgrading and removing the schema.
//!
//! schema_info ─ the wanted version is not there ─▶ sql/*.sql, embedded ─ `$(schema)` replaced ─ split at GO ─▶ one
//! batch after another in one session
//!
//! The scripts take a lock at the start and give it back at the end, so that of two installs at once the second waits;
//! when one breaks off, its session ends and the lock with it.

use crate::admin::Admin;
use std::time::Duration;

use crate::connection::Session;
use crate::error::Error;
use crate::procedures::{SCHEMA_VERSION, SchemaInfo};

use super::script_batches::batches;
use super::scripts::{SCRIPTS, UNINSTALL, unmarked};

impl Admin<'_> {
    /// Installs the schema, or upgrades an older one. Returns the version that is installed now.
    ///
    /// Where this release's version is installed, or a newer one that this release works with, it does nothing and
    /// needs no right but that to run `schema_info`, which every role has. Several processes may do it at once, and
    /// workers and producers may go on meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] without db_owner's permissions where there is something to do;
    /// [`Error::SchemaTooNew`] where a newer release has been with whose schema this one does not work; any other error
    /// of SQL Server, among them 58012: a table would have to be changed and is in use for long. An installation that
    /// broke off is completed by running it again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future breaks the installation off. Run it again to complete it.
    pub async fn install(self) -> Result<i32, Error> {
        self.queue.any_session().await?.install().await
    }

    /// Removes readpast from its schema of the database, with all its queues and jobs: runs `sql/uninstall.sql`
    /// ([`uninstall_script`](crate::admin::uninstall_script)). Stop the workers first, and remove the members of its
    /// five roles.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] while a role has members or a sink exists, and then nothing was removed;
    /// [`Error::PermissionDenied`] without db_owner's permissions; any other error of SQL Server. One that broke off is
    /// completed by running it again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future breaks it off. Run it again to complete it.
    pub async fn uninstall(self) -> Result<(), Error> {
        self.queue.any_session().await?.uninstall().await
    }
}

/// How long a part of a script may take, instead of the command time-out: an upgrade may build an index over a large
/// table.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(600);

/// How often an install that failed for a passing reason is begun again: installs into other schemas of the database
/// may make it a deadlock victim in the system tables.
const INSTALL_ATTEMPTS: usize = 5;

/// The number with which `000_begin.sql` refuses a schema of a newer release.
const NEWER_SCHEMA: i32 = 58_010;

impl Session {
    /// Installs or upgrades the schema, unless this release's version or a newer one that it works with is there;
    /// returns the version.
    pub(crate) async fn install(&mut self) -> Result<i32, Error> {
        self.ensure_connected().await?;
        match self.schema_info("").await {
            Ok(SchemaInfo { version: Some(version), .. }) => match version.check() {
                Ok(()) => return Ok(version.found),
                Err(Error::SchemaTooOld { .. }) => {}
                Err(too_new) => return Err(too_new),
            },
            // Not installed, or not to its end; no right to run schema_info, or it is not ours: the scripts mend it or
            // say what is wrong.
            Ok(_) | Err(Error::NotInstalled { .. } | Error::PermissionDenied { .. } | Error::Protocol { .. }) => {}
            Err(error) => return Err(error),
        }
        match self.run_again(SCRIPTS).await {
            Err(Error::Sql { number: NEWER_SCHEMA, .. }) => self.newer().await,
            result => result.map(|()| SCHEMA_VERSION),
        }
    }

    /// Runs scripts, in which `$(schema)` stands for the schema; all of them again if one failed for a passing reason.
    pub(crate) async fn run_again(&mut self, scripts: &[(&str, &str)]) -> Result<(), Error> {
        for _ in 1..INSTALL_ATTEMPTS {
            match self.run_all(scripts).await {
                Err(error) if matches!(error, Error::Sql { .. }) && error.is_transient() => {
                    tracing::debug!(%error, "running the scripts again");
                }
                result => return result,
            }
        }
        self.run_all(scripts).await
    }

    pub(crate) async fn run_all(&mut self, scripts: &[(&str, &str)]) -> Result<(), Error> {
        // A session of its own: the lock is the session's, and so are the SET options.
        self.disconnect();
        self.ensure_connected().await?;
        for (name, script) in scripts {
            let script = unmarked(script).replace("$(schema)", self.schema());
            for batch in batches(&script) {
                self.within(SCRIPT_TIMEOUT).batch(name, batch).await?;
            }
        }
        self.disconnect();
        Ok(())
    }

    /// A newer release was faster.
    async fn newer(&mut self) -> Result<i32, Error> {
        let version = self.version().await?;
        version.check().map(|()| version.found)
    }

    /// Removes the schema.
    pub(crate) async fn uninstall(&mut self) -> Result<(), Error> {
        let script = UNINSTALL.replace("$(schema)", self.schema());
        for batch in batches(&script) {
            self.within(SCRIPT_TIMEOUT).batch("uninstall", batch).await?;
        }
        Ok(())
    }
}
