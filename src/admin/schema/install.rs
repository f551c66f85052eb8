//! Installing, upgrading and removing the schema.
//!
//! schema_info ─ the version is missing ─▶ embedded sql/*.sql ─ `$(schema)` replaced ─ split at GO ─▶ run in one
//! session
//!
//! The scripts take a lock at the start and release it at the end. If two installations run at once, the second one
//! waits. If an installation breaks off, its session ends and releases the lock.

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
    /// If this release's version or a newer supported version is installed, the call does nothing and only needs
    /// permission to run `schema_info`, which every role has. Several processes may install at once, while workers and
    /// producers keep running.
    ///
    /// # Errors
    ///
    /// - [`Error::PermissionDenied`] if there is something to do and the login is not a db_owner
    /// - [`Error::SchemaTooNew`] if a newer release has installed a schema that this release does not support
    /// - any other error of SQL Server, for example 58012: a table that must be changed has been in use for too long
    ///
    /// If an installation breaks off, run it again to complete it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future breaks off the installation. Run it again to complete it.
    pub async fn install(self) -> Result<i32, Error> {
        self.queue.any_session().await?.install().await
    }

    /// Removes readpast's schema from the database, with all queues and jobs, by running `sql/uninstall.sql`
    /// ([`uninstall_script`](crate::admin::uninstall_script)). First stop the workers and remove the members of the
    /// five roles.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if a role has members or a sink exists; nothing is removed then. [`Error::PermissionDenied`]
    /// without db_owner's permissions. Any other error of SQL Server. If the removal breaks off, run it again to
    /// complete it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future breaks off the removal. Run it again to complete it.
    pub async fn uninstall(self) -> Result<(), Error> {
        self.queue.any_session().await?.uninstall().await
    }
}

/// The time limit of a batch of a script, instead of the command timeout: an upgrade may build an index on a large
/// table.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(600);

/// How many times to try an installation that fails with a transient error. An installation into another schema of the
/// database may make this one a deadlock victim in the system tables.
const INSTALL_ATTEMPTS: usize = 5;

/// The error with which `000_begin.sql` rejects the schema of a newer release.
const NEWER_SCHEMA: i32 = 58_010;

impl Session {
    /// Installs or upgrades the schema, unless this release's version or a newer supported one is installed. Returns
    /// the installed version.
    pub(crate) async fn install(&mut self) -> Result<i32, Error> {
        self.ensure_connected().await?;
        match self.schema_info("").await {
            Ok(SchemaInfo { version: Some(version), .. }) => match version.check() {
                Ok(()) => return Ok(version.found),
                Err(Error::SchemaTooOld { .. }) => {}
                Err(too_new) => return Err(too_new),
            },
            // The schema is missing or incomplete, or the login may not run schema_info, or it is not readpast's. The
            // scripts fix this, or fail with the cause.
            Ok(_) | Err(Error::NotInstalled { .. } | Error::PermissionDenied { .. } | Error::Protocol { .. }) => {}
            Err(error) => return Err(error),
        }
        match self.run_again(SCRIPTS).await {
            Err(Error::Sql { number: NEWER_SCHEMA, .. }) => self.newer().await,
            result => result.map(|()| SCHEMA_VERSION),
        }
    }

    /// Runs scripts with `$(schema)` replaced, and runs all of them again after a transient error.
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
        // The lock and the SET options belong to the session, so the scripts get a new session.
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

    /// Returns the version that a newer release has installed meanwhile.
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
