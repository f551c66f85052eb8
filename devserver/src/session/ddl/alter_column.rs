//! ALTER TABLE … ADD, DROP and ALTER COLUMN.

use std::sync::Arc;

use crate::bind::table_definition;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::new_row::{assign, full_name, lacks_value};
use crate::session::client_session::Session;
use crate::session::ddl::column_dependents::{Dependent, default_of, dependent_index, in_use, mentions_of, uses_of};
use crate::storage::{Column, ObjectId, TableSchema, Uniqueness};
use crate::tsql::ast::{ColumnDefinition, Ident, TypeName};
use crate::value::{self, SqlType, Value};

impl Session {
    pub(crate) fn add_column(
        &mut self,
        table: ObjectId,
        definition: &ColumnDefinition,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let schema = self.stored_schema(table)?;
        let column = self.with_binder(|binder| {
            let mut column = table_definition::bind_column(binder, &schema, definition, 1)?;
            if let Some(text) = column.computed.clone() {
                table_definition::set_computed(binder, &schema, &mut column, &text)?;
            }
            Ok(column)
        })?;
        if column.identity.is_some() && schema.columns.iter().any(|other| other.identity.is_some()) {
            return Err(SqlError::not_supported("ADD of a second identity column"));
        }
        let fills_itself = column.identity.is_some() || column.sql_type == SqlType::RowVersion;
        let takes_default = column.default.is_some() && !column.nullable;
        let is_empty = self.database.storage.latch().table(table).is_none_or(|table| table.row_count() == 0);
        if !is_empty && (fills_itself || takes_default) {
            return Err(SqlError::not_supported("ADD of a column that rows have to be filled with a value of"));
        }
        if !is_empty && column.computed.is_none() && !column.nullable {
            return Err(SqlError::not_supported("ADD of a column that existing rows need a value for"));
        }
        self.table_change(activation, |latch, tx| latch.add_column(tx, table, column))
    }

    pub(crate) fn drop_column(
        &mut self,
        table: ObjectId,
        name: &Ident,
        if_exists: bool,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let schema = self.stored_schema(table)?;
        let Some(dropped) = schema.column_named(name) else {
            return if if_exists { Ok(()) } else { Err(no_such_column("DROP COLUMN", &schema, name)) };
        };
        if schema.columns.len() == 1 {
            return Err(SqlError::not_supported("DROP of the only column of a table"));
        }
        let mut dependents: Vec<Dependent> = default_of(&schema, dropped).collect();
        dependents.extend(uses_of(&schema, dropped).map(dependent_index));
        dependents.extend(mentions_of(&schema, dropped));
        if !dependents.is_empty() {
            return Err(in_use("DROP COLUMN", name, dependents));
        }
        let mut after = TableSchema::clone(&schema);
        after.columns.remove(dropped);
        let moved = |column: &mut usize| *column -= usize::from(*column > dropped);
        for index in &mut after.indexes {
            index.key.iter_mut().for_each(|key| moved(&mut key.column));
            index.included.iter_mut().for_each(moved);
            let terms = index.filter.iter_mut().flat_map(|filter| &mut filter.terms);
            terms.for_each(|term| moved(term.column_mut()));
        }
        self.rebuild(table, after, activation, |_, mut row| {
            row.remove(dropped);
            Ok(row)
        })
    }

    #[allow(clippy::too_many_arguments)] // The parts of the statement.
    pub(crate) fn alter_column(
        &mut self,
        table: ObjectId,
        schema: &Arc<TableSchema>,
        name: &Ident,
        data_type: &TypeName,
        collation: Option<&Ident>,
        nullable: Option<bool>,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let Some(ordinal) = schema.column_named(name) else {
            return Err(no_such_column("ALTER COLUMN", schema, name));
        };
        let before = &schema.columns[ordinal];
        if before.computed.is_some() || before.is_sparse || before.sql_type == SqlType::RowVersion {
            return Err(SqlError::not_supported("ALTER of a computed, sparse or rowversion column"));
        }
        let (sql_type, collation) = self.with_binder(|binder| {
            let collation = match collation {
                Some(collation) => binder.collation(collation)?,
                None => crate::value::Collation::default(),
            };
            let sql_type = table_definition::column_type(binder, data_type, 1)?;
            Ok((sql_type, collation))
        })?;
        if sql_type == SqlType::RowVersion {
            return Err(SqlError::not_supported("ALTER of a column to rowversion"));
        }
        // "If the new column … ANSI_NULL defaults are always on for ALTER COLUMN": without a word it becomes nullable.
        let nullable = nullable.unwrap_or(before.identity.is_none());
        let column = Column { sql_type, collation, nullable, value_when_absent: Value::Null, ..before.clone() };
        let only_grows = only_grows(before.sql_type, sql_type) && column.collation == before.collation;
        let uses_allow = only_grows
            && nullable == before.nullable
            && uses_of(schema, ordinal).all(|index| index.uniqueness != Uniqueness::PrimaryKey);
        let mut dependents = Vec::new();
        // `decimal` and `numeric` are two names of one type.
        if before.sql_type.message_name() != sql_type.message_name() {
            dependents.extend(default_of(schema, ordinal));
        }
        if !uses_allow {
            dependents.extend(uses_of(schema, ordinal).map(dependent_index));
        }
        if !only_grows {
            dependents.extend(mentions_of(schema, ordinal));
        }
        if !dependents.is_empty() {
            return Err(in_use("ALTER COLUMN", name, dependents));
        }
        if before.sql_type != sql_type && [before.sql_type, sql_type].contains(&SqlType::Variant) {
            return Err(SqlError::not_supported("ALTER COLUMN from or to sql_variant"));
        }
        if before.sql_type != sql_type && (before.sql_type.is_text_or_image() || sql_type.is_text_or_image()) {
            return Err(SqlError::not_supported("ALTER COLUMN from or to text, ntext or image"));
        }
        value::check_conversion(before.sql_type, sql_type, false)?;
        let from = before.sql_type;
        let mut after = TableSchema::clone(schema);
        after.columns[ordinal] = column;
        let described = after.clone();
        self.rebuild(table, after, activation, |run, mut row| {
            let value = std::mem::replace(&mut row[ordinal], Value::Null);
            if value.is_null() && !nullable {
                return Err(lacks_value(&described.columns[ordinal].name, &full_name(run, &described), "UPDATE"));
            }
            row[ordinal] = assign(run, &described, ordinal, value, from)?;
            Ok(row)
        })
    }
}

/// `varchar(10)` to `varchar(20)` and its like: what the rows and index entries hold stays as it is.
fn only_grows(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        (SqlType::VarChar(a), SqlType::VarChar(b))
        | (SqlType::NVarChar(a), SqlType::NVarChar(b))
        | (SqlType::VarBinary(a), SqlType::VarBinary(b)) => match (a, b) {
            (value::Length::Limit(a), value::Length::Limit(b)) => a <= b,
            (a, b) => a == b,
        },
        _ => from == to,
    }
}

fn no_such_column(what: &str, schema: &TableSchema, name: &str) -> SqlError {
    SqlError::new(
        4924,
        format!("ALTER TABLE {what} failed because column '{name}' does not exist in table '{}'.", schema.name),
    )
}
