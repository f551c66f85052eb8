//! Where rows are inserted by INSERT, MERGE and OUTPUT … INTO: the table, and the columns that are given a value.

use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::change_target::{assigned_twice, computed_column, logical_table_changed, read_only_table};
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::change::InsertTarget;
use crate::plan::query::{TableHandle, TableLocation};
use crate::storage::TableSchema;
use crate::tsql::ast::{Ident, TargetName};
use crate::value::{self, SqlType};

pub(crate) fn explicit_row_version() -> SqlError {
    SqlError::not_supported("an explicit value for a column of rowversion")
}

pub(crate) fn count_mismatch(given: usize, wanted: usize, has_list: bool) -> SqlError {
    if !has_list {
        return SqlError::new(213, "Column name or number of supplied values does not match table definition.");
    }
    let (number, word) = if given < wanted { (120, "fewer") } else { (121, "more") };
    SqlError::new(
        number,
        format!(
            "The select list for the INSERT statement contains {word} items than the insert list. The number of SELECT \
             values must match the number of INSERT columns."
        ),
    )
    .severity(15)
}

/// 545: under IDENTITY_INSERT the identity column has no value of its own.
pub(super) fn identity_not_given(schema: &TableSchema) -> SqlError {
    SqlError::new(
        545,
        format!(
            "Explicit value must be specified for identity column in table '{}' either when IDENTITY_INSERT is set to ON or \
             when a replication user is inserting into a NOT FOR REPLICATION identity column.",
            schema.name
        ),
    )
}

impl Binder<'_> {
    pub(crate) fn target_table(&mut self, name: &TargetName) -> SqlResult<TableHandle> {
        self.uses = self.uses.max(Uses::OwnTables);
        match name {
            TargetName::Table(name) => {
                if self.find_cte(name)?.is_some() {
                    return Err(SqlError::not_supported("inserting through a CTE"));
                }
                if self.logical_table(name).is_some() {
                    return Err(logical_table_changed());
                }
                self.resolve_base_table(name)
            }
            TargetName::Variable(name) => {
                let (place, variable) = self.declarations.table(name)?;
                if variable.read_only {
                    return Err(read_only_table(name));
                }
                let schema = variable.ty.template().expect("a table variable has a table").clone();
                Ok(TableHandle { schema, place: TableLocation::Variable(place) })
            }
        }
    }

    pub(super) fn takes_identity(&self, table: &TableHandle) -> bool {
        matches!(table.place, TableLocation::Stored(id) if self.state.identity_insert == Some(id))
    }

    /// `columns`: `None` for all that can be given a value.
    pub(crate) fn insert_target(&mut self, table: TableHandle, columns: Option<&[Ident]>) -> SqlResult<InsertTarget> {
        let identity_insert = self.takes_identity(&table);
        let schema = Arc::clone(&table.schema);
        let mut ordinals = Vec::new();
        match columns {
            None => {
                for (ordinal, column) in schema.columns.iter().enumerate() {
                    if column.computed.is_none() && column.identity.is_none() {
                        ordinals.push(ordinal);
                    }
                }
            }
            Some(names) => {
                for name in names {
                    let Some(ordinal) = schema.column_named(name) else {
                        return Err(SqlError::new(207, format!("Invalid column name '{name}'.")));
                    };
                    if ordinals.contains(&ordinal) {
                        return Err(assigned_twice(name));
                    }
                    if schema.columns[ordinal].computed.is_some() {
                        return Err(computed_column(name));
                    }
                    ordinals.push(ordinal);
                }
            }
        }
        for (ordinal, column) in schema.columns.iter().enumerate() {
            if column.identity.is_none() {
                continue;
            }
            let given = ordinals.contains(&ordinal);
            if given && !identity_insert {
                return Err(SqlError::new(
                    544,
                    format!(
                        "Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT is set to \
                         OFF.",
                        schema.name
                    ),
                ));
            }
            if !given && identity_insert && columns.is_some() {
                return Err(identity_not_given(&schema));
            }
        }
        let slot = self.new_slot()?;
        let rules = self.bind_rules(&schema, slot)?;
        Ok(InsertTarget { table, ordinals, rules })
    }

    /// Each value must be convertible to its column.
    pub(crate) fn check_insertable(&self, target: &InsertTarget, types: &[(SqlType, bool)]) -> SqlResult<()> {
        for (ordinal, &(ty, is_null)) in target.ordinals.iter().zip(types) {
            if target.table.schema.columns[*ordinal].sql_type == SqlType::RowVersion {
                return Err(explicit_row_version());
            }
            if !is_null {
                value::check_conversion(ty, target.table.schema.columns[*ordinal].sql_type, false)?;
            }
        }
        Ok(())
    }
}
