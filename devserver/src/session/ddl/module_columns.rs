//! The columns of a view or function: each has a name of its own.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::plan::query::{ColumnOrigin, OutputColumn};
use crate::storage::{Column, Identity, fold};
use crate::tsql::ast::Ident;
use crate::value::Value;

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

/// The columns as the catalog shows them, by the names of a list if there is one.
pub(crate) fn described(list: &[Ident], columns: &[OutputColumn]) -> Arc<[Column]> {
    let described = columns.iter().enumerate().map(|(ordinal, column)| Column {
        name: Arc::clone(list.get(ordinal).unwrap_or(&column.name)),
        sql_type: column.ty,
        nullable: column.shown_nullable,
        collation: column.collation,
        // Whether it is one: start and step are the table's (sys.identity_columns).
        identity: (column.origin == ColumnOrigin::Identity).then_some(Identity { seed: 0, increment: 0 }),
        default: None,
        computed: None,
        value_when_absent: Value::Null,
    });
    described.collect()
}
