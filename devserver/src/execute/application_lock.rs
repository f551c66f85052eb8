//! Application locks: the owners and modes that their functions and procedures name.

use crate::error::{SqlError, SqlResult};
use crate::execute::session_state::SessionState;
use crate::storage::{LockMode, LockOwner, fold};
use crate::value::Value;

/// The owner that APPLOCK_MODE and APPLOCK_TEST ask about.
///
/// Source: "APPLOCK_TEST" (MicrosoftDocs/sql-docs, docs/t-sql/functions/applock-test-transact-sql.md): with the owner
/// Transaction it "must be executed from within a transaction"; what comes outside of one it does not say.
pub fn application_lock_owner(principal: &Value, owner: &Value, state: &SessionState) -> SqlResult<LockOwner> {
    if principal.as_str().is_none_or(|principal| fold(principal) != "public") {
        return Err(SqlError::not_supported("application locks of another database principal than public"));
    }
    match owner.as_str().map(fold).as_deref() {
        Some("session") => Ok(LockOwner::Session),
        Some("transaction") if state.transaction_count > 0 => Ok(LockOwner::Transaction),
        Some("transaction") => {
            Err(SqlError::not_supported("APPLOCK_MODE and APPLOCK_TEST of the owner Transaction outside a transaction"))
        }
        _ => Err(SqlError::not_supported("a lock owner that is neither 'Transaction' nor 'Session'")),
    }
}

/// A mode that sp_getapplock can take.
pub fn application_mode(name: &str) -> Option<LockMode> {
    Some(match fold(name).as_str() {
        "shared" => LockMode::Shared,
        "update" => LockMode::Update,
        "intentshared" => LockMode::IntentShared,
        "intentexclusive" => LockMode::IntentExclusive,
        "exclusive" => LockMode::Exclusive,
        _ => return None,
    })
}

pub fn application_mode_name(mode: LockMode) -> &'static str {
    match mode {
        LockMode::IntentShared => "IntentShared",
        LockMode::Shared => "Shared",
        LockMode::Update => "Update",
        LockMode::IntentExclusive => "IntentExclusive",
        LockMode::SharedIntentExclusive => "SharedIntentExclusive",
        LockMode::UpdateIntentExclusive => "UpdateIntentExclusive",
        LockMode::Exclusive => "Exclusive",
        // No application lock can have them.
        _ => "NoLock",
    }
}
