//! The errors for what is not there, or not to be seen by the user.

use crate::bind::name::display_name;
use crate::error::SqlError;
use crate::tsql::ast::ObjectName;

/// "Cannot … because it does not exist or you do not have permission."
pub(crate) fn cannot_find(what: &str, name: &ObjectName) -> SqlError {
    let severity = if what.starts_with("drop") { 11 } else { 16 };
    let number = match what {
        "find the object" => 1088,
        "truncate the table" => 4701,
        _ => 3701,
    };
    let message = match number {
        1088 => format!(
            "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
            display_name(name)
        ),
        4701 => format!(
            "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
            display_name(name)
        ),
        _ => {
            format!("Cannot {what} '{}', because it does not exist or you do not have permission.", display_name(name))
        }
    };
    SqlError::new(number, message).severity(severity).state(5)
}

pub(crate) fn cannot_find_principal(name: &str) -> SqlError {
    SqlError::new(
        15151,
        format!("Cannot find the principal '{name}', because it does not exist or you do not have permission."),
    )
}
