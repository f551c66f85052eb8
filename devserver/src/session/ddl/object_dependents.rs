//! Objects of another kind than the statement says.

use crate::bind::name::display_name;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::ObjectName;

impl Session {
    /// Refuses a statement where the name is that of a table or object of another kind.
    pub(crate) fn check_no_other_kind(&self, verb: &str, name: &ObjectName) -> SqlResult<()> {
        let is_object = self.with_binder(|binder| binder.find_object(name))?.is_some();
        if is_object || self.lookup_table(name)?.is_some() {
            return Err(other_kind(verb, name));
        }
        Ok(())
    }
}

pub(crate) fn other_kind(verb: &str, name: &ObjectName) -> SqlError {
    SqlError::not_supported(format!("this {verb} of '{}', which is an object of another kind", display_name(name)))
}
