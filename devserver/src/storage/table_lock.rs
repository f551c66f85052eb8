//! Locks on whole tables, asked for or escalated to.

use std::sync::Arc;

use super::database::Latch;
use super::locks::mode::LockMode;
use super::locks::resource::{LockOwner, ObjectId, Resource};
use super::locks::wait::Answer;
use super::own_tables::is_own;
use super::schema::TableSchema;
use super::transaction::Transaction;
use crate::error::{STALE_PLAN, SqlError, SqlResult};
use crate::tsql::ast::LockEscalation;

/// SQL Server tries to escalate when one statement has taken this many locks on one index, and again after every
/// [`ESCALATION_RETRY`] more. Source: the locking guide, "Lock escalation".
const ESCALATION_THRESHOLD: u32 = 5_000;
const ESCALATION_RETRY: u32 = 1_250;

impl Latch<'_> {
    /// Locks a table; temporary tables and table variables need no locks. `hold`: until the transaction ends. IX and
    /// everything stronger is always held.
    ///
    /// # Errors
    ///
    /// 1222 (lock timeout), 1205 (deadlock victim), 3617 (cancelled), 596 (killed).
    pub fn lock_table(&mut self, tx: &mut Transaction, table: ObjectId, mode: LockMode, hold: bool) -> SqlResult<()> {
        if is_own(table) {
            return Ok(());
        }
        let lifetime = self.state().tables.get(&table).map(|table| table.schema.lifetime);
        if lifetime.is_some_and(|lifetime| !lifetime.is_shared()) {
            return Ok(());
        }
        if mode == LockMode::IntentExclusive && tx.intent_tables.contains(&table) {
            return Ok(());
        }
        let resource = Resource::Table(table);
        self.acquire(tx, LockOwner::Transaction, resource, mode, tx.lock_timeout)?;
        tx.locks_whole_tables |=
            !matches!(mode, LockMode::SchemaStability | LockMode::IntentShared | LockMode::IntentExclusive);
        if mode.covers(LockMode::IntentExclusive) {
            tx.intent_tables.push(table);
        } else if !hold {
            tx.short_locks.push(resource);
        }
        Ok(())
    }

    /// Locks a table for a statement that writes to it, and looks whether it still is what the statement was bound to:
    /// which columns are kept and which constraints it has is part of the plan.
    ///
    /// # Errors
    ///
    /// [`STALE_PLAN`], and as [`Latch::lock_table`].
    pub fn lock_as_planned(
        &mut self,
        tx: &mut Transaction,
        planned: &Arc<TableSchema>,
        mode: LockMode,
    ) -> SqlResult<()> {
        self.lock_table(tx, planned.id, mode, true)?;
        match self.schema(planned.id) {
            Some(schema) if Arc::ptr_eq(schema, planned) => Ok(()),
            _ => Err(SqlError::new(STALE_PLAN, "a table was changed after the statement's plan was made")),
        }
    }

    /// Whether the transaction's lock on the whole table makes key locks of this mode needless.
    pub(super) fn table_lock_covers(&self, tx: &Transaction, table: ObjectId, mode: LockMode) -> bool {
        if !tx.locks_whole_tables {
            return false;
        }
        let held = self.state_ref().locks.held_mode(tx.slot, LockOwner::Transaction, Resource::Table(table));
        match held {
            Some(LockMode::Exclusive | LockMode::SchemaModification) => true,
            Some(LockMode::Shared | LockMode::Update | LockMode::SharedIntentExclusive) => mode == LockMode::Shared,
            _ => false,
        }
    }

    /// Counts a key lock that is kept, and escalates to a table lock when the statement has too many in one index.
    pub(super) fn count_key_lock(&mut self, tx: &mut Transaction, resource: Resource) {
        let Resource::Key { object, index, .. } = resource else {
            return;
        };
        let position = tx.key_locks.iter().position(|(table, id, _)| *table == object && *id == index);
        let position = position.unwrap_or_else(|| {
            tx.key_locks.push((object, index, 0));
            tx.key_locks.len() - 1
        });
        let count = &mut tx.key_locks[position].2;
        *count += 1;
        let is_due = *count >= ESCALATION_THRESHOLD && (*count - ESCALATION_THRESHOLD).is_multiple_of(ESCALATION_RETRY);
        if is_due {
            self.escalate(tx, object);
        }
    }

    /// Tries to replace the key locks of a table by one lock on the table. If others stand against it, all stays as it
    /// is.
    fn escalate(&mut self, tx: &mut Transaction, table: ObjectId) {
        let escalation = self.state().tables.get(&table).map(|table| table.schema.lock_escalation);
        if escalation.is_none_or(|escalation| escalation == LockEscalation::Disable) {
            return;
        }
        let resource = Resource::Table(table);
        let intent = self.state().locks.held_mode(tx.slot, LockOwner::Transaction, resource);
        let mode = if intent == Some(LockMode::IntentShared) { LockMode::Shared } else { LockMode::Exclusive };
        let answer = self.state().locks.request(tx.slot, LockOwner::Transaction, resource, mode);
        if answer == Answer::Blocked {
            return;
        }
        self.state().locks.release_keys(tx.slot, table);
        tx.locks_whole_tables = true;
        tx.escalations += 1;
    }
}
