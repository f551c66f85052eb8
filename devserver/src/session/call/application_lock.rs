//! sp_getapplock and sp_releaseapplock.

use std::time::Duration;

use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::application_lock::application_mode;
use crate::plan::cached_plan::Uses;
use crate::session::call::argument::{PassedArgument, Returned};
use crate::session::call::system_argument::{argument, text_argument};
use crate::session::client_session::Session;
use crate::session::outcome::cancelled;
use crate::storage::{LockOwner, fold};
use crate::value::Value;

impl Session {
    /// sp_getapplock: 0 granted, 1 granted after waiting, -1 time-out, -2 cancelled, -3 deadlock victim, -999 error.
    ///
    /// Source: "sp_getapplock" (MicrosoftDocs/sql-docs,
    /// docs/relational-databases/system-stored-procedures/sp-getapplock-transact-sql.md).
    pub(crate) fn get_application_lock(
        &mut self,
        arguments: &[PassedArgument],
        activation: &mut Activation,
    ) -> SqlResult<Returned> {
        let resource = text_argument(arguments, 0, "@Resource", "sp_getapplock")?;
        let mode = text_argument(arguments, 1, "@LockMode", "sp_getapplock")?;
        let invalid = Ok(Returned { status: -999, ..Returned::default() });
        let Some(mode) = application_mode(&mode) else {
            return invalid;
        };
        let Some(owner) = lock_owner(argument(arguments, 2, "@LockOwner")) else { return invalid };
        let timeout = argument(arguments, 3, "@LockTimeout").and_then(Value::as_i64);
        if timeout.is_some_and(|timeout| timeout < -1) || argument(arguments, 0, "@Resource") == Some(&Value::Null) {
            return invalid;
        }
        self.check_transaction_for(owner)?;
        let timeout = match timeout {
            Some(milliseconds) => u64::try_from(milliseconds).ok().map(Duration::from_millis),
            None => self.state.options.lock_timeout,
        };
        let granted = self.with_run(Uses::Database, activation, |run| {
            let storage = run.storage()?;
            storage.latch.lock_application(&mut storage.tx, owner, &resource, mode, timeout)
        });
        let status = match granted {
            Ok(true) => 0,
            Ok(false) => 1,
            Err(error) if error.number == 1222 => -1,
            Err(error) if error.number == 1205 => -3,
            Err(error) if error.number == cancelled().number => return Err(error),
            Err(error) => return Err(error),
        };
        Ok(Returned { status, ..Returned::default() })
    }

    pub(crate) fn release_application_lock(
        &mut self,
        arguments: &[PassedArgument],
        activation: &mut Activation,
    ) -> SqlResult<Returned> {
        let resource = text_argument(arguments, 0, "@Resource", "sp_releaseapplock")?;
        let Some(owner) = lock_owner(argument(arguments, 1, "@LockOwner")) else {
            return Ok(Returned { status: -999, ..Returned::default() });
        };
        self.check_transaction_for(owner)?;
        let released = self.with_run(Uses::Database, activation, |run| {
            let storage = run.storage()?;
            Ok(storage.latch.unlock_application(&storage.tx, owner, &resource))
        })?;
        if released {
            return Ok(Returned::default());
        }
        Err(SqlError::new(
            1223,
            format!(
                "Cannot release the application lock (Database Principal: 'public', Resource: '{resource}') because it \
                 is not currently held."
            ),
        ))
    }

    fn check_transaction_for(&self, owner: LockOwner) -> SqlResult<()> {
        if owner == LockOwner::Session || self.state.transaction_count > 0 {
            return Ok(());
        }
        Err(SqlError::new(
            15422,
            "Application locks can be acquired or released only inside a transaction when the lock owner is Transaction.",
        ))
    }
}

fn lock_owner(value: Option<&Value>) -> Option<LockOwner> {
    match value.and_then(Value::as_str).map(fold).as_deref() {
        None | Some("transaction") => Some(LockOwner::Transaction),
        Some("session") => Some(LockOwner::Session),
        Some(_) => None,
    }
}
