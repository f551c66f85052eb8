//! The errors for what is not there, or not to be seen by the user.

use crate::bind::name::display_name;
use crate::error::SqlError;
use crate::tsql::ast::ObjectName;

/// 3701: "Cannot … because it does not exist or you do not have permission."
pub(crate) fn cannot_find(what: &str, name: &ObjectName) -> SqlError {
    let severity = if what.starts_with("drop") { 11 } else { 16 };
    let message =
        format!("Cannot {what} '{}', because it does not exist or you do not have permission.", display_name(name));
    SqlError::new(3701, message).severity(severity).state(5)
}

/// 1088 or 4902, of a table.
pub(crate) fn cannot_find_object(number: i32, name: &ObjectName) -> SqlError {
    let name = display_name(name);
    let message =
        format!("Cannot find the object \"{name}\" because it does not exist or you do not have permissions.");
    SqlError::new(number, message)
}

/// 15151, of what has a name without a schema.
pub(crate) fn cannot(what: &str, name: &str) -> SqlError {
    SqlError::new(15151, format!("Cannot {what} '{name}', because it does not exist or you do not have permission."))
}
