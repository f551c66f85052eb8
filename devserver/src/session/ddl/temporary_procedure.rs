//! Temporary procedures: `#p` for its session, `##p` for all sessions in the database where it was made.
//!
//! Source: "CREATE PROCEDURE", arguments (MicrosoftDocs/sql-docs,
//! docs/t-sql/statements/create-procedure-transact-sql.md): a local one goes with the connection that made it; a global
//! one too, but those who run it then may finish.

use std::sync::Arc;

use crate::catalog::catalog::{DBO, already_there, temporary_schema};
use crate::catalog::object::{Object, Procedure};
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::storage::fold;
use crate::tsql::ast::ObjectName;

impl Session {
    /// Whether a procedure of the name may be made.
    pub(crate) fn check_temporary_procedure(&self, name: &str) -> SqlResult<()> {
        if fold(&self.state.default_schema) != DBO {
            return Err(SqlError::not_supported("temporary procedures of a user with another default schema than dbo"));
        }
        if name.starts_with("##") {
            self.database.check_global_name(name)?;
            if self.database.storage.latch().find_table(DBO, name).is_some() {
                return Err(already_there(name));
            }
        }
        Ok(())
    }

    pub(crate) fn find_temporary_procedure(&self, name: &ObjectName) -> SqlResult<Option<Arc<Procedure>>> {
        Ok(match self.with_binder(|binder| binder.find_object(name))? {
            Some(Object::Procedure(procedure)) => Some(procedure),
            _ => None,
        })
    }

    pub(crate) fn keep_temporary_procedure(&mut self, procedure: Procedure) -> SqlResult<()> {
        let (name, id) = (Arc::clone(&procedure.name), procedure.id);
        let is_global = name.starts_with("##");
        let database = Arc::clone(&self.database);
        if is_global && !database.server.global_names.add(&name, database.id, id) {
            return database.check_global_name(&name);
        }
        let is_new = database.catalog.read().procedure(&procedure.schema, &name).is_none();
        let undo = database.catalog.write().put_object(Object::Procedure(Arc::new(procedure)));
        if is_global && is_new {
            self.global_procedures.push((Arc::clone(&name), id));
        }
        self.keep_undo(Box::new(move |catalog| {
            undo(catalog);
            if is_global && is_new {
                database.server.global_names.remove(&name, id);
            }
        }));
        Ok(())
    }

    pub(crate) fn drop_temporary_procedure(&mut self, object: &Object) {
        let Some(undo) = self.database.catalog.write().remove_object(object.schema(), object.name()) else { return };
        let (name, id) = (Arc::clone(object.name()), object.id());
        let database = Arc::clone(&self.database);
        let is_global = name.starts_with("##");
        database.server.global_names.remove(&name, id);
        self.keep_undo(Box::new(move |catalog| {
            undo(catalog);
            if is_global {
                database.server.global_names.add(&name, database.id, id);
            }
        }));
    }

    /// Those that the session has made.
    fn temporary_procedures(&self) -> Vec<Arc<Procedure>> {
        let catalog = self.database.catalog.read();
        let mut found = catalog.temporary_procedures(self.state.spid);
        for (name, id) in &self.global_procedures {
            let schema = temporary_schema(name, self.state.spid).expect("its name begins with ##");
            found.extend(catalog.procedure(&schema, name).filter(|procedure| procedure.id == *id).cloned());
        }
        found
    }

    pub(crate) fn has_temporary_procedures(&self) -> bool {
        !self.temporary_procedures().is_empty()
    }

    /// The session ends. Who runs one of them can finish it.
    pub(crate) fn drop_temporary_procedures(&mut self) {
        let found = self.temporary_procedures();
        self.global_procedures.clear();
        if found.is_empty() {
            return;
        }
        let mut catalog = self.database.catalog.write();
        for procedure in &found {
            catalog.remove_object(&procedure.schema, &procedure.name);
            self.database.server.global_names.remove(&procedure.name, procedure.id);
        }
    }
}
