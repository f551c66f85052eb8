//! CREATE, ALTER and DROP INDEX. A clustered index is the table's order: making or dropping one builds the table anew.

use std::sync::Arc;

use crate::bind::index_definition::{bind_filter, included_columns, index_options, key_columns, set_index_options};
use crate::bind::name::display_name;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find_object;
use crate::session::ddl::foreign_key;
use crate::storage::{CLUSTERED, Index, Lifetime, LockMode, ObjectId, Statistics, TableSchema, Uniqueness, fold};
use crate::tsql::ast::{AlterIndex, CreateIndex, CreateStatistics, IndexOption, ObjectName};

/// Whether the table stays as it is beside the index: nobody may change it meanwhile, but read it.
///
/// "An offline index operation that creates, rebuilds, or drops a clustered index, or rebuilds or drops a nonclustered
/// index, acquires a Schema modification (Sch-M) lock on the table. … An offline index operation that creates a
/// nonclustered index acquires a Shared (S) lock on the table" ("CREATE INDEX", MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/create-index-transact-sql.md). An online one takes the same locks at its end ("How online
/// index operations work", docs/relational-databases/indexes/how-online-index-operations-work.md), and here it begins
/// and ends at once.
pub(crate) fn only_adds_index(create: &CreateIndex) -> bool {
    !create.clustered
}

impl Session {
    /// The table of a CREATE INDEX or CREATE STATISTICS, which this user may alter.
    fn table_to_index(&mut self, name: &ObjectName) -> SqlResult<ObjectId> {
        let Some(table) = self.lookup_table(name)? else {
            return Err(cannot_find_object(1088, name).state(12));
        };
        self.check_not_within_trigger(table)?;
        let schema = self.stored_schema(table)?;
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(table, &schema.schema, cannot_find_object(1088, name).state(5))?;
        }
        Ok(table)
    }

    /// Source: "CREATE STATISTICS" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-statistics-transact-sql.md).
    pub(crate) fn create_statistics(
        &mut self,
        create: &CreateStatistics,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let table = self.table_to_index(&create.table)?;
        self.under_table_lock(table, activation, |session, schema, activation| {
            let Some(ordinal) = schema.column_named(&create.column) else {
                let message = format!("Column name '{}' does not exist in the target table or view.", create.column);
                return Err(SqlError::new(1911, message));
            };
            let indexes = schema.indexes.iter().map(|index| &index.name);
            let mut names = indexes.chain(schema.statistics.iter().map(|statistics| &statistics.name));
            if names.any(|name| fold(name) == fold(&create.name)) {
                return Err(SqlError::not_supported(format!("a second index or statistics '{}'", create.name)));
            }
            let statistics = Statistics {
                id: schema.next_index_id(),
                name: Arc::clone(&create.name),
                column: Arc::clone(&schema.columns[ordinal].name),
                no_recompute: create.no_recompute,
            };
            session.table_change(activation, |latch, tx| {
                latch.alter_schema(tx, table, |schema| schema.statistics.push(statistics))
            })
        })?;
        self.note_table_change(table);
        Ok(())
    }

    pub(crate) fn create_index(&mut self, create: &CreateIndex, activation: &mut Activation) -> SqlResult<()> {
        let table = self.table_to_index(&create.table)?;
        let mode = if only_adds_index(create) { LockMode::Shared } else { LockMode::SchemaModification };
        self.under_table_lock_of(mode, table, activation, |session, schema, activation| {
            session.create_index_of(table, schema, create, activation)
        })?;
        self.note_table_change(table);
        Ok(())
    }

    fn create_index_of(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        create: &CreateIndex,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let index = Index {
            id: if create.clustered { CLUSTERED } else { 0 },
            name: Arc::clone(&create.name),
            key: key_columns(schema, &create.columns, !create.clustered && !create.unique)?,
            uniqueness: if create.unique { Uniqueness::Index } else { Uniqueness::None },
            included: included_columns(schema, &create.include)?,
            filter: match &create.filter {
                Some(filter) => Some(bind_filter(schema, &create.name, filter)?),
                None => None,
            },
            options: index_options(&create.options)?,
        };
        if index.filter.is_some() && !self.state.options.ansi_padding {
            return Err(SqlError::not_supported("a filtered index under ANSI_PADDING OFF"));
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
        self.add_index(table, schema, index, activation)
    }

    /// Adds an index that has been looked at. The table is locked for it ([`Session::under_table_lock`]).
    pub(crate) fn add_index(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        index: Index,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        if !index.is_clustered() {
            self.table_change(activation, |latch, tx| latch.create_index(tx, table, index))?;
            return Ok(());
        }
        let mut after = schema.clone();
        if let Some(existing) = schema.clustered() {
            return Err(SqlError::new(
                1902,
                format!(
                    "Cannot create more than one clustered index on table '{}.{}'. Drop the existing clustered index \
                     '{}' before creating another.",
                    schema.schema, schema.name, existing.name
                ),
            )
            .state(3));
        }
        after.indexes.insert(0, index);
        self.rebuild(table, after, activation, |_, row| Ok(row))
    }

    pub(crate) fn drop_index(
        &mut self,
        name: &str,
        table_name: &ObjectName,
        if_exists: bool,
        activation: &mut Activation,
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
        self.check_not_within_trigger(table)?;
        let schema = self.stored_schema(table)?;
        let Some(index) = schema.index_named(name) else {
            return if if_exists { Ok(()) } else { Err(missing()) };
        };
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(table, &schema.schema, missing())?;
        }
        if index.is_constraint() {
            return Err(SqlError::not_supported(format!("DROP INDEX of the constraint '{name}'")));
        }
        self.under_table_lock(table, activation, |session, schema, activation| match schema.index_named(name) {
            Some(index) => session.remove_index(table, schema, index, activation),
            None if if_exists => Ok(()),
            None => Err(missing()),
        })
    }

    /// Takes an index away, whatever it enforces. Without its clustered index the table is a heap.
    pub(crate) fn remove_index(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        index: &Index,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        foreign_key::check_index_not_needed(&self.database.storage.latch(), schema, index)?;
        let id = index.id;
        if !index.is_clustered() {
            return self.table_change(activation, |latch, tx| latch.drop_index(tx, table, id));
        }
        let mut after = schema.clone();
        after.indexes.retain(|other| !other.is_clustered());
        self.rebuild(table, after, activation, |_, row| Ok(row))
    }

    /// ALTER TABLE … REBUILD: "If the table has a clustered index, the REBUILD option rebuilds the clustered index"
    /// (docs/t-sql/statements/alter-table-transact-sql.md).
    pub(crate) fn rebuild_clustered(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        options: &[IndexOption],
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let mut after = schema.clone();
        let Some(clustered) = after.indexes.iter_mut().find(|index| index.is_clustered()) else {
            return Err(SqlError::not_supported("ALTER TABLE … REBUILD of a heap"));
        };
        clustered.options.statistics_norecompute = false;
        set_index_options(&mut clustered.options, options)?;
        if after == *schema {
            return Ok(());
        }
        self.rebuild(table, after, activation, |_, row| Ok(row))
    }

    pub(crate) fn alter_index(&mut self, alter: &AlterIndex, activation: &mut Activation) -> SqlResult<()> {
        let table = self.find_stored_table(&alter.table)?;
        self.check_not_within_trigger(table)?;
        let schema = self.stored_schema(table)?;
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(table, &schema.schema, cannot_find_object(1088, &alter.table).state(5))?;
        }
        // Sch-M, as for all DDL: it waits for whoever reads the table.
        self.under_table_lock(table, activation, |session, schema, activation| {
            let mut indexes = schema.indexes.clone();
            let Some(index) = indexes.iter_mut().find(|index| fold(&index.name) == fold(&alter.name)) else {
                return Err(SqlError::new(2727, format!("Cannot find index '{}'.", alter.name)).severity(11));
            };
            set_index_options(&mut index.options, &alter.options)?;
            session
                .table_change(activation, |latch, tx| latch.alter_schema(tx, table, |schema| schema.indexes = indexes))
        })
    }
}
