//! Names that an open transaction gives another meaning: it has created, changed, dropped or renamed what is called so.
//!
//! Its Sch-M lock on the name stands until it ends. Whoever looks such a name up waits, because a rollback may give the
//! old meaning back. A lookup under the latch cannot wait at once: it is noted ([`Latch::look_at`]), and whoever looked
//! up throws away what came of it, waits ([`Latch::wait_for_name`]), and looks again.
//!
//! Source: "Transaction locking and row versioning guide", schema locks (MicrosoftDocs/sql-docs,
//! docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md): "The Database Engine uses
//! schema modification (Sch-M) locks during a table data definition language (DDL) operation", "uses schema stability
//! (Sch-S) locks when compiling and executing queries".

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::catalog_name::{CatalogName, ChangedName, Looks};
use super::database::{Database, Latch};
use super::locks::mode::LockMode;
use super::locks::resource::{LockOwner, ObjectId};
use super::schema::TableSchema;
use super::transaction::Transaction;
use crate::error::SqlResult;

impl Database {
    /// Whether any open transaction changes names; without the latch.
    pub fn has_changed_names(&self) -> bool {
        self.changed_names.load(Ordering::Acquire) > 0
    }
}

impl Latch<'_> {
    /// Locks a name until the transaction ends, for a change of what it means.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn lock_name(&mut self, tx: &Transaction, name: CatalogName) -> SqlResult<()> {
        if let Some(changed) = self.own_changed_name(tx, &name) {
            changed.before = None;
            return Ok(());
        }
        self.add_changed_name(tx, name, |_| None)
    }

    /// Locks the name of a table that gets a further index. Others may read the table, and do not see the index before
    /// the transaction has been committed: "The target index is not searched while processing SELECT statements until
    /// the index operation is committed" ("How online index operations work", MicrosoftDocs/sql-docs,
    /// docs/relational-databases/indexes/how-online-index-operations-work.md).
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn lock_name_for_index(&mut self, tx: &Transaction, name: CatalogName, table: ObjectId) -> SqlResult<()> {
        if self.own_changed_name(tx, &name).is_some() {
            return Ok(());
        }
        self.add_changed_name(tx, name, |latch| latch.schema(table).cloned())
    }

    fn own_changed_name(&mut self, tx: &Transaction, name: &CatalogName) -> Option<&mut ChangedName> {
        let spid = tx.session.spid();
        self.state().changed_names.iter_mut().find(|changed| changed.spid == spid && changed.name == *name)
    }

    fn add_changed_name(
        &mut self,
        tx: &Transaction,
        name: CatalogName,
        before: impl FnOnce(&Self) -> Option<Arc<TableSchema>>,
    ) -> SqlResult<()> {
        let mode = LockMode::SchemaModification;
        self.acquire(tx, LockOwner::Transaction, name.resource(), mode, tx.lock_timeout)?;
        let before = before(self);
        self.state().changed_names.push(ChangedName { spid: tx.session.spid(), name, before });
        self.count_changed_names();
        Ok(())
    }

    /// The definition of a table as a session sees it: without the indexes that others are about to create.
    pub fn schema_seen_by(&self, spid: i32, table: ObjectId) -> Option<&Arc<TableSchema>> {
        let others = self.state_ref().changed_names.iter().filter(|changed| changed.spid != spid);
        let before = others.filter_map(|changed| changed.before.as_ref()).find(|before| before.id == table);
        before.or_else(|| self.schema(table))
    }

    /// How many names the transaction has locked.
    pub fn locked_names(&self, tx: &Transaction) -> usize {
        self.state_ref().changed_names.iter().filter(|changed| changed.spid == tx.session.spid()).count()
    }

    /// Gives up all locks on names but the first `keep`: nothing that they mean has changed after all.
    pub fn unlock_names(&mut self, tx: &Transaction, keep: usize) {
        let mut place = 0;
        let mut unlocked = Vec::new();
        self.state().changed_names.retain(|changed| {
            let is_own = changed.spid == tx.session.spid();
            place += usize::from(is_own);
            let stays = !is_own || place <= keep;
            if !stays {
                unlocked.push(changed.name.resource());
            }
            stays
        });
        for resource in unlocked {
            self.state().locks.release(tx.slot, LockOwner::Transaction, resource);
        }
        self.count_changed_names();
    }

    /// The transaction ends, and gives its locks up.
    pub(super) fn forget_changed_names(&mut self, tx: &Transaction) {
        if !self.state().changed_names.is_empty() {
            self.state().changed_names.retain(|changed| changed.spid != tx.session.spid());
            self.count_changed_names();
        }
    }

    fn count_changed_names(&mut self) {
        let count = self.state().changed_names.len();
        self.database().changed_names.store(count, Ordering::Release);
    }

    /// Whether any open transaction changes names.
    pub fn has_changed_names(&self) -> bool {
        !self.state_ref().changed_names.is_empty()
    }

    /// Notes that a session has looked a name up.
    pub fn look_at(&self, spid: i32, name: impl FnOnce() -> CatalogName) {
        let changed = &self.state_ref().changed_names;
        if changed.is_empty() {
            return;
        }
        let name = name();
        let Some(changed) = changed.iter().find(|changed| changed.name == name) else { return };
        let mut looks = self.looks.borrow_mut();
        if changed.spid == spid {
            looks.saw_own_change = true;
        } else if changed.before.is_none() {
            looks.changed_by_other.get_or_insert(name);
        }
    }

    /// What the lookups since the last call have met.
    pub fn take_looks(&self) -> Looks {
        self.looks.take()
    }

    /// Whether what came of the lookups may be given to other sessions.
    pub fn looks_are_common(&self) -> bool {
        self.looks.borrow().is_common()
    }

    /// Adds to what later lookups will meet.
    pub fn put_looks(&self, looks: Looks) {
        self.looks.replace(looks);
    }

    /// Waits until nobody else's transaction changes the name. False if none does.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn wait_for_name(&mut self, tx: &Transaction, name: &CatalogName) -> SqlResult<bool> {
        let spid = tx.session.spid();
        let mut waited = false;
        while self.state().changed_names.iter().any(|changed| changed.spid != spid && changed.name == *name) {
            let resource = name.resource();
            self.acquire(tx, LockOwner::Transaction, resource, LockMode::SchemaStability, tx.lock_timeout)?;
            self.state().locks.release(tx.slot, LockOwner::Transaction, resource);
            waited = true;
        }
        Ok(waited)
    }

    /// Waits until nobody else's transaction changes any of these names.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn wait_for_names(&mut self, tx: &Transaction, these: impl Fn(&CatalogName) -> bool) -> SqlResult<()> {
        let spid = tx.session.spid();
        loop {
            let mut changed = self.state().changed_names.iter().filter(|changed| changed.spid != spid);
            let first = changed.find(|changed| changed.name.is_looked_up() && these(&changed.name));
            let Some(name) = first.map(|changed| changed.name.clone()) else { return Ok(()) };
            self.wait_for_name(tx, &name)?;
        }
    }
}
