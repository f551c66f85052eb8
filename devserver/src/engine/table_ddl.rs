//! CREATE, ALTER and DROP of tables and indexes.

use std::sync::Arc;

use super::binder::{Binder, display_name};
use super::catalog::{DBO, already_there};
use super::ddl::cannot_find;
use super::scope::{Activation, Declarations};
use super::session::Session;
use super::state::TemporaryTable;
use super::table_definition::{self, bind_filter, included_columns, index_options, key_columns};
use crate::error::{SqlError, SqlResult};
use crate::storage::{self, CLUSTERED, Index, Lifetime, ObjectId, TableSchema, Uniqueness, fold};
use crate::tsql::ast::{
    AlterIndex, AlterIndexAction, AlterTable, AlterTableAction, AlterTableDrop, CreateIndex, CreateTable, IndexOption,
    LockEscalation, ObjectName,
};
use crate::value::{SqlType, Value};

impl Session {
    pub(super) fn create_table(&mut self, create: &CreateTable, scope: &mut Activation) -> SqlResult<()> {
        let name = &create.name;
        if name.name.starts_with("##") {
            return Err(SqlError::not_supported("global temporary tables"));
        }
        if name.name.starts_with('#') {
            let taken = self
                .state
                .temporary_tables
                .iter()
                .any(|table| table.name == fold(&name.name) && table.level == self.state.nest_level);
            if taken {
                return Err(already_there(&name.name));
            }
            let mut schema =
                self.with_binder(|binder| table_definition::template(binder, &name.name, DBO, &create.definition))?;
            schema.lifetime = Lifetime::Temporary;
            let id = self.table_change(scope, |latch, tx| latch.create_table(tx, schema))?;
            let level = self.state.nest_level;
            self.state.temporary_tables.push(TemporaryTable { name: fold(&name.name), id, level });
            return Ok(());
        }
        self.check_create("CREATE TABLE")?;
        let schema_name = self.schema_for(name)?;
        self.check_free(&schema_name, &name.name)?;
        let mut schema = self
            .with_binder(|binder| table_definition::template(binder, &name.name, &schema_name, &create.definition))?;
        schema.lifetime = Lifetime::Permanent;
        self.check_constraint_names(&schema, None)?;
        self.table_change(scope, |latch, tx| latch.create_table(tx, schema))?;
        Ok(())
    }

    /// Constraints are objects: their names are unique in a schema; 2714. `existing`: the table itself, if it is there.
    fn check_constraint_names(&self, schema: &TableSchema, existing: Option<ObjectId>) -> SqlResult<()> {
        let names = super::system_view::constraint_names(schema);
        for (position, name) in names.iter().enumerate() {
            let folded = fold(name);
            let repeated = names[..position].iter().any(|other| fold(other) == folded) || fold(&schema.name) == folded;
            let elsewhere = {
                let latch = self.database.storage.latch();
                latch.find_table(&schema.schema, name).is_some()
                    || latch.tables().iter().any(|table| {
                        Some(table.id) != existing
                            && fold(&table.schema) == fold(&schema.schema)
                            && super::system_view::constraint_id(table, name).is_some()
                    })
            };
            if repeated || elsewhere || self.database.catalog.read().object(&schema.schema, name).is_some() {
                return Err(already_there(name));
            }
        }
        Ok(())
    }

    pub(super) fn create_index(&mut self, create: &CreateIndex, scope: &mut Activation) -> SqlResult<()> {
        let table = match self.lookup_table(&create.table)? {
            Some(table) => table,
            None => {
                return Err(SqlError::new(
                    1088,
                    format!(
                        "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
                        display_name(&create.table)
                    ),
                )
                .state(12));
            }
        };
        let schema = self.stored_schema(table)?;
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(table, &schema.schema, cannot_find("find the object", &create.table))?;
        }
        if schema.index_named(&create.name).is_some() {
            return Err(SqlError::new(
                1913,
                format!(
                    "The operation failed because an index or statistics with name '{}' already exists on table '{}.{}'.",
                    create.name, schema.schema, schema.name
                ),
            ));
        }
        if create.clustered {
            return Err(SqlError::not_supported("CREATE CLUSTERED INDEX on an existing table"));
        }
        let index = Index {
            id: 0,
            name: Arc::clone(&create.name),
            key: key_columns(&schema, &create.columns)?,
            uniqueness: if create.unique { Uniqueness::Index } else { Uniqueness::None },
            included: included_columns(&schema, &create.include)?,
            filter: match &create.filter {
                Some(filter) => Some(bind_filter(&schema, &create.name, filter)?),
                None => None,
            },
            ignore_dup_key: index_options(&create.options)?,
        };
        self.table_change(scope, |latch, tx| latch.create_index(tx, table, index))?;
        Ok(())
    }

    pub(super) fn drop_index(
        &mut self,
        name: &str,
        table_name: &ObjectName,
        if_exists: bool,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        let missing = || {
            SqlError::new(
                3701,
                format!(
                    "Cannot drop the index '{}.{name}', because it does not exist or you do not have permission.",
                    display_name(table_name)
                ),
            )
            .severity(11)
            .state(7)
        };
        let Some(table) = self.lookup_table(table_name)? else {
            return if if_exists { Ok(()) } else { Err(missing()) };
        };
        let schema = self.stored_schema(table)?;
        let Some(index) = schema.index_named(name) else {
            return if if_exists { Ok(()) } else { Err(missing()) };
        };
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(table, &schema.schema, missing())?;
        }
        let kind = match index.uniqueness {
            Uniqueness::PrimaryKey => Some("PRIMARY KEY"),
            Uniqueness::UniqueConstraint => Some("UNIQUE KEY"),
            Uniqueness::Index | Uniqueness::None => None,
        };
        if let Some(kind) = kind {
            return Err(SqlError::new(
                3723,
                format!(
                    "An explicit DROP INDEX is not allowed on index '{}.{name}'. It is being used for {kind} constraint \
                     enforcement.",
                    display_name(table_name)
                ),
            )
            .state(4));
        }
        if index.id == CLUSTERED {
            return Err(SqlError::not_supported("dropping a clustered index"));
        }
        let id = index.id;
        self.table_change(scope, |latch, tx| latch.drop_index(tx, table, id))
    }

    pub(super) fn alter_table(&mut self, alter: &AlterTable, scope: &mut Activation) -> SqlResult<()> {
        let Some(table) = self.lookup_table(&alter.table)? else {
            return Err(SqlError::new(
                4902,
                format!(
                    "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
                    display_name(&alter.table)
                ),
            ));
        };
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
        match &alter.action {
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
                if *check == Some(false) {
                    return Err(SqlError::not_supported("ALTER TABLE WITH NOCHECK"));
                }
                if !definition.indexes.is_empty() {
                    return Err(SqlError::not_supported("ALTER TABLE … ADD INDEX"));
                }
                self.add_columns(table, &schema, definition, with_values, scope)?;
                self.add_table_constraints(table, definition, scope)
            }
            AlterTableAction::Drop(drops) => {
                for drop in drops {
                    self.drop_from_table(table, drop, scope)?;
                }
                Ok(())
            }
            AlterTableAction::Rebuild(options) => index_options(options).map(|_| ()),
            AlterTableAction::AlterColumn { .. } => Err(SqlError::not_supported("ALTER TABLE … ALTER COLUMN")),
            AlterTableAction::CheckConstraint { .. } => {
                Err(SqlError::not_supported("switching constraints on and off"))
            }
        }
    }

    fn add_columns(
        &mut self,
        table: ObjectId,
        schema: &Arc<TableSchema>,
        definition: &crate::tsql::ast::TableDefinition,
        with_values: &[crate::tsql::ast::Ident],
        scope: &mut Activation,
    ) -> SqlResult<()> {
        for column in &definition.columns {
            let mut bound = self.with_binder(|binder| table_definition::bind_column(binder, schema, column))?;
            if bound.computed.is_some() || bound.identity.is_some() || bound.sql_type == SqlType::RowVersion {
                return Err(SqlError::not_supported("adding a computed, identity or rowversion column"));
            }
            let row_count = {
                let latch = self.database.storage.latch();
                latch.table(table).map_or(0, |table| table.row_count())
            };
            let fills = !bound.nullable || with_values.iter().any(|name| fold(name) == fold(&column.name));
            match &column.default {
                Some(default) if fills => {
                    let declarations = Declarations::default();
                    let value = {
                        let database = Arc::clone(&self.database);
                        let scalar = {
                            let latch = database.storage.latch();
                            let mut binder = Binder::new(&database, &latch, &self.state, &declarations);
                            let scalar = binder.bind_expr(&default.expr)?;
                            super::bind_expression::implicit(scalar, bound.sql_type)?
                        };
                        self.with_run(true, scope, |run| scalar.eval(run, &mut super::frame::Frame::default()))?
                    };
                    bound.value_when_absent = value;
                }
                None if !bound.nullable && row_count > 0 => {
                    return Err(SqlError::new(
                        4901,
                        format!(
                            "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT \
                             definition specified, or the column being added is an identity or timestamp column, or \
                             alternatively if none of the previous conditions are satisfied the table must be empty to \
                             allow addition of this column. Column '{}' cannot be added to non-empty table '{}' because \
                             it does not satisfy these conditions.",
                            column.name, schema.name
                        ),
                    ));
                }
                _ => bound.value_when_absent = Value::Null,
            }
            self.table_change(scope, |latch, tx| latch.add_column(tx, table, bound))?;
        }
        Ok(())
    }

    fn add_table_constraints(
        &mut self,
        table: ObjectId,
        definition: &crate::tsql::ast::TableDefinition,
        scope: &mut Activation,
    ) -> SqlResult<()> {
        if definition.constraints.is_empty() {
            return Ok(());
        }
        let before = self.stored_schema(table)?;
        let mut after = TableSchema::clone(&before);
        let indexes = after.indexes.len();
        table_definition::add_constraints(&mut after, &[], &definition.constraints)?;
        let added: Vec<Index> = after.indexes.split_off(indexes.min(after.indexes.len()));
        for index in &added {
            if index.is_clustered() {
                return Err(SqlError::not_supported("adding a clustered key to an existing table"));
            }
            if index.uniqueness == Uniqueness::PrimaryKey
                && index.key.iter().any(|key| before.columns[key.column].nullable)
            {
                return Err(SqlError::new(
                    8111,
                    format!("Cannot define PRIMARY KEY constraint on nullable column in table '{}'.", before.name),
                ));
            }
        }
        if before.lifetime == Lifetime::Permanent {
            let mut complete = after.clone();
            complete.indexes.extend(added.iter().cloned());
            self.check_constraint_names(&complete, Some(table))?;
        }
        if after.checks.len() > before.checks.len() {
            let row_count = self.database.storage.latch().table(table).map_or(0, |table| table.row_count());
            if row_count > 0 {
                return Err(SqlError::not_supported("adding a CHECK to a table with rows"));
            }
        }
        self.table_change(scope, |latch, tx| {
            let (columns, checks) = (after.columns.clone(), after.checks.clone());
            latch.alter_schema(tx, table, move |schema| {
                schema.columns = columns;
                schema.checks = checks;
            })?;
            for index in added {
                latch.create_index(tx, table, index)?;
            }
            Ok(())
        })
    }

    fn drop_from_table(&mut self, table: ObjectId, drop: &AlterTableDrop, scope: &mut Activation) -> SqlResult<()> {
        let (name, if_exists) = match drop {
            AlterTableDrop::Column { .. } => return Err(SqlError::not_supported("ALTER TABLE … DROP COLUMN")),
            AlterTableDrop::Constraint { name, if_exists } => (name, *if_exists),
        };
        let schema = self.stored_schema(table)?;
        let folded = fold(name);
        if let Some(index) = schema.index_named(name) {
            if index.is_clustered() {
                return Err(SqlError::not_supported("dropping a clustered key"));
            }
            let id = index.id;
            return self.table_change(scope, |latch, tx| latch.drop_index(tx, table, id));
        }
        let is_default = schema
            .columns
            .iter()
            .any(|column| column.default.as_ref().is_some_and(|default| fold(&default.name) == folded));
        let is_check = schema.checks.iter().any(|check| fold(&check.name) == folded);
        if !is_default && !is_check {
            if if_exists {
                return Ok(());
            }
            return Err(SqlError::new(3728, format!("'{name}' is not a constraint.")));
        }
        self.table_change(scope, |latch, tx| {
            latch.alter_schema(tx, table, move |schema| {
                schema.checks.retain(|check| fold(&check.name) != folded);
                for column in &mut schema.columns {
                    if column.default.as_ref().is_some_and(|default| fold(&default.name) == folded) {
                        column.default = None;
                    }
                }
            })
        })
    }

    pub(super) fn alter_index(&mut self, alter: &AlterIndex) -> SqlResult<()> {
        let table = self.find_stored_table(&alter.table)?;
        let schema = self.stored_schema(table)?;
        self.check_alter_object(table, &schema.schema, cannot_find("find the object", &alter.table))?;
        if let Some(name) = &alter.name
            && schema.index_named(name).is_none()
        {
            return Err(SqlError::new(2727, format!("Cannot find index '{name}'.")).severity(11));
        }
        match &alter.action {
            AlterIndexAction::Rebuild(options) => index_options(options).map(|_| ()),
            AlterIndexAction::Reorganize => Ok(()),
            AlterIndexAction::Disable => Err(SqlError::not_supported("ALTER INDEX … DISABLE")),
            AlterIndexAction::Set(options) => {
                let changes_rows = options.iter().any(|option| matches!(option, IndexOption::IgnoreDupKey(_)));
                if changes_rows {
                    return Err(SqlError::not_supported("ALTER INDEX … SET (IGNORE_DUP_KEY = …)"));
                }
                index_options(options).map(|_| ())
            }
        }
    }

    pub(super) fn drop_table(&mut self, name: &ObjectName, if_exists: bool, scope: &mut Activation) -> SqlResult<()> {
        let Some(table) = self.lookup_table(name)? else {
            return if if_exists { Ok(()) } else { Err(cannot_find("drop the table", name)) };
        };
        if name.name.starts_with('#') {
            self.state.temporary_tables.retain(|temporary| temporary.id != table);
        } else {
            let schema = self.stored_schema(table)?;
            self.check_alter_object(table, &schema.schema, cannot_find("drop the table", name))?;
        }
        self.table_change(scope, |latch, tx| latch.drop_table(tx, table))
    }

    pub(super) fn set_identity_insert(&mut self, table: &ObjectName, on: bool) -> SqlResult<()> {
        let id = match self.lookup_table(table)? {
            Some(id) => id,
            None => {
                return Err(SqlError::new(
                    1088,
                    format!(
                        "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
                        display_name(table)
                    ),
                )
                .state(11));
            }
        };
        let schema = self.stored_schema(id)?;
        if !schema.columns.iter().any(|column| column.identity.is_some()) {
            return Err(SqlError::new(
                8106,
                format!("Table '{}' does not have the identity property. Cannot perform SET operation.", schema.name),
            ));
        }
        match (self.state.identity_insert, on) {
            (Some(other), true) if other != id => {
                return Err(SqlError::new(
                    8107,
                    format!(
                        "IDENTITY_INSERT is already ON for another table. Cannot perform SET operation for table '{}'.",
                        schema.name
                    ),
                ));
            }
            (_, true) => self.state.identity_insert = Some(id),
            (Some(current), false) if current == id => self.state.identity_insert = None,
            _ => {}
        }
        // Plans made for INSERT know whether the identity column takes a value.
        self.database.changed();
        Ok(())
    }
}
