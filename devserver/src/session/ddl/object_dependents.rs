//! What depends on a function or sequence, and so forbids to drop it or to alter it; and objects of another kind than
//! the statement says.
//!
//! Source: "DROP FUNCTION" (MicrosoftDocs/sql-docs, docs/t-sql/statements/drop-function-transact-sql.md): it fails "if
//! there are computed columns, CHECK constraints, or DEFAULT constraints that reference the function". The errors are
//! those of docs/relational-databases/errors-events/database-engine-events-and-errors-2000-to-2999.md and
//! …-3000-to-3999.md.

use std::sync::Arc;

use crate::bind::name::display_name;
use crate::catalog::catalog::DBO;
use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::storage::{TableSchema, fold};
use crate::tsql::ast::{DropKind, ObjectName};
use crate::tsql::sequences;

impl Session {
    /// 3729 where a DEFAULT takes values of the sequence.
    pub(crate) fn check_no_default_takes(&self, name: &ObjectName, sequence: &Object) -> SqlResult<()> {
        let (schema, wanted) = (fold(sequence.schema()), fold(sequence.name()));
        let taker = self.first_referring(|table, text| {
            sequences(text).iter().any(|(named, sequence)| {
                let is_there = match named {
                    Some(named) => *named == schema,
                    None => schema == DBO || schema == fold(&table.schema),
                };
                is_there && *sequence == wanted
            })
        });
        taker.map_or(Ok(()), |taker| Err(referenced("DROP SEQUENCE", name, &taker)))
    }

    /// A constraint whose text refers to something, or the table of a computed column that does.
    fn first_referring(&self, refers: impl Fn(&TableSchema, &str) -> bool) -> Option<Arc<str>> {
        self.database.storage.latch().tables().iter().find_map(|table| {
            let checks = table.checks.iter().map(|check| (&check.name, &check.text));
            let defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
            let defaults = defaults.map(|default| (&default.name, &default.text));
            let computed = table.columns.iter().filter_map(|column| column.computed.as_ref());
            let computed = computed.map(|text| (&table.name, text));
            let mut all = checks.chain(defaults).chain(computed);
            all.find(|(_, text)| refers(table, text)).map(|(object, _)| Arc::clone(object))
        })
    }

    /// Whether a table or any object has the name.
    pub(crate) fn is_something(&self, name: &ObjectName) -> SqlResult<bool> {
        let is_object = self.with_binder(|binder| binder.find_object(name))?.is_some();
        Ok(is_object || self.lookup_table(name)?.is_some())
    }

    /// 3705 where the name is that of an object of another kind.
    pub(crate) fn check_no_other_kind(&self, kind: DropKind, name: &ObjectName, if_exists: bool) -> SqlResult<()> {
        let is_table = self.lookup_table(name)?.is_some();
        let found = self.with_binder(|binder| binder.find_object(name))?;
        let (is, usable) = match (&found, is_table) {
            (_, true) => ("table", true),
            (Some(Object::View(_)), _) => ("view", true),
            (Some(Object::Procedure(_)), _) => ("procedure", true),
            (Some(Object::Function(_)), _) => ("function", false),
            (Some(_), _) => ("object of another kind", false),
            (None, false) => return Ok(()),
        };
        let drop = match kind {
            DropKind::Table => "TABLE",
            DropKind::Procedure => "PROCEDURE",
            DropKind::View => "VIEW",
            DropKind::Function => "FUNCTION",
            _ => "",
        };
        let name = display_name(name);
        if if_exists || !usable || drop.is_empty() {
            return Err(SqlError::not_supported(format!("this DROP of '{name}', which is a {is}")));
        }
        let message =
            format!("Cannot use DROP {drop} with '{name}' because '{name}' is a {is}. Use DROP {}.", is.to_uppercase());
        Err(SqlError::new(3705, message))
    }
}

fn referenced(verb: &str, name: &ObjectName, by: &str) -> SqlError {
    let name = display_name(name);
    SqlError::new(3729, format!("Cannot {verb} '{name}' because it is being referenced by object '{by}'."))
}

/// 2010: ALTER of an object that is something else.
pub(crate) fn other_kind(name: &ObjectName) -> SqlError {
    let name = display_name(name);
    SqlError::new(2010, format!("Cannot perform alter on '{name}' because it is an incompatible object type."))
}
