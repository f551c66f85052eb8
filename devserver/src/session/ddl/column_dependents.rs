//! What depends on a column, and so forbids to drop or change it.

use std::sync::Arc;

use crate::error::SqlError;
use crate::storage::{Index, TableSchema};
use crate::tsql::mentions;

/// What depends on a column: the word for its kind in a message, and its name.
pub(crate) type Dependent = (&'static str, Arc<str>);

/// The indexes that hold a column or ask for it in their filter.
pub(crate) fn uses_of(schema: &TableSchema, column: usize) -> impl Iterator<Item = &Index> {
    schema.indexes.iter().filter(move |index| {
        let mut filtered = index.filter.iter().flat_map(|filter| &filter.terms);
        index.contains(column) || filtered.any(|term| term.column() == column)
    })
}

pub(crate) fn default_of(schema: &TableSchema, column: usize) -> impl Iterator<Item = Dependent> {
    schema.columns[column].default.iter().map(|default| ("object", Arc::clone(&default.name)))
}

/// A constraint is an object; an index is none.
pub(crate) fn dependent_index(index: &Index) -> Dependent {
    (if index.is_constraint() { "object" } else { "index" }, Arc::clone(&index.name))
}

/// The statistics, foreign keys, CHECKs and computed columns that name the column.
pub(crate) fn mentions_of(schema: &TableSchema, column: usize) -> Vec<Dependent> {
    let name = &schema.columns[column].name;
    let keys = schema.foreign_keys.iter().filter(|key| key.columns.contains(name)).map(|key| ("object", &key.name));
    let checks = schema.checks.iter().filter(|check| mentions(&check.text, name)).map(|check| ("object", &check.name));
    let computed =
        schema.columns.iter().filter(|other| other.computed.as_ref().is_some_and(|text| mentions(text, name)));
    let computed = computed.map(|column| ("column", &column.name));
    let statistics = schema.statistics.iter().filter(|statistics| statistics.column == *name);
    let statistics = statistics.map(|statistics| ("statistics", &statistics.name));
    statistics.chain(keys).chain(checks).chain(computed).map(|(kind, name)| (kind, Arc::clone(name))).collect()
}

/// 4922, after a 5074 for everything that depends on the column.
pub(crate) fn in_use(what: &str, name: &str, dependents: Vec<Dependent>) -> SqlError {
    SqlError::new(4922, format!("ALTER TABLE {what} {name} failed because one or more objects access this column."))
        .state(9)
        .because(dependents.into_iter().map(|(kind, dependent)| {
            SqlError::new(5074, format!("The {kind} '{dependent}' is dependent on column '{name}'."))
        }))
}
