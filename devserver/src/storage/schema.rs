//! What a table looks like: columns, indexes, filters, options. Immutable once built (`Arc<TableSchema>`); DDL puts a
//! new one in its place, so that a running statement can go on reading with the one it has.

use std::cmp::Ordering;
use std::sync::Arc;

use super::locks::resource::{IndexId, ObjectId};
use crate::error::{SqlError, SqlResult};
use crate::tsql::ast::{CompareOp, Identity, LockEscalation};
use crate::value::{Collation, SqlType, Value, compare};

/// The "index" of a table without clustered index.
pub const HEAP: IndexId = 0;

/// The clustered index.
pub const CLUSTERED: IndexId = 1;

/// The first number a non-clustered index can have.
pub const FIRST_NONCLUSTERED: IndexId = 2;

/// How long a table lives, and with that whether it is named, locked and rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Named, locked, transactional.
    Permanent,
    /// `#temp`: transactional; seen by one session only, therefore never locked; found by its id only.
    Temporary,
    /// `@variable` and table-valued parameters: neither locked nor touched by ROLLBACK; a failed statement still takes
    /// its own changes back.
    Variable,
}

impl Lifetime {
    /// Other sessions see the table: it has a name, and locks.
    #[inline]
    pub fn is_shared(self) -> bool {
        self == Lifetime::Permanent
    }
}

/// A named piece of T-SQL that the executor parses again: a default, a CHECK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedText {
    pub name: Arc<str>,
    pub text: Arc<str>,
}

/// A CHECK constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: Arc<str>,
    pub text: Arc<str>,
    /// Rows came in that nobody has looked at.
    pub not_trusted: bool,
}

/// A FOREIGN KEY constraint; the executor enforces it. Columns are named, so that others can come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    pub name: Arc<str>,
    pub columns: Vec<Arc<str>>,
    /// `None`: the table itself.
    pub referenced: Option<ObjectId>,
    /// In the order of `columns`.
    pub referenced_columns: Vec<Arc<str>>,
    /// Whoever deletes a row deletes the rows that refer to it.
    pub cascades: bool,
    /// Whoever changes a key changes the rows that refer to it.
    pub cascades_updates: bool,
    /// Rows came in that nobody has looked at.
    pub not_trusted: bool,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: Arc<str>,
    pub sql_type: SqlType,
    pub nullable: bool,
    /// NULL takes no room in SQL Server.
    pub is_sparse: bool,
    pub collation: Collation,
    pub identity: Option<Identity>,
    /// The DEFAULT constraint; evaluated by the executor.
    pub default: Option<NamedText>,
    /// The expression of a computed column; evaluated by the executor, which passes its value with each row if it is
    /// kept, and NULL if it is virtual.
    pub computed: Option<Arc<str>>,
    /// What rows hold that were written before the column was added.
    pub value_when_absent: Value,
}

/// A column of an index key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    /// The position in [`TableSchema::columns`].
    pub column: usize,
    pub descending: bool,
}

/// What an index enforces, which decides between the errors 2627 and 2601.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uniqueness {
    None,
    /// `CREATE UNIQUE INDEX`.
    Index,
    PrimaryKey,
    /// `UNIQUE` in a table definition.
    UniqueConstraint,
}

/// A clustered or non-clustered index.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    pub id: IndexId,
    pub name: Arc<str>,
    pub key: Vec<KeyColumn>,
    pub uniqueness: Uniqueness,
    /// INCLUDE: decides which locks an update takes and which queries the index covers. The values are read from the
    /// row.
    pub included: Vec<usize>,
    pub filter: Option<Filter>,
    pub options: IndexOptions,
}

/// The WITH options of an index that the catalog remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexOptions {
    pub ignore_dup_key: bool,
    /// Only remembered, like those below: there are no pages, no statistics and no contention for the last page here.
    pub allow_page_locks: bool,
    pub statistics_norecompute: bool,
    pub optimize_for_sequential_key: bool,
    /// In percent; 0 where none was said.
    pub fill_factor: u8,
}

impl Default for IndexOptions {
    /// What an index has where its definition says nothing.
    fn default() -> Self {
        IndexOptions {
            ignore_dup_key: false,
            allow_page_locks: true,
            statistics_norecompute: false,
            optimize_for_sequential_key: false,
            fill_factor: 0,
        }
    }
}

impl Index {
    /// Whether foreign keys can refer to these columns of its table by it.
    pub fn serves(&self, table: &TableSchema, referenced: &[Arc<str>]) -> bool {
        self.is_unique()
            && self.filter.is_none()
            && self.key.len() == referenced.len()
            && self.key.iter().all(|column| referenced.contains(&table.columns[column.column].name))
    }

    pub fn is_unique(&self) -> bool {
        self.uniqueness != Uniqueness::None
    }

    /// Whether it stands for a PRIMARY KEY or UNIQUE constraint.
    pub fn is_constraint(&self) -> bool {
        matches!(self.uniqueness, Uniqueness::PrimaryKey | Uniqueness::UniqueConstraint)
    }

    pub fn is_clustered(&self) -> bool {
        self.id == CLUSTERED
    }

    /// Whether the index holds the column, in its key or as an included one (the clustered key, which every
    /// non-clustered index holds too, is not counted).
    pub fn contains(&self, column: usize) -> bool {
        self.key.iter().any(|key| key.column == column) || self.included.contains(&column)
    }
}

/// Statistics that somebody has made of a column: only remembered, because nothing is estimated here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// Those of an index have the index's number.
    pub id: IndexId,
    pub name: Arc<str>,
    pub column: Arc<str>,
    pub no_recompute: bool,
}

/// Everything that is known of a table but its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSchema {
    /// Given by [`crate::storage::Latch::create_table`].
    pub id: ObjectId,
    /// The name of the schema it stands in, as written.
    pub schema: Arc<str>,
    pub name: Arc<str>,
    pub lifetime: Lifetime,
    pub columns: Vec<Column>,
    /// The clustered index first, if there is one.
    pub indexes: Vec<Index>,
    /// Made by CREATE STATISTICS.
    pub statistics: Vec<Statistics>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<ForeignKey>,
    pub lock_escalation: LockEscalation,
}

impl TableSchema {
    /// Numbers the indexes of a new table: the clustered one first, then in the order given.
    ///
    /// # Errors
    ///
    /// What an index cannot be: 1900, 1902, 1913, 1916.
    pub(super) fn number_indexes(&mut self) -> SqlResult<()> {
        self.indexes.sort_by_key(|index| !index.is_clustered());
        let nonclustered = self.indexes.iter_mut().filter(|index| !index.is_clustered());
        for (index, id) in nonclustered.zip(FIRST_NONCLUSTERED..) {
            index.id = id;
        }
        validate(self)
    }

    /// A table without columns. What is not said otherwise is as CREATE TABLE leaves it.
    pub fn new(schema: &str, name: &str, lifetime: Lifetime) -> TableSchema {
        TableSchema {
            id: 0,
            schema: schema.into(),
            name: name.into(),
            lifetime,
            columns: Vec::new(),
            indexes: Vec::new(),
            statistics: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            lock_escalation: LockEscalation::Table,
        }
    }

    /// The clustered index, if it is no heap.
    pub fn clustered(&self) -> Option<&Index> {
        self.indexes.first().filter(|index| index.is_clustered())
    }

    pub fn index(&self, id: IndexId) -> Option<&Index> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// The number for one more non-clustered index.
    pub(crate) fn next_index_id(&self) -> IndexId {
        let indexes = self.indexes.iter().map(|index| index.id);
        let used = indexes.chain(self.statistics.iter().map(|statistics| statistics.id));
        used.max().map_or(FIRST_NONCLUSTERED, |last| (last + 1).max(FIRST_NONCLUSTERED))
    }

    /// The index by name; index names follow the database's collation, which ignores case.
    pub fn index_named(&self, name: &str) -> Option<&Index> {
        let name = fold(name);
        self.indexes.iter().find(|index| fold(&index.name) == name)
    }

    pub fn column_named(&self, name: &str) -> Option<usize> {
        let name = fold(name);
        self.columns.iter().position(|column| fold(&column.name) == name)
    }

    /// For each column whether a non-clustered index depends on it, by its key, its filter or as an included column.
    pub(super) fn indexed_columns(&self) -> Vec<bool> {
        let mut indexed = vec![false; self.columns.len()];
        for index in self.indexes.iter().filter(|index| !index.is_clustered()) {
            let filtered = index.filter.iter().flat_map(|filter| &filter.terms).map(FilterTerm::column);
            let keys = index.key.iter().map(|key| key.column);
            for column in keys.chain(filtered).chain(index.included.iter().copied()) {
                indexed[column] = true;
            }
        }
        indexed
    }

    /// [`CLUSTERED`] or [`HEAP`]: the index that holds the rows.
    pub fn row_index(&self) -> IndexId {
        if self.clustered().is_some() { CLUSTERED } else { HEAP }
    }
}

/// A name as it is compared: without case.
pub fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// The WHERE of a filtered index: all terms must hold (the grammar knows AND only).
///
/// Source: CREATE INDEX, `<filter_predicate>` (MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/create-index-transact-sql.md).
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    pub terms: Vec<FilterTerm>,
    /// The condition as sys.indexes has it, without the parentheses around it.
    pub text: Arc<str>,
}

/// One condition of a filter. Constants have been converted to the column's type.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterTerm {
    Compare { column: usize, operator: CompareOp, constant: Value },
    In { column: usize, constants: Vec<Value> },
    IsNull { column: usize },
    IsNotNull { column: usize },
}

impl FilterTerm {
    pub fn column(&self) -> usize {
        match self {
            FilterTerm::Compare { column, .. }
            | FilterTerm::In { column, .. }
            | FilterTerm::IsNull { column }
            | FilterTerm::IsNotNull { column } => *column,
        }
    }

    pub fn column_mut(&mut self) -> &mut usize {
        match self {
            FilterTerm::Compare { column, .. }
            | FilterTerm::In { column, .. }
            | FilterTerm::IsNull { column }
            | FilterTerm::IsNotNull { column } => column,
        }
    }

    fn holds(&self, value: &Value, collation: Collation) -> bool {
        match self {
            FilterTerm::IsNull { .. } => value.is_null(),
            FilterTerm::IsNotNull { .. } => !value.is_null(),
            _ if value.is_null() => false,
            FilterTerm::In { constants, .. } => {
                constants.iter().any(|constant| compare(value, constant, collation) == Ordering::Equal)
            }
            FilterTerm::Compare { operator, constant, .. } => operator.holds_for(compare(value, constant, collation)),
        }
    }
}

impl Filter {
    /// Whether a row of these values belongs into the index.
    pub fn accepts(&self, columns: &[Column], values: &[Value]) -> bool {
        self.terms.iter().all(|term| {
            let column = term.column();
            term.holds(&values[column], columns[column].collation)
        })
    }
}

/// The limit of a key in bytes: 900 for a clustered, 1,700 for a non-clustered index.
///
/// Source: "Maximum capacity specifications for SQL Server"
/// (MicrosoftDocs/sql-docs, docs/sql-server/maximum-capacity-specifications-for-sql-server.md).
pub(super) fn max_key_bytes(index: &Index) -> usize {
    if index.is_clustered() { 900 } else { 1700 }
}

/// The error of a key that is longer than its index allows.
pub(super) fn key_too_long(index: &Index, bytes: usize) -> SqlError {
    SqlError::new(
        1946,
        format!(
            "Operation failed. The index entry of length {bytes} bytes for the index '{}' exceeds the maximum length \
             of {} bytes for {} indexes.",
            index.name,
            max_key_bytes(index),
            if index.is_clustered() { "clustered" } else { "nonclustered" },
        ),
    )
}

/// A schema that storage cannot serve is refused when the table or index is made.
pub(super) fn validate(schema: &TableSchema) -> SqlResult<()> {
    for (position, index) in schema.indexes.iter().enumerate() {
        if index.is_clustered() && position > 0 {
            return Err(SqlError::new(
                1902,
                format!(
                    "Cannot create more than one clustered index on table '{}.{}'. Drop the existing clustered index \
                     '{}' before creating another.",
                    schema.schema, schema.name, schema.indexes[0].name
                ),
            ));
        }
        if index.is_clustered() && index.filter.is_some() {
            return Err(SqlError::not_supported("the filter of a clustered index"));
        }
        if index.key.iter().any(|key| schema.columns[key.column].sql_type == SqlType::Variant) {
            return Err(SqlError::not_supported("a column of the type sql_variant in the key of an index"));
        }
        if schema.columns.iter().enumerate().any(|(at, column)| column.computed.is_some() && index.contains(at)) {
            return Err(SqlError::not_supported("an index on a computed column"));
        }
        if index.options.ignore_dup_key && !index.is_unique() {
            return Err(SqlError::not_supported("IGNORE_DUP_KEY on an index that is not unique"));
        }
        if index.options.ignore_dup_key && index.filter.is_some() {
            return Err(SqlError::not_supported("IGNORE_DUP_KEY on a filtered index, as in SQL Server"));
        }
    }
    Ok(())
}
