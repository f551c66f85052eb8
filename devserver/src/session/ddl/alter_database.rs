//! ALTER DATABASE … SET.
//!
//! Source: "ALTER DATABASE SET options" (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/alter-database-transact-sql-set-options.md).

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::server::{MASTER, Product};
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::storage::{self, LockMode, Transaction, fold};
use crate::tsql::ast::{AlterDatabase, DatabaseOption};

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
        let database = Arc::clone(&self.database);
        if alter.name.as_ref().is_some_and(|name| fold(name) != fold(&database.name)) {
            return Err(SqlError::not_supported("ALTER DATABASE of another database than the session's"));
        }
        if !self.is_owner() {
            return Err(SqlError::not_supported("ALTER DATABASE by others than the owners of the database"));
        }
        self.check_not_in_trigger("ALTER DATABASE")?;
        if self.tx.is_some() {
            let message = "ALTER DATABASE statement not allowed within multi-statement transaction.";
            return Err(SqlError::new(226, message));
        }
        let option = alter.option;
        let ends_others = matches!(option, DatabaseOption::ReadOnly(_) | DatabaseOption::ReadCommittedSnapshot(_));
        if alter.rolls_back_others && !ends_others {
            return Err(SqlError::not_supported("this option of ALTER DATABASE with a termination clause"));
        }
        if database.id == MASTER && !matches!(option, DatabaseOption::CompatibilityLevel(_)) {
            return Err(SqlError::not_supported("this option of the database master"));
        }
        match option {
            DatabaseOption::ReadOnly(on) => {
                if database.is_read_only() == on {
                    return Ok(());
                }
                self.change_alone(alter.rolls_back_others, |_| database.set_read_only(on))
            }
            DatabaseOption::ReadCommittedSnapshot(on) => {
                if database.storage.latch().reads_committed_snapshot() == on {
                    return Ok(());
                }
                self.change_alone(alter.rolls_back_others, |latch| {
                    let allow_snapshot = latch.allows_snapshot();
                    database.set_versioning(latch, on, allow_snapshot);
                })
            }
            DatabaseOption::AllowSnapshotIsolation(on) => self.allow_snapshot_isolation(on),
            DatabaseOption::CompatibilityLevel(level) => check_compatibility_level(level, self.engine.server.product)
                .map(|level| database.set_compatibility_level(level)),
        }
    }

    /// Makes a change that needs the database for itself: "there must be no active connections to the database except
    /// for the connection running the ALTER DATABASE command" (READ_COMMITTED_SNAPSHOT); "requires exclusive access to
    /// the database" (READ_ONLY and READ_WRITE). Without a termination clause it waits.
    fn change_alone(&mut self, rolls_back_others: bool, change: impl FnOnce(&mut storage::Latch<'_>)) -> SqlResult<()> {
        let database = Arc::clone(&self.database);
        let tx = Transaction::begin(self.storage());
        let patience = if rolls_back_others { Some(Duration::ZERO) } else { self.state.options.lock_timeout };
        let mut latch = database.storage.latch();
        let mut alone = latch.be_alone(&tx, patience);
        if rolls_back_others && alone.as_ref().is_err_and(|error| error.number == 1222) {
            drop(latch);
            self.kill_others();
            latch = database.storage.latch();
            alone = latch.be_alone(&tx, None);
        }
        if alone.is_ok() {
            change(&mut latch);
        }
        latch.commit(tx);
        alone
    }

    /// Versions are complete only when every transaction that changes data has begun after them: "the state … does not
    /// change until all existing transactions … are completed".
    fn allow_snapshot_isolation(&mut self, on: bool) -> SqlResult<()> {
        let database = Arc::clone(&self.database);
        let mut tx = Transaction::begin(self.storage());
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
        waited
    }

    fn kill_others(&self) {
        for connection in self.engine.connections.all() {
            if connection.spid != self.state.spid && Arc::ptr_eq(&connection.database(), &self.database) {
                connection.kill();
            }
        }
    }
}
