//! SELECT … INTO: makes a table of a query's columns and fills it.
//!
//! The table is made first, then the rows are inserted, each as a statement of its own: "if the inserts fail, they will
//! all be rolled back, but the new (empty) table will remain".
//!
//! Source: "INTO Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-into-clause-transact-sql.md).

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Flow, Frame, Run};
use crate::execute::query::run_query;
use crate::execute::statement_result::StatementResult;
use crate::plan::query::{OutputColumn, QueryPlan};
use crate::plan::select_statement::IntoTable;
use crate::storage::{Column, Lifetime, ObjectId, TableSchema, fold};
use crate::value::{SqlType, Value};

impl IntoTable {
    /// What the new table looks like.
    pub fn schema(&self, columns: &[OutputColumn], schema: &str) -> SqlResult<TableSchema> {
        let mut result: Vec<Column> = Vec::with_capacity(columns.len());
        for (ordinal, column) in columns.iter().enumerate() {
            if column.name.is_empty() {
                return Err(SqlError::not_supported("SELECT INTO of a column without a name"));
            }
            if result.iter().any(|other| fold(&other.name) == fold(&column.name)) {
                return Err(SqlError::not_supported(format!("SELECT INTO of two columns '{}'", column.name)));
            }
            result.push(Column {
                name: Arc::clone(&column.name),
                sql_type: column.ty,
                nullable: column.nullable,
                collation: column.collation,
                identity: self.identity.filter(|(of, _)| *of == ordinal).map(|(_, identity)| identity),
                default: None,
                computed: None,
                is_sparse: false,
                value_when_absent: Value::Null,
            });
        }
        Ok(TableSchema { columns: result, ..TableSchema::new(schema, &self.name.name, Lifetime::Temporary) })
    }
}

/// Fills the table that was made of [`IntoTable::schema`].
pub fn fill(query: &QueryPlan, table: ObjectId, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<StatementResult> {
    let mut rows = Vec::new();
    run_query(query, run, frame, &mut |_, frame, row| {
        frame.next_values.clear();
        rows.push(row);
        Ok(Flow::Continue)
    })?;
    let count = rows.len() as u64;
    let storage = run.storage()?;
    let schema = storage.latch.schema(table).cloned().ok_or_else(|| SqlError::new(208, "Invalid object name."))?;
    for mut row in rows {
        for (value, column) in row.iter_mut().zip(&schema.columns) {
            if column.sql_type == SqlType::RowVersion {
                *value = Value::Bytes(storage.latch.next_row_version().to_be_bytes().into());
            }
            if let (Some(_), Some(value)) = (column.identity, value.as_i64()) {
                storage.latch.note_identity(table, value);
            }
        }
        storage.latch.insert(&mut storage.tx, table, &row)?;
    }
    Ok(StatementResult { count, ..Default::default() })
}
