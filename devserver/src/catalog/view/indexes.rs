//! Indexes, their columns and how many rows they have.

use crate::catalog::view::column_types::{
    BIG, BIT, CODE, ColumnDescription, INT, NAME, TEXT, TINY, WHEN, WORD, bit, text,
};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::storage::{Index, IndexId, Latch, ObjectId, Uniqueness};
use crate::value::{SqlType, Value};

pub(crate) static VIEWS: &[CatalogView] = &[
    CatalogView { schema: "sys", name: "indexes", columns: INDEX_COLUMNS, rows: indexes },
    CatalogView { schema: "sys", name: "index_columns", columns: INDEX_COLUMN_COLUMNS, rows: index_columns },
    CatalogView {
        schema: "sys",
        name: "stats",
        columns: &[
            ("object_id", INT),
            ("name", NAME),
            ("stats_id", INT),
            ("auto_created", BIT),
            ("user_created", BIT),
            ("no_recompute", BIT),
            ("has_filter", BIT),
            ("filter_definition", TEXT),
        ],
        rows: statistics,
    },
    CatalogView {
        schema: "sys",
        name: "stats_columns",
        columns: &[("object_id", INT), ("stats_id", INT), ("stats_column_id", INT), ("column_id", INT)],
        rows: statistics_columns,
    },
    CatalogView {
        schema: "sys",
        name: "partition_schemes",
        columns: &[
            ("name", NAME),
            ("data_space_id", INT),
            ("type", CODE),
            ("type_desc", WORD),
            ("is_default", BIT),
            ("function_id", INT),
        ],
        // Nobody can make one.
        rows: |_| Vec::new(),
    },
    CatalogView {
        schema: "sys",
        name: "partition_functions",
        columns: &[
            ("name", NAME),
            ("function_id", INT),
            ("type", CODE),
            ("type_desc", WORD),
            ("boundary_value_on_right", BIT),
            ("create_date", WHEN),
        ],
        rows: |_| Vec::new(),
    },
    CatalogView {
        schema: "sys",
        name: "partition_parameters",
        columns: &[
            ("function_id", INT),
            ("system_type_id", TINY),
            ("max_length", SqlType::SmallInt),
            ("precision", TINY),
            ("scale", TINY),
            ("collation_name", NAME),
            ("user_type_id", INT),
        ],
        rows: |_| Vec::new(),
    },
    CatalogView {
        schema: "sys",
        name: "partition_range_values",
        columns: &[("function_id", INT), ("boundary_id", INT), ("value", SqlType::Variant)],
        rows: |_| Vec::new(),
    },
];

pub(crate) const INDEX_COLUMNS: &[ColumnDescription] = &[
    ("object_id", INT),
    ("name", NAME),
    ("index_id", INT),
    ("type", TINY),
    ("type_desc", WORD),
    ("is_unique", BIT),
    ("data_space_id", INT),
    ("ignore_dup_key", BIT),
    ("is_primary_key", BIT),
    ("is_unique_constraint", BIT),
    ("fill_factor", TINY),
    ("is_disabled", BIT),
    ("is_hypothetical", BIT),
    ("allow_row_locks", BIT),
    ("allow_page_locks", BIT),
    ("optimize_for_sequential_key", BIT),
    ("has_filter", BIT),
    ("filter_definition", TEXT),
];

pub(crate) const INDEX_COLUMN_COLUMNS: &[ColumnDescription] = &[
    ("object_id", INT),
    ("index_id", INT),
    ("index_column_id", INT),
    ("column_id", INT),
    ("key_ordinal", TINY),
    ("partition_ordinal", TINY),
    ("is_descending_key", BIT),
    ("is_included_column", BIT),
];

pub(crate) fn indexes(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        if table.clustered().is_none() {
            rows.push(index_row(table.id, None));
        }
        rows.extend(table.indexes.iter().map(|index| index_row(table.id, Some(index))));
    }
    rows
}

fn index_row(table: ObjectId, index: Option<&Index>) -> Vec<Value> {
    let (kind, description) = match index {
        None => (0, "HEAP"),
        Some(index) if index.is_clustered() => (1, "CLUSTERED"),
        Some(_) => (2, "NONCLUSTERED"),
    };
    let filter = index.and_then(|index| index.filter.as_ref());
    vec![
        Value::Int(table),
        index.map_or(Value::Null, |index| text(&index.name)),
        Value::Int(index.map_or(0, |index| i32::from(index.id))),
        Value::TinyInt(kind),
        text(description),
        bit(index.is_some_and(Index::is_unique)),
        // PRIMARY, where there is no other filegroup.
        Value::Int(1),
        bit(index.is_some_and(|index| index.options.ignore_dup_key)),
        bit(index.is_some_and(|index| index.uniqueness == Uniqueness::PrimaryKey)),
        bit(index.is_some_and(|index| index.uniqueness == Uniqueness::UniqueConstraint)),
        Value::TinyInt(index.map_or(0, |index| index.options.fill_factor)),
        bit(false),
        bit(false),
        bit(true),
        bit(index.is_none_or(|index| index.options.allow_page_locks)),
        bit(index.is_some_and(|index| index.options.optimize_for_sequential_key)),
        bit(filter.is_some()),
        index.map_or(Value::Null, filter_text),
    ]
}

/// Those that come with the indexes, and those that somebody has made: nothing is estimated here, and so nothing makes
/// others.
fn statistics(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for index in &table.indexes {
            rows.push(vec![
                Value::Int(table.id),
                text(&index.name),
                Value::Int(i32::from(index.id)),
                bit(false),
                bit(false),
                bit(index.options.statistics_norecompute),
                bit(index.filter.is_some()),
                filter_text(index),
            ]);
        }
        for statistics in &table.statistics {
            rows.push(vec![
                Value::Int(table.id),
                text(&statistics.name),
                Value::Int(i32::from(statistics.id)),
                bit(false),
                bit(true),
                bit(statistics.no_recompute),
                bit(false),
                Value::Null,
            ]);
        }
    }
    rows
}

fn statistics_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        let row = |id: IndexId, position: usize, column: usize| {
            let [position, column] = [position, column].map(|number| Value::Int(number as i32 + 1));
            vec![Value::Int(table.id), Value::Int(i32::from(id)), position, column]
        };
        for index in &table.indexes {
            rows.extend(index.key.iter().enumerate().map(|(position, key)| row(index.id, position, key.column)));
        }
        for statistics in &table.statistics {
            rows.extend(table.column_named(&statistics.column).map(|column| row(statistics.id, 0, column)));
        }
    }
    rows
}

fn filter_text(index: &Index) -> Value {
    index.filter.as_ref().map_or(Value::Null, |filter| text(format!("({})", filter.text)))
}

pub(crate) fn index_columns(facts: &Facts<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in facts.tables {
        for index in &table.indexes {
            let key = index.key.iter().map(|key| (key.column, key.descending, false));
            let included = index.included.iter().map(|column| (*column, false, true));
            for (position, (column, descending, is_included)) in key.chain(included).enumerate() {
                rows.push(vec![
                    Value::Int(table.id),
                    Value::Int(i32::from(index.id)),
                    Value::Int(position as i32 + 1),
                    Value::Int(column as i32 + 1),
                    Value::TinyInt(if is_included { 0 } else { position as u8 + 1 }),
                    Value::TinyInt(0),
                    bit(descending),
                    bit(is_included),
                ]);
            }
        }
    }
    rows
}

pub const PARTITIONS: &[ColumnDescription] = &[
    ("partition_id", BIG),
    ("object_id", INT),
    ("index_id", INT),
    ("partition_number", INT),
    ("hobt_id", BIG),
    ("rows", BIG),
];

/// The number of an index's tree. SQL Server counts from here too.
pub fn hobt_id(object: i32, index: u16) -> i64 {
    (1 << 56) + (i64::from(object) << 16) + i64::from(index)
}

/// The rows of sys.partitions.
pub fn partitions(latch: &Latch<'_>) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for schema in latch.tables() {
        let mut indexes = vec![schema.row_index()];
        indexes.extend(schema.indexes.iter().map(|index| index.id).filter(|id| *id != schema.row_index()));
        for index in indexes {
            let count = latch.table(schema.id).and_then(|table| table.index_entry_count(index));
            let id = hobt_id(schema.id, index);
            rows.push(vec![
                Value::BigInt(id),
                Value::Int(schema.id),
                Value::Int(i32::from(index)),
                Value::Int(1),
                Value::BigInt(id),
                Value::BigInt(count.map_or(0, |count| count as i64)),
            ]);
        }
    }
    rows
}
