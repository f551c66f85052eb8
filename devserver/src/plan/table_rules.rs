//! What a table does to its new rows, and to the rows of others by foreign keys.

use std::sync::Arc;

use crate::plan::scalar::{Condition, Scalar};
use crate::storage::{IndexId, TableSchema};

/// What a table does to each new row.
#[derive(Debug)]
pub struct TableRules {
    /// The slot in which the new row stands for checks.
    pub slot: usize,
    /// For each column its default, of the column's type.
    pub defaults: Vec<Option<Scalar>>,
    pub checks: Vec<(Arc<str>, Condition)>,
    /// The columns that get a value where the statement gives none: identity and defaults.
    pub filled: Vec<usize>,
    pub row_versions: Vec<usize>,
    /// The columns that do not take NULL.
    pub required: Vec<usize>,
}

/// What a statement has to look after in the table that it changes.
#[derive(Debug, Default)]
pub struct ForeignKeys {
    pub references: Vec<Reference>,
    pub referrers: Vec<Referrer>,
}

/// A foreign key of the table.
#[derive(Debug)]
pub struct Reference {
    pub name: Arc<str>,
    pub columns: Vec<usize>,
    pub partner: Lookup,
    pub same_table: bool,
}

/// A foreign key that refers to the table.
#[derive(Debug)]
pub struct Referrer {
    pub name: Arc<str>,
    /// The columns that are referred to.
    pub columns: Vec<usize>,
    /// The same columns once more: a key can be there again.
    pub partner: Lookup,
    pub rows: Lookup,
    pub same_table: bool,
    pub cascades_updates: bool,
    /// What the referring rows are subject to when they are deleted along.
    pub cascade: Option<Box<Cascade>>,
}

#[derive(Debug)]
pub struct Cascade {
    pub keys: ForeignKeys,
    /// The table has an enabled trigger for DELETE.
    pub has_trigger: bool,
}

/// How the rows of a table are found by some of its columns.
#[derive(Debug)]
pub struct Lookup {
    pub table: Arc<TableSchema>,
    pub columns: Vec<usize>,
    pub index: IndexId,
    /// The places in `columns` of the key columns that are sought.
    pub sought: Vec<usize>,
}

impl ForeignKeys {
    pub fn has_references(&self) -> bool {
        !self.references.is_empty()
    }

    pub fn has_referrers(&self) -> bool {
        !self.referrers.is_empty()
    }
}

impl Lookup {
    pub fn new(table: &Arc<TableSchema>, columns: Vec<usize>) -> Lookup {
        let mut best = (table.row_index(), Vec::new());
        for index in table.indexes.iter().filter(|index| index.filter.is_none()) {
            let mut sought = Vec::new();
            for key in &index.key {
                match columns.iter().position(|column| *column == key.column) {
                    Some(position) => sought.push(position),
                    None => break,
                }
            }
            if sought.len() > best.1.len() {
                best = (index.id, sought);
            }
        }
        let (index, sought) = best;
        Lookup { table: Arc::clone(table), columns, index, sought }
    }
}
