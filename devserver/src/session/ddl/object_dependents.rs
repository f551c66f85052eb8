//! Objects that a statement replaces, and those of another kind than it says.

use std::sync::Arc;

use crate::bind::name::{display_name, invalid_object};
use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::{Creation, ObjectName};

impl Session {
    /// What a CREATE or ALTER puts a new module in the place of; `None` for a new name, which is free. `of_kind`: the
    /// object, if it is of the statement's kind.
    pub(crate) fn replaced<T>(
        &self,
        schema: &str,
        name: &ObjectName,
        creation: Creation,
        of_kind: impl FnOnce(&Object) -> Option<Arc<T>>,
    ) -> SqlResult<Option<Arc<T>>> {
        let existing = self.database.catalog.read().object(schema, &name.name).cloned();
        match (existing.as_ref().and_then(of_kind), creation) {
            (Some(replaced), Creation::Alter | Creation::CreateOrAlter) => Ok(Some(replaced)),
            (None, Creation::Alter) => {
                self.check_no_other_kind("ALTER", name)?;
                Err(invalid_object(name))
            }
            (_, Creation::Create | Creation::CreateOrAlter) => self.check_free(schema, &name.name).map(|()| None),
        }
    }

    /// Refuses a statement where the name is that of a table or object of another kind.
    pub(crate) fn check_no_other_kind(&self, verb: &str, name: &ObjectName) -> SqlResult<()> {
        let is_object = self.with_binder(|binder| binder.find_object(name))?.is_some();
        if is_object || self.lookup_table(name)?.is_some() {
            let what = format!("this {verb} of '{}', which is an object of another kind", display_name(name));
            return Err(SqlError::not_supported(what));
        }
        Ok(())
    }
}
