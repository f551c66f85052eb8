//! The columns of a view or function: each has a name of its own.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::plan::query::OutputColumn;
use crate::storage::fold;
use crate::tsql::ast::Ident;

pub(crate) fn check_module_columns(
    module: &str,
    columns: &[OutputColumn],
    nameless: impl FnOnce(usize) -> SqlError,
) -> SqlResult<()> {
    if let Some(position) = columns.iter().position(|column| column.name.is_empty()) {
        return Err(nameless(position + 1));
    }
    let names: Vec<Ident> = columns.iter().map(|column| Arc::clone(&column.name)).collect();
    check_different(module, &names)
}

pub(crate) fn check_different(module: &str, names: &[Ident]) -> SqlResult<()> {
    for (position, name) in names.iter().enumerate() {
        if names[..position].iter().any(|other| fold(other) == fold(name)) {
            return Err(SqlError::new(
                4506,
                format!(
                    "Column names in each view or function must be unique. Column name '{name}' in view or function \
                     '{module}' is specified more than once."
                ),
            ));
        }
    }
    Ok(())
}
