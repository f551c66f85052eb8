//! ALTER TABLE: columns and constraints of a table that has rows.
//!
//! What the rows do not notice (defaults, checks, a column that reads as a constant) changes the schema alone;
//! everything else goes through [`Session::rebuild`], which computes each row anew and builds table and indexes from
//! them.
//!
//! Source: "ALTER TABLE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-table-transact-sql.md); the errors are
//! those of docs/relational-databases/errors-events/database-engine-events-and-errors-4000-to-4999.md.

use std::sync::Arc;

use crate::bind::binder::display_name;
use crate::bind::{foreign_key_definition, table_definition};
use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::execute::modify::assign;
use crate::execute::variables::Activation;
use crate::plan::cell::Uses;
use crate::session::session::Session;
use crate::storage::{self, Column, Index, Lifetime, ObjectId, TableSchema, Uniqueness, fold};
use crate::tsql::ast::{
    AlterTable, AlterTableAction, AlterTableDrop, ColumnDefinition, Ident, LockEscalation, TableDefinition, TypeName,
};
use crate::tsql::mentions;
use crate::value::{self, SqlType, Value};

impl Session {
    pub(crate) fn alter_table(&mut self, alter: &AlterTable, scope: &mut Activation) -> SqlResult<()> {
        let Some(table) = self.lookup_table(&alter.table)? else {
            return Err(SqlError::new(
                4902,
                format!(
                    "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
                    display_name(&alter.table)
                ),
            ));
        };
        self.check_not_within_trigger(table)?;
        let schema = self.stored_schema(table)?;
        if schema.lifetime == Lifetime::Permanent {
            let missing = SqlError::new(
                1088,
                format!(
                    "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
                    display_name(&alter.table)
                ),
            );
            self.check_alter_object(table, &schema.schema, missing)?;
        }
        self.atomically(|session| session.alter_table_parts(table, &schema, &alter.action, scope))?;
        self.note_table_change(table);
        Ok(())
    }

    fn alter_table_parts(
        &mut self,
        table: ObjectId,
        schema: &Arc<TableSchema>,
        action: &AlterTableAction,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        match action {
            AlterTableAction::SetLockEscalation(escalation) => {
                let escalation = match escalation {
                    LockEscalation::Auto => storage::LockEscalation::Auto,
                    LockEscalation::Table => storage::LockEscalation::Table,
                    LockEscalation::Disable => storage::LockEscalation::Disable,
                };
                self.table_change(scope, |latch, tx| {
                    latch.alter_schema(tx, table, |schema| schema.lock_escalation = escalation)
                })
            }
            AlterTableAction::Add { definition, with_values, check } => {
                if !definition.indexes.is_empty() {
                    return Err(SqlError::not_supported("ALTER TABLE … ADD INDEX"));
                }
                for column in &definition.columns {
                    let fills = with_values.iter().any(|name| fold(name) == fold(&column.name));
                    self.add_column(table, column, fills, scope)?;
                }
                self.add_table_constraints(table, definition, check.unwrap_or(true), scope)
                    .map_err(table_definition::constraint_failed)
            }
            AlterTableAction::Drop(drops) => {
                for drop in drops {
                    match drop {
                        AlterTableDrop::Column { name, if_exists } => {
                            self.drop_column(table, name, *if_exists, scope)?;
                        }
                        AlterTableDrop::Constraint { name, if_exists } => {
                            self.drop_constraint(table, name, *if_exists, scope)?;
                        }
                    }
                }
                Ok(())
            }
            AlterTableAction::Rebuild(options) => table_definition::index_options(options).map(|_| ()),
            AlterTableAction::AlterColumn { name, data_type, collation, nullable } => {
                self.alter_column(table, schema, name, data_type, collation.as_ref(), *nullable, scope)
            }
            AlterTableAction::CheckConstraint { enable, names, check } => {
                self.switch_checks(table, schema, *enable, names, check.unwrap_or(false), scope)
            }
        }
    }

    /// Builds a table anew, each row as `convert` makes it of the old one.
    pub(crate) fn rebuild(
        &mut self,
        table: ObjectId,
        schema: TableSchema,
        scope: &mut Activation,
        mut convert: impl FnMut(&mut Run<'_>, Vec<Value>) -> SqlResult<Vec<Value>>,
    ) -> SqlResult<()> {
        let result = self.with_run(Uses::Database, scope, |run| {
            let storage = run.storage()?;
            let rows = storage.latch.rows_to_rebuild(&mut storage.tx, table)?;
            let mut converted = Vec::with_capacity(rows.len());
            for row in rows {
                converted.push(convert(run, row)?);
            }
            let storage = run.storage()?;
            storage.latch.rebuild_table(&mut storage.tx, table, schema, &converted)
        });
        self.schema_changed();
        result
    }

    fn row_count(&self, table: ObjectId) -> usize {
        self.database.storage.latch().table(table).map_or(0, |table| table.row_count())
    }

    /// `fills`: the rows that are there get the default even though the column may be NULL (WITH VALUES).
    fn add_column(
        &mut self,
        table: ObjectId,
        definition: &ColumnDefinition,
        fills: bool,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        let schema = self.stored_schema(table)?;
        let column = self.with_binder(|binder| {
            let mut column = table_definition::bind_column(binder, &schema, definition)?;
            if let Some(text) = &column.computed {
                (column.sql_type, column.collation) = table_definition::computed_type(binder, &schema, text)?;
            }
            Ok(column)
        })?;
        if column.identity.is_some() && schema.columns.iter().any(|other| other.identity.is_some()) {
            return Err(SqlError::new(
                2744,
                format!(
                    "Multiple identity columns specified for table '{}'. Only one identity column per table is allowed.",
                    schema.name
                ),
            )
            .state(2));
        }
        let fills_itself =
            column.computed.is_some() || column.identity.is_some() || column.sql_type == SqlType::RowVersion;
        let takes_default = column.default.is_some() && (!column.nullable || fills);
        let row_count = self.row_count(table);
        if !fills_itself && !column.nullable && column.default.is_none() && row_count > 0 {
            return Err(SqlError::new(
                4901,
                format!(
                    "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition \
                     specified, or the column being added is an identity or timestamp column, or alternatively if none of \
                     the previous conditions are satisfied the table must be empty to allow addition of this column. \
                     Column '{}' cannot be added to non-empty table '{}' because it does not satisfy these conditions.",
                    column.name, schema.name
                ),
            ));
        }
        if !fills_itself && (!takes_default || row_count == 0) {
            self.table_change(scope, |latch, tx| latch.add_column(tx, table, column))?;
            return Ok(());
        }
        self.add_filled_column(table, &schema, column, scope)
    }

    /// Every row gets a value of its own: the default, the next identity value, a row version, a computed value.
    fn add_filled_column(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        column: Column,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        if schema.column_named(&column.name).is_some() {
            return Err(SqlError::new(
                2705,
                format!(
                    "Column names in each table must be unique. Column name '{}' in table '{}.{}' is specified more than \
                     once.",
                    column.name, schema.schema, schema.name
                ),
            )
            .state(4));
        }
        let mut after = schema.clone();
        let ordinal = after.columns.len();
        let sql_type = column.sql_type;
        let is_identity = column.identity.is_some();
        let is_computed = column.computed.is_some();
        after.columns.push(column);
        let (rules, slots) = self.with_binder(|binder| {
            let slot = binder.new_slot()?;
            let rules = binder.bind_rules(&after, slot)?;
            Ok((rules, binder.slots))
        })?;
        if is_identity {
            // The counter belongs to the table, so that the column must be there before it counts.
            let counting = after.columns[ordinal].clone();
            self.table_change(scope, |latch, tx| latch.add_column(tx, table, counting))?;
        }
        self.rebuild(table, after, scope, |run, mut row| {
            row.truncate(ordinal);
            row.push(Value::Null);
            row[ordinal] = if is_identity {
                let next = run.storage()?.latch.next_identity(table)?;
                value::convert(Value::BigInt(next), SqlType::BigInt, sql_type, None, false)?
            } else if sql_type == SqlType::RowVersion {
                Value::Bytes(run.storage()?.latch.next_row_version().to_be_bytes().into())
            } else {
                let mut frame = Frame::new(slots);
                frame.rows[rules.slot] = row.as_slice().into();
                if is_computed {
                    let (_, scalar) =
                        rules.computed.iter().find(|(column, _)| *column == ordinal).expect("it was bound as computed");
                    scalar.eval(run, &mut frame)?
                } else {
                    let default = rules.defaults[ordinal].as_ref().expect("only a column with a default is filled");
                    default.eval(run, &mut frame)?
                }
            };
            Ok(row)
        })
    }

    fn add_table_constraints(
        &mut self,
        table: ObjectId,
        definition: &TableDefinition,
        check: bool,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        if definition.constraints.is_empty() {
            return Ok(());
        }
        let before = self.stored_schema(table)?;
        let mut after = TableSchema::clone(&before);
        table_definition::add_constraints(&mut after, &[], &definition.constraints)?;
        let added: Vec<Index> = after.indexes.split_off(before.indexes.len());
        for index in &added {
            let is_nullable = index.key.iter().any(|key| before.columns[key.column].nullable);
            if index.uniqueness == Uniqueness::PrimaryKey && is_nullable {
                return Err(SqlError::new(
                    8111,
                    format!("Cannot define PRIMARY KEY constraint on nullable column in table '{}'.", before.name),
                ));
            }
        }
        let mut new_keys = Vec::new();
        if before.lifetime == Lifetime::Permanent {
            new_keys = self
                .with_binder(|binder| foreign_key_definition::foreign_keys(binder, &before, &definition.constraints))?;
            for key in &mut new_keys {
                key.not_trusted = !check;
            }
            after.foreign_keys.extend(new_keys.iter().cloned());
            let mut complete = after.clone();
            complete.indexes.extend(added.iter().cloned());
            self.check_constraint_names(&complete, Some(table))?;
        }
        for constraint in &mut after.checks[before.checks.len()..] {
            constraint.not_trusted = !check;
        }
        self.with_binder(|binder| table_definition::check_checks(binder, &after))?;
        if check && after.checks.len() > before.checks.len() {
            let names: Vec<Arc<str>> =
                after.checks[before.checks.len()..].iter().map(|check| Arc::clone(&check.name)).collect();
            self.look_at_rows(table, &after, &names, scope)?;
        }
        if check && !new_keys.is_empty() {
            self.look_for_partners(table, &before, &new_keys, scope)?;
        }
        let (columns, checks, foreign_keys) = (after.columns, after.checks, after.foreign_keys);
        self.table_change(scope, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                schema.columns = columns;
                schema.checks = checks;
                schema.foreign_keys = foreign_keys;
            })
        })?;
        for index in added {
            let schema = self.stored_schema(table)?;
            self.add_index(table, &schema, index, scope)?;
        }
        Ok(())
    }

    /// 547 if a row breaks one of the checks.
    fn look_at_rows(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        names: &[Arc<str>],
        scope: &mut Activation,
    ) -> SqlResult<()> {
        let (rules, slots) = self.with_binder(|binder| {
            let slot = binder.new_slot()?;
            let rules = binder.bind_rules(schema, slot)?;
            Ok((rules, binder.slots))
        })?;
        self.with_run(Uses::Database, scope, |run| {
            let storage = run.storage()?;
            let rows = storage.latch.rows_to_rebuild(&mut storage.tx, table)?;
            let mut frame = Frame::new(slots);
            for row in rows {
                frame.rows[rules.slot] = row.into();
                for (name, condition) in rules.checks.iter().filter(|(name, _)| names.contains(name)) {
                    if condition.test(run, &mut frame)? == Some(false) {
                        return Err(SqlError::new(
                            547,
                            format!(
                                "The ALTER TABLE statement conflicted with the CHECK constraint \"{name}\". The conflict \
                                 occurred in database \"{}\", table \"{}.{}\".",
                                run.database.name, schema.schema, schema.name
                            ),
                        ));
                    }
                }
            }
            Ok(())
        })
    }

    /// `[NO]CHECK CONSTRAINT`; `check`: WITH CHECK, which looks at the rows.
    fn switch_checks(
        &mut self,
        table: ObjectId,
        schema: &Arc<TableSchema>,
        enable: bool,
        names: &[Ident],
        check: bool,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        for name in names {
            let is_check = schema.checks.iter().any(|check| fold(&check.name) == fold(name));
            if !is_check && !schema.foreign_keys.iter().any(|key| fold(&key.name) == fold(name)) {
                return Err(SqlError::new(4917, format!("Constraint '{name}' does not exist.")));
            }
        }
        let mut after = TableSchema::clone(schema);
        let is_meant = |constraint: &str| names.is_empty() || names.iter().any(|name| fold(name) == fold(constraint));
        let mut keys = Vec::new();
        for key in after.foreign_keys.iter_mut().filter(|key| is_meant(&key.name)) {
            key.disabled = !enable;
            key.not_trusted = if enable { key.not_trusted && !check } else { true };
            keys.push(key.clone());
        }
        if enable && check && !keys.is_empty() {
            self.look_for_partners(table, schema, &keys, scope)?;
        }
        let mut switched = Vec::new();
        for constraint in &mut after.checks {
            if is_meant(&constraint.name) {
                constraint.disabled = !enable;
                constraint.not_trusted = if enable { constraint.not_trusted && !check } else { true };
                switched.push(Arc::clone(&constraint.name));
            }
        }
        if enable && check {
            self.look_at_rows(table, &after, &switched, scope)?;
        }
        let (checks, foreign_keys) = (after.checks, after.foreign_keys);
        self.table_change(scope, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                schema.checks = checks;
                schema.foreign_keys = foreign_keys;
            })
        })
    }

    fn drop_constraint(
        &mut self,
        table: ObjectId,
        name: &Ident,
        if_exists: bool,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        let schema = self.stored_schema(table)?;
        let folded = fold(name);
        let index = schema.index_named(name).or_else(|| schema.disabled_index_named(name));
        if let Some(index) =
            index.filter(|index| matches!(index.uniqueness, Uniqueness::PrimaryKey | Uniqueness::UniqueConstraint))
        {
            let index = index.clone();
            return self.remove_index(table, &schema, &index, scope);
        }
        let is_default = schema
            .columns
            .iter()
            .any(|column| column.default.as_ref().is_some_and(|default| fold(&default.name) == folded));
        let is_check = schema.checks.iter().any(|check| fold(&check.name) == folded);
        let is_key = schema.foreign_keys.iter().any(|key| fold(&key.name) == folded);
        if !is_default && !is_check && !is_key {
            if if_exists {
                return Ok(());
            }
            return Err(SqlError::new(3728, format!("'{name}' is not a constraint.")));
        }
        self.table_change(scope, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                schema.checks.retain(|check| fold(&check.name) != folded);
                schema.foreign_keys.retain(|key| fold(&key.name) != folded);
                for column in &mut schema.columns {
                    if column.default.as_ref().is_some_and(|default| fold(&default.name) == folded) {
                        column.default = None;
                    }
                }
            })
        })
    }

    fn drop_column(&mut self, table: ObjectId, name: &Ident, if_exists: bool, scope: &mut Activation) -> SqlResult<()> {
        let schema = self.stored_schema(table)?;
        let Some(dropped) = schema.column_named(name) else {
            return if if_exists { Ok(()) } else { Err(no_such_column("DROP COLUMN", &schema, name)) };
        };
        if schema.columns.len() == 1 {
            return Err(SqlError::new(
                4923,
                format!(
                    "ALTER TABLE DROP COLUMN failed because '{name}' is the only data column in table '{}'. A table must \
                     have at least one data column.",
                    schema.name
                ),
            ));
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
        for index in after.indexes.iter_mut().chain(&mut after.disabled_indexes) {
            index.key.iter_mut().for_each(|key| moved(&mut key.column));
            index.included.iter_mut().for_each(moved);
            let terms = index.filter.iter_mut().flat_map(|filter| &mut filter.terms);
            terms.for_each(|term| moved(term.column_mut()));
        }
        self.rebuild(table, after, scope, |_, mut row| {
            row.remove(dropped);
            Ok(row)
        })
    }

    #[allow(clippy::too_many_arguments)] // The parts of the statement.
    fn alter_column(
        &mut self,
        table: ObjectId,
        schema: &Arc<TableSchema>,
        name: &Ident,
        data_type: &TypeName,
        collation: Option<&Ident>,
        nullable: Option<bool>,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        let Some(ordinal) = schema.column_named(name) else {
            return Err(no_such_column("ALTER COLUMN", schema, name));
        };
        let before = &schema.columns[ordinal];
        let is = if before.computed.is_some() {
            Some("COMPUTED")
        } else {
            (before.sql_type == SqlType::RowVersion).then_some("timestamp")
        };
        if let Some(is) = is {
            return Err(SqlError::new(4928, format!("Cannot alter column '{name}' because it is '{is}'.")));
        }
        let (sql_type, collation) = self.with_binder(|binder| {
            let collation = match collation {
                Some(collation) => binder.collation(collation)?,
                None => crate::value::Collation::default(),
            };
            Ok((binder.resolve_type(data_type)?, collation))
        })?;
        if sql_type == SqlType::RowVersion {
            return Err(SqlError::new(4927, format!("Cannot alter column '{name}' to be data type timestamp.")));
        }
        // "If the new column … ANSI_NULL defaults are always on for ALTER COLUMN": without a word it becomes nullable.
        let nullable = nullable.unwrap_or(before.identity.is_none());
        let column = Column { sql_type, collation, nullable, value_when_absent: Value::Null, ..before.clone() };
        let only_grows = only_grows(before.sql_type, sql_type) && column.collation == before.collation;
        let uses_allow = only_grows
            && nullable == before.nullable
            && uses_of(schema, ordinal).all(|index| index.uniqueness != Uniqueness::PrimaryKey);
        let mut dependents = Vec::new();
        if before.sql_type.name() != sql_type.name() {
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
        value::check_conversion(before.sql_type, sql_type, false)?;
        let from = before.sql_type;
        let mut after = TableSchema::clone(schema);
        after.columns[ordinal] = column;
        let described = after.clone();
        self.rebuild(table, after, scope, |run, mut row| {
            let value = std::mem::replace(&mut row[ordinal], Value::Null);
            if value.is_null() && !nullable {
                return Err(SqlError::new(
                    515,
                    format!(
                        "Cannot insert the value NULL into column '{}', table '{}'; column does not allow nulls. UPDATE \
                         fails.",
                        described.columns[ordinal].name,
                        crate::execute::modify::full_name(run, &described)
                    ),
                )
                .state(2));
            }
            row[ordinal] = assign(run, &described, ordinal, value, from)?;
            Ok(row)
        })
    }
}

/// The indexes that hold a column or ask for it in their filter.
fn uses_of(schema: &TableSchema, column: usize) -> impl Iterator<Item = &Index> {
    schema.indexes.iter().chain(&schema.disabled_indexes).filter(move |index| {
        let mut filtered = index.filter.iter().flat_map(|filter| &filter.terms);
        index.contains(column) || filtered.any(|term| term.column() == column)
    })
}

/// What depends on a column: the word for its kind in a message, and its name.
type Dependent = (&'static str, Arc<str>);

fn default_of(schema: &TableSchema, column: usize) -> impl Iterator<Item = Dependent> {
    schema.columns[column].default.iter().map(|default| ("object", Arc::clone(&default.name)))
}

/// A constraint is an object; an index is none.
fn dependent_index(index: &Index) -> Dependent {
    let is_constraint = matches!(index.uniqueness, Uniqueness::PrimaryKey | Uniqueness::UniqueConstraint);
    (if is_constraint { "object" } else { "index" }, Arc::clone(&index.name))
}

/// The foreign keys, CHECKs and computed columns that name the column.
fn mentions_of(schema: &TableSchema, column: usize) -> Vec<Dependent> {
    let name = &schema.columns[column].name;
    let keys = schema.foreign_keys.iter().filter(|key| key.columns.contains(name)).map(|key| ("object", &key.name));
    let checks = schema.checks.iter().filter(|check| mentions(&check.text, name)).map(|check| ("object", &check.name));
    let computed =
        schema.columns.iter().filter(|other| other.computed.as_ref().is_some_and(|text| mentions(text, name)));
    let computed = computed.map(|column| ("column", &column.name));
    keys.chain(checks).chain(computed).map(|(kind, name)| (kind, Arc::clone(name))).collect()
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

/// 4922, after a 5074 for everything that depends on the column.
fn in_use(what: &str, name: &str, dependents: Vec<Dependent>) -> SqlError {
    SqlError::new(4922, format!("ALTER TABLE {what} {name} failed because one or more objects access this column."))
        .state(9)
        .because(dependents.into_iter().map(|(kind, dependent)| {
            SqlError::new(5074, format!("The {kind} '{dependent}' is dependent on column '{name}'."))
        }))
}
