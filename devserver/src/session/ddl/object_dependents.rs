//! Objects that a statement replaces, and those of another kind than it says.

use std::sync::Arc;

use crate::bind::name::{display_name, invalid_object};
use crate::catalog::catalog::DBO;
use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::storage::fold;
use crate::tsql::ast::{Creation, ObjectName};
use crate::tsql::sequences;

impl Session {
    /// 3729 where a DEFAULT takes values of the sequence.
    pub(crate) fn check_no_default_takes(&self, name: &ObjectName, sequence: &Object) -> SqlResult<()> {
        let (schema, wanted) = (fold(sequence.schema()), fold(sequence.name()));
        for table in self.database.storage.latch().tables() {
            let mut defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
            let taker = defaults.find(|default| {
                sequences(&default.text).iter().any(|(named, sequence)| {
                    let is_there = match named {
                        Some(named) => *named == schema,
                        None => schema == DBO || schema == fold(&table.schema),
                    };
                    is_there && *sequence == wanted
                })
            });
            if let Some(taker) = taker {
                let (name, by) = (display_name(name), &taker.name);
                let message = format!("Cannot DROP SEQUENCE '{name}' because it is being referenced by object '{by}'.");
                return Err(SqlError::new(3729, message));
            }
        }
        Ok(())
    }

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
