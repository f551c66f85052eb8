//! What the names in a DDL statement mean, and which names and numbers are free.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::name::in_another_database;
use crate::catalog::catalog::already_there;
use crate::error::{SqlError, SqlResult};
use crate::plan::declarations::Declarations;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find_object;
use crate::storage::{ObjectId, TableSchema, fold};
use crate::tsql::ast::ObjectName;

impl Session {
    /// Binds something outside of a plan; again if it had to wait for a transaction that changes what a name means.
    pub(crate) fn with_binder<T>(&self, mut f: impl FnMut(&mut Binder<'_>) -> SqlResult<T>) -> SqlResult<T> {
        let declarations = Declarations::default();
        loop {
            let (bound, looks) = {
                let latch = self.database.storage.latch();
                let bound = f(&mut Binder::new(&self.database, &latch, &self.state, &declarations));
                (bound, latch.take_looks())
            };
            if !self.waits_after(&looks)? {
                return bound;
            }
        }
    }

    pub(crate) fn new_object_id(&self) -> ObjectId {
        self.database.storage.latch().new_object_id()
    }

    /// The schema an object is created in: it must be there, and the user may change it.
    pub(crate) fn schema_for(&self, name: &ObjectName) -> SqlResult<Arc<str>> {
        if name.server.is_some() || name.database.as_ref().is_some_and(|name| fold(name) != fold(&self.database.name)) {
            let product = self.engine.product();
            return Err(match product.is_azure() {
                true => in_another_database(name, product),
                false => SqlError::not_supported("creating objects in another database"),
            });
        }
        let schema = name.schema.clone().unwrap_or_else(|| Arc::clone(&self.state.default_schema));
        self.check_alter_schema(&schema)?;
        // The name as the schema was created with.
        let catalog = self.database.catalog.read();
        Ok(catalog.schema(&schema).map_or(schema, |entry| Arc::clone(&entry.name)))
    }

    /// 2714 if a table, procedure, view or sequence of the name is there.
    pub(crate) fn check_free(&self, schema: &str, name: &str) -> SqlResult<()> {
        let is_table = self.database.storage.latch().find_table(schema, name).is_some();
        if is_table || self.database.catalog.read().object(schema, name).is_some() {
            return Err(already_there(name));
        }
        Ok(())
    }

    /// A permanent or temporary table by name; 4902-like errors are the caller's.
    pub(crate) fn lookup_table(&self, name: &ObjectName) -> SqlResult<Option<ObjectId>> {
        self.with_binder(|binder| binder.find_table(name))
    }

    pub(crate) fn find_stored_table(&self, name: &ObjectName) -> SqlResult<ObjectId> {
        match self.lookup_table(name)? {
            Some(id) => Ok(id),
            None => Err(cannot_find_object(1088, name).state(5)),
        }
    }

    pub(crate) fn stored_schema(&self, table: ObjectId) -> SqlResult<Arc<TableSchema>> {
        let latch = self.database.storage.latch();
        latch.schema(table).cloned().ok_or_else(|| SqlError::new(208, "Invalid object name."))
    }
}
