//! ALTER DATABASE … SET, and KILL.
//!
//! Source: "ALTER DATABASE SET options" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/alter-database-transact-sql-set-options.md).

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::database::Database;
use crate::catalog::server::{MASTER, Product};
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::storage::{self, LockMode, Transaction};
use crate::tsql::ast::{AlterDatabase, DatabaseOption, Termination};

fn no_such_database(name: &str) -> SqlError {
    SqlError::new(
        5011,
        format!(
            "User does not have permission to alter database '{name}', the database does not exist, or the database is not \
             in a state that allows access checks."
        ),
    )
    .severity(14)
}

/// Source: "ALTER DATABASE compatibility level", the table of supported values (MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/alter-database-transact-sql-compatibility-level.md). Below 120, triggers, recursive queries
/// and OUTPUT INTO behave otherwise, below 110 also conversions of times, sums with dates, STRING_AGG and TRY_CONVERT.
fn check_compatibility_level(level: u32, product: Product) -> SqlResult<u8> {
    let newest = product.newest_compatibility_level();
    if let Some(level) = (100..=newest).step_by(10).find(|valid| u32::from(*valid) == level) {
        return match level {
            100 | 110 => Err(SqlError::not_supported(format!("the compatibility level {level}"))),
            _ => Ok(level),
        };
    }
    let valid: Vec<String> = (100..newest).step_by(10).map(|level| level.to_string()).collect();
    let valid = valid.join(", ");
    Err(SqlError::new(15_048, format!("Valid values of the database compatibility level are {valid}, or {newest}.")))
}

impl Session {
    pub(crate) fn alter_database(&mut self, alter: &AlterDatabase) -> SqlResult<()> {
        let database = match &alter.name {
            Some(name) => {
                self.engine.check_not_only_a_name(name)?;
                self.engine.find_database(name).ok_or_else(|| no_such_database(name))?
            }
            None => Arc::clone(&self.database),
        };
        if !self.is_owner() {
            return Err(no_such_database(&database.name));
        }
        self.check_not_in_trigger("ALTER DATABASE")?;
        if self.tx.is_some() {
            let message = "ALTER DATABASE statement not allowed within multi-statement transaction.";
            return Err(SqlError::new(226, message));
        }
        let option = alter.option;
        let ends_others = matches!(option, DatabaseOption::ReadOnly(_) | DatabaseOption::ReadCommittedSnapshot(_));
        if alter.termination.is_some() && !ends_others {
            return Err(SqlError::not_supported("this option of ALTER DATABASE with a termination clause"));
        }
        if database.id == MASTER && !matches!(option, DatabaseOption::CompatibilityLevel(_)) {
            return Err(SqlError::not_supported("this option of the database master"));
        }
        let set = match option {
            DatabaseOption::ReadOnly(on) => {
                if database.is_read_only() == on {
                    return Ok(());
                }
                self.change_alone(&database, alter.termination, |_| database.set_read_only(on))
            }
            DatabaseOption::ReadCommittedSnapshot(on) => {
                if database.storage.latch().reads_committed_snapshot() == on {
                    return Ok(());
                }
                self.change_alone(&database, alter.termination, |latch| {
                    let allow_snapshot = latch.allows_snapshot();
                    database.set_versioning(latch, on, allow_snapshot);
                })
            }
            DatabaseOption::AllowSnapshotIsolation(on) => self.allow_snapshot_isolation(&database, on),
            DatabaseOption::CompatibilityLevel(level) => check_compatibility_level(level, self.engine.server.product)
                .map(|level| database.set_compatibility_level(level)),
        };
        set.map_err(|error| match error.number {
            5070 => SqlError::new(5069, "ALTER DATABASE statement failed.").because([error]),
            _ => error,
        })
    }

    /// Makes a change that needs the database for itself: "there must be no active connections to the database except
    /// for the connection running the ALTER DATABASE command" (READ_COMMITTED_SNAPSHOT); "requires exclusive access to
    /// the database" (READ_ONLY and READ_WRITE). Without a termination clause it waits.
    fn change_alone(
        &mut self,
        database: &Arc<Database>,
        termination: Option<Termination>,
        change: impl FnOnce(&mut storage::Latch<'_>),
    ) -> SqlResult<()> {
        let visit = self.enter(database);
        let tx = Transaction::begin(visit.as_ref().unwrap_or(self.storage()));
        let patience = match termination {
            None => self.state.options.lock_timeout,
            Some(_) => Some(Duration::ZERO),
        };
        let mut latch = database.storage.latch();
        let mut alone = latch.be_alone(&tx, patience);
        let kills = termination == Some(Termination::RollbackImmediate);
        if kills && alone.as_ref().is_err_and(|error| error.number == 1222) {
            drop(latch);
            self.kill_others(database);
            latch = database.storage.latch();
            alone = latch.be_alone(&tx, None);
        }
        if alone.as_ref().is_err_and(|error| error.number == 1222) && termination.is_some() {
            let message = format!(
                "Database state cannot be changed while other users are using the database '{}'",
                database.name
            );
            alone = Err(SqlError::new(5070, message).state(2));
        }
        if alone.is_ok() {
            change(&mut latch);
        }
        latch.commit(tx);
        drop(latch);
        self.leave(database, visit);
        alone
    }

    /// Versions are complete only when every transaction that changes data has begun after them: "the state … does not
    /// change until all existing transactions … are completed".
    fn allow_snapshot_isolation(&mut self, database: &Arc<Database>, on: bool) -> SqlResult<()> {
        let visit = self.enter(database);
        let mut tx = Transaction::begin(visit.as_ref().unwrap_or(self.storage()));
        tx.lock_timeout = self.state.options.lock_timeout;
        let mut latch = database.storage.latch();
        let mut waited = Ok(());
        if on {
            for table in latch.tables() {
                waited = waited.and_then(|()| latch.lock_table(&mut tx, table.id, LockMode::Shared, true));
            }
        }
        if waited.is_ok() {
            let read_committed_snapshot = latch.reads_committed_snapshot();
            database.set_versioning(&mut latch, read_committed_snapshot, on);
        }
        latch.commit(tx);
        drop(latch);
        self.leave(database, visit);
        waited
    }

    /// A place in a database that is not the session's own, to wait there; a cancel reaches it.
    fn enter(&self, database: &Arc<Database>) -> Option<storage::Session> {
        if Arc::ptr_eq(database, &self.database) {
            return None;
        }
        let visit = database.storage.open_session(self.state.spid);
        self.cancel.point_at(database, visit.handle());
        Some(visit)
    }

    fn leave(&self, database: &Arc<Database>, visit: Option<storage::Session>) {
        let Some(visit) = visit else { return };
        self.cancel.point_at(&self.database, self.storage().handle());
        database.storage.close_session(visit);
    }

    fn kill_others(&self, database: &Arc<Database>) {
        for connection in self.engine.connections.all() {
            if connection.spid != self.state.spid && Arc::ptr_eq(&connection.database(), database) {
                connection.kill();
            }
        }
    }

    /// KILL.
    ///
    /// Source: "KILL" (MicrosoftDocs/sql-docs, docs/t-sql/language-elements/kill-transact-sql.md).
    pub(crate) fn kill(&self, spid: u32) -> SqlResult<()> {
        if !self.is_administrator() {
            return Err(SqlError::new(6102, "User does not have permission to use the KILL statement.").severity(14));
        }
        let number = i32::try_from(spid).ok().filter(|spid| (1..=32_767).contains(spid));
        let Some(spid) = number else {
            return Err(SqlError::new(6101, format!("Session ID {spid} is not valid.")));
        };
        if spid == self.state.spid {
            return Err(SqlError::new(6104, "Cannot use KILL to kill your own process."));
        }
        match self.engine.connections.get(spid) {
            Some(connection) => {
                connection.kill();
                Ok(())
            }
            None => Err(SqlError::new(6106, format!("Process ID {spid} is not an active process ID."))),
        }
    }
}
