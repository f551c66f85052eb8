//! Objects of another kind than the statement says. The errors are those of (MicrosoftDocs/sql-docs)
//! docs/relational-databases/errors-events/database-engine-events-and-errors-2000-to-2999.md and …-3000-to-3999.md.

use crate::bind::name::display_name;
use crate::catalog::object::Object;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::{DropKind, ObjectName};

impl Session {
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

/// 2010: ALTER of an object that is something else.
pub(crate) fn other_kind(name: &ObjectName) -> SqlError {
    let name = display_name(name);
    SqlError::new(2010, format!("Cannot perform alter on '{name}' because it is an incompatible object type."))
}
