//! The constraints of a table as objects with numbers and names.

use std::sync::Arc;

use crate::storage::{ObjectId, TableSchema, Uniqueness, fold};

/// Constraints have numbers of their own, made from their table's: each table has room for a thousand.
const CONSTRAINT_BASE: ObjectId = 1_000_000_000;

pub struct Constraint<'t> {
    pub id: ObjectId,
    pub name: &'t Arc<str>,
    pub code: &'static str,
    pub description: &'static str,
}

pub fn constraints(table: &TableSchema) -> Vec<Constraint<'_>> {
    let mut found: Vec<(&Arc<str>, &'static str, &'static str)> = Vec::new();
    for index in &table.indexes {
        match index.uniqueness {
            Uniqueness::PrimaryKey => found.push((&index.name, "PK", "PRIMARY_KEY_CONSTRAINT")),
            Uniqueness::UniqueConstraint => found.push((&index.name, "UQ", "UNIQUE_CONSTRAINT")),
            Uniqueness::Index | Uniqueness::None => {}
        }
    }
    for column in &table.columns {
        if let Some(default) = &column.default {
            found.push((&default.name, "D ", "DEFAULT_CONSTRAINT"));
        }
    }
    for check in &table.checks {
        found.push((&check.name, "C ", "CHECK_CONSTRAINT"));
    }
    for key in &table.foreign_keys {
        found.push((&key.name, "F ", "FOREIGN_KEY_CONSTRAINT"));
    }
    let first = CONSTRAINT_BASE.wrapping_add(table.id.wrapping_mul(1000));
    let numbered = found.into_iter().enumerate();
    numbered
        .map(|(position, (name, code, description))| Constraint {
            id: first.wrapping_add(position as ObjectId),
            name,
            code,
            description,
        })
        .collect()
}

/// The names of a table's constraints.
pub fn constraint_names(table: &TableSchema) -> Vec<Arc<str>> {
    constraints(table).into_iter().map(|constraint| Arc::clone(constraint.name)).collect()
}

/// The number of a constraint by name.
pub fn constraint_id(table: &TableSchema, name: &str) -> Option<ObjectId> {
    constraints(table).into_iter().find(|constraint| fold(constraint.name) == fold(name)).map(|found| found.id)
}
