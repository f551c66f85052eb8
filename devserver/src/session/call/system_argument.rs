//! The arguments of system procedures, which have no declaration.

use crate::error::{SqlError, SqlResult};
use crate::session::call::argument::{Passed, PassedArgument};
use crate::storage::fold;
use crate::value::Value;

/// The value of a parameter, by name or by position; `None` if it was not passed.
pub(crate) fn argument<'a>(arguments: &'a [PassedArgument], position: usize, name: &str) -> Option<&'a Value> {
    let by_name =
        arguments.iter().find(|argument| argument.name.as_deref().is_some_and(|given| fold(given) == fold(name)));
    let found = by_name.or_else(|| arguments.get(position).filter(|argument| argument.name.is_none()))?;
    match &found.value {
        Passed::Value { value, .. } => Some(value),
        Passed::Table { .. } | Passed::UntypedTable { .. } | Passed::Default => None,
    }
}

pub(crate) fn text_argument(
    arguments: &[PassedArgument],
    position: usize,
    name: &str,
    procedure: &str,
) -> SqlResult<String> {
    match argument(arguments, position, name) {
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(Value::Null) => Ok(String::new()),
        Some(_) => {
            Err(SqlError::new(214, format!("Procedure expects parameter '{name}' of type 'ntext/nchar/nvarchar'."))
                .state(2))
        }
        None => Err(SqlError::new(
            201,
            format!("Procedure or function '{procedure}' expects parameter '{name}', which was not supplied."),
        )
        .state(4)),
    }
}

pub(crate) fn handle_argument(arguments: &[PassedArgument]) -> SqlResult<i32> {
    match argument(arguments, 0, "@handle").and_then(Value::as_i64).and_then(|handle| i32::try_from(handle).ok()) {
        Some(handle) => Ok(handle),
        None => Err(SqlError::new(214, "Procedure expects parameter '@handle' of type 'int'.").state(2)),
    }
}

pub(crate) fn first_text(arguments: &[PassedArgument], position: usize) -> Option<String> {
    match &arguments.get(position)?.value {
        Passed::Value { value: Value::String(text), .. } => Some(text.to_string()),
        _ => None,
    }
}
