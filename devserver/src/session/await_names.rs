//! Waiting for the transactions of others that change what names mean; see `storage/changed_names.rs`.

use std::sync::Arc;

use crate::catalog::catalog::DBO;
use crate::error::SqlResult;
use crate::session::client_session::Session;
use crate::storage::{CatalogName, Latch, Looks, Transaction, fold};
use crate::tsql::ast::ObjectName;

impl Session {
    /// After lookups. True: it had to wait, and they must be done anew.
    ///
    /// # Errors
    ///
    /// As a wait for a lock can end: 1222, 1205, 3617, 596.
    pub(crate) fn waits_after(&self, looks: &Looks) -> SqlResult<bool> {
        let Some(name) = &looks.changed_by_other else { return Ok(false) };
        self.with_names(|latch, tx| latch.wait_for_name(tx, name))?;
        Ok(true)
    }

    /// What `find` finds of a name, when nobody else changes what it means.
    ///
    /// # Errors
    ///
    /// As [`Session::waits_after`].
    pub(crate) fn settled<T>(
        &self,
        name: &ObjectName,
        schema: &str,
        find: impl Fn(&Session) -> Option<T>,
    ) -> SqlResult<Option<T>> {
        loop {
            // Before the question whether anybody changes names: who begins afterwards comes later.
            let found = find(self);
            if !self.waits_for_object(name, schema)? {
                return Ok(found);
            }
        }
    }

    /// Waits for whoever changes one of the names that `name` may stand for; it is looked for in `schema` and dbo.
    /// True: it had to wait.
    ///
    /// # Errors
    ///
    /// As [`Session::waits_after`].
    fn waits_for_object(&self, name: &ObjectName, schema: &str) -> SqlResult<bool> {
        if !self.database.storage.has_changed_names() {
            return Ok(false);
        }
        let own = name.schema.as_deref().unwrap_or(schema);
        let schemas: &[&str] = if name.schema.is_some() || fold(own) == DBO { &[own] } else { &[own, DBO] };
        for schema in schemas {
            if self.waits_for(CatalogName::object(schema, &name.name))? {
                return Ok(true);
            }
            if self.database.catalog.read().object(schema, &name.name).is_some() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Waits for whoever changes what the name means. True: it had to wait.
    ///
    /// # Errors
    ///
    /// As [`Session::waits_after`].
    pub(crate) fn waits_for(&self, name: CatalogName) -> SqlResult<bool> {
        if !self.database.storage.has_changed_names() {
            return Ok(false);
        }
        let looks = {
            let latch = self.database.storage.latch();
            latch.look_at(self.state.spid, || name);
            latch.take_looks()
        };
        self.waits_after(&looks)
    }

    /// The latch and the transaction, for locks on names.
    pub(crate) fn with_names<T>(&self, f: impl FnOnce(&mut Latch<'_>, &Transaction) -> SqlResult<T>) -> SqlResult<T> {
        let database = Arc::clone(&self.database);
        let mut latch = database.storage.latch();
        match &self.tx {
            Some(tx) => f(&mut latch, tx),
            None => f(&mut latch, &self.new_transaction()),
        }
    }
}
