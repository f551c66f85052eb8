//! CREATE, ALTER and DROP INDEX. A clustered index is the table's order: making or dropping one builds the table anew.
//!
//! Source: "ALTER INDEX" (MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-index-transact-sql.md): what REBUILD does
//! with options that it does not name, REORGANIZE without page locks, SET of a disabled index.

use std::sync::Arc;

use crate::bind::index_definition::{bind_filter, included_columns, index_options, key_columns, set_index_options};
use crate::bind::name::display_name;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::ddl::cannot_find::cannot_find;
use crate::session::ddl::foreign_key;
use crate::storage::{
    CLUSTERED, Index, IndexOptions, Lifetime, LockMode, ObjectId, Statistics, TableSchema, Uniqueness, fold,
};
use crate::tsql::ast::{AlterIndex, AlterIndexAction, CreateIndex, CreateStatistics, IndexOption, ObjectName};

/// Whether the table stays as it is beside the index: nobody may change it meanwhile, but read it.
///
/// "An offline index operation that creates, rebuilds, or drops a clustered index, or rebuilds or drops a nonclustered
/// index, acquires a Schema modification (Sch-M) lock on the table. … An offline index operation that creates a
/// nonclustered index acquires a Shared (S) lock on the table" ("CREATE INDEX", MicrosoftDocs/sql-docs,
/// docs/t-sql/statements/create-index-transact-sql.md). An online one takes the same locks at its end ("How online
/// index operations work", docs/relational-databases/indexes/how-online-index-operations-work.md), and here it begins
/// and ends at once.
pub(crate) fn only_adds_index(create: &CreateIndex) -> bool {
    !create.clustered && !create.options.contains(&IndexOption::DropExisting(true))
}

impl Session {
    /// The table of a CREATE INDEX or CREATE STATISTICS, which this user may alter.
    fn table_to_index(&mut self, name: &ObjectName) -> SqlResult<ObjectId> {
        let Some(table) = self.lookup_table(name)? else {
            return Err(SqlError::new(
                1088,
                format!(
                    "Cannot find the object \"{}\" because it does not exist or you do not have permissions.",
                    display_name(name)
                ),
            )
            .state(12));
        };
        self.check_not_within_trigger(table)?;
        let schema = self.stored_schema(table)?;
        if schema.lifetime == Lifetime::Permanent {
            self.check_alter_object(table, &schema.schema, cannot_find("find the object", name))?;
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
            let indexes = schema.indexes.iter().chain(&schema.disabled_indexes).map(|index| &index.name);
            let mut names = indexes.chain(schema.statistics.iter().map(|statistics| &statistics.name));
            if names.any(|name| fold(name) == fold(&create.name)) {
                let message =
                    format!("There are already statistics on table '{}' named '{}'.", schema.name, create.name);
                return Err(SqlError::new(1927, message));
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
            key: key_columns(schema, &create.columns)?,
            uniqueness: if create.unique { Uniqueness::Index } else { Uniqueness::None },
            included: included_columns(schema, &create.include)?,
            filter: match &create.filter {
                Some(filter) => Some(bind_filter(schema, &create.name, filter)?),
                None => None,
            },
            options: index_options(&create.options)?,
        };
        if index.filter.is_some() && !self.state.options.ansi_padding {
            return Err(crate::session::statement::set_option::wrong_set_options("CREATE INDEX", "ANSI_PADDING"));
        }
        if create.options.contains(&IndexOption::DropExisting(true)) {
            return self.replace_index(table, schema, index, activation);
        }
        if schema.index_named(&create.name).or_else(|| schema.disabled_index_named(&create.name)).is_some() {
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

    /// `DROP_EXISTING = ON`: an index of the name makes place for the new one.
    ///
    /// Source: "CREATE INDEX" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-index-transact-sql.md),
    /// DROP_EXISTING.
    fn replace_index(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        mut index: Index,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        let Some(existing) = schema.index_named(&index.name).or_else(|| schema.disabled_index_named(&index.name))
        else {
            return Err(SqlError::new(
                7999,
                format!("Could not find any index named '{}' for table '{}'.", index.name, schema.name),
            )
            .state(9));
        };
        let is_constraint = matches!(existing.uniqueness, Uniqueness::PrimaryKey | Uniqueness::UniqueConstraint);
        if is_constraint {
            let same_key = existing.key == index.key && index.is_unique() && index.filter.is_none();
            if !same_key || (existing.is_clustered() && !index.is_clustered()) {
                return Err(SqlError::new(
                    1907,
                    format!(
                        "Cannot recreate index '{}'. The new index definition does not match the constraint being \
                         enforced by the existing index.",
                        index.name
                    ),
                ));
            }
            index.uniqueness = existing.uniqueness;
        }
        if existing.is_clustered() && !index.is_clustered() {
            return Err(SqlError::new(
                1925,
                "Cannot convert a clustered index to a nonclustered index by using the DROP_EXISTING option. To change \
                 the index type from clustered to nonclustered, delete the clustered index, and then create a \
                 nonclustered index by using two separate statements.",
            )
            .state(2));
        }
        let existing_id = existing.id;
        let mut after = schema.clone();
        after.indexes.retain(|other| other.id != existing_id);
        after.disabled_indexes.retain(|other| other.id != existing_id);
        if index.is_clustered() {
            after.indexes.insert(0, index);
        } else {
            index.id = existing_id;
            after.indexes.push(index);
        }
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
        let Some(index) = schema.index_named(name).or_else(|| schema.disabled_index_named(name)) else {
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
        self.under_table_lock(table, activation, |session, schema, activation| {
            match schema.index_named(name).or_else(|| schema.disabled_index_named(name)) {
                Some(index) => session.remove_index(table, schema, index, activation),
                None if if_exists => Ok(()),
                None => Err(missing()),
            }
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
        if schema.disabled_indexes.iter().any(|other| other.id == id) {
            return self.table_change(activation, |latch, tx| {
                latch.alter_schema(tx, table, move |schema| schema.disabled_indexes.retain(|other| other.id != id))
            });
        }
        if !index.is_clustered() {
            return self.table_change(activation, |latch, tx| latch.drop_index(tx, table, id));
        }
        let mut after = schema.clone();
        after.indexes.retain(|other| !other.is_clustered());
        self.rebuild(table, after, activation, |_, row| Ok(row))
    }

    /// ALTER TABLE … REBUILD: "If the table has a clustered index, the REBUILD option rebuilds the clustered index"
    /// (docs/t-sql/statements/alter-table-transact-sql.md). Of a heap only what leaves no trace here is known.
    pub(crate) fn rebuild_clustered(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        options: &[IndexOption],
        activation: &mut Activation,
    ) -> SqlResult<()> {
        check_rebuild_options(options)?;
        let mut after = schema.clone();
        let Some(clustered) = after.indexes.iter_mut().find(|index| index.is_clustered()) else {
            return match index_options(options)? == IndexOptions::default() {
                true => Ok(()),
                false => Err(SqlError::not_supported("options of indexes in ALTER TABLE … REBUILD of a heap")),
            };
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
            self.check_alter_object(table, &schema.schema, cannot_find("find the object", &alter.table))?;
        }
        if matches!(alter.action, AlterIndexAction::Reorganize) {
            // It changes nothing.
            return self.alter_index_of(table, &schema, alter, activation);
        }
        self.under_table_lock(table, activation, |session, schema, activation| {
            session.alter_index_of(table, schema, alter, activation)
        })
    }

    fn alter_index_of(
        &mut self,
        table: ObjectId,
        schema: &TableSchema,
        alter: &AlterIndex,
        activation: &mut Activation,
    ) -> SqlResult<()> {
        if let Some(name) = &alter.name
            && schema.index_named(name).or_else(|| schema.disabled_index_named(name)).is_none()
        {
            return Err(SqlError::new(2727, format!("Cannot find index '{name}'.")).severity(11));
        }
        let is_meant = |index: &Index| alter.name.as_ref().is_none_or(|name| fold(name) == fold(&index.name));
        if let AlterIndexAction::Rebuild(options) | AlterIndexAction::Set(options) = &alter.action
            && options.iter().any(|option| matches!(option, IndexOption::IgnoreDupKey(_)))
        {
            let mut all = schema.indexes.iter().chain(&schema.disabled_indexes);
            if let Some(index) = all.find(|index| is_meant(index) && index.is_constraint()) {
                return Err(ignores_no_duplicates(index, alter.name.is_none()));
            }
        }
        match &alter.action {
            AlterIndexAction::Rebuild(options) => {
                check_rebuild_options(options)?;
                let mut after = schema.clone();
                let (revived, disabled) = after.disabled_indexes.into_iter().partition(is_meant);
                after.disabled_indexes = disabled;
                let mut revived: Vec<Index> = revived;
                after.indexes.append(&mut revived);
                for index in after.indexes.iter_mut().filter(|index| is_meant(index)) {
                    // What sys.indexes does not hold comes from the statement, or else is as by default.
                    index.options.statistics_norecompute = false;
                    set_index_options(&mut index.options, options)?;
                }
                if after == *schema {
                    return Ok(());
                }
                self.rebuild(table, after, activation, |_, row| Ok(row))
            }
            AlterIndexAction::Reorganize => {
                match schema.indexes.iter().find(|index| is_meant(index) && !index.options.allow_page_locks) {
                    Some(index) => Err(no_page_locks(schema, index)),
                    None => Ok(()),
                }
            }
            AlterIndexAction::Disable => {
                if schema.indexes.iter().any(|index| is_meant(index) && index.is_clustered()) {
                    return Err(SqlError::not_supported("ALTER INDEX … DISABLE of a clustered index"));
                }
                let mut after = schema.clone();
                let (mut disabled, kept) = after.indexes.into_iter().partition::<Vec<Index>, _>(is_meant);
                after.indexes = kept;
                after.disabled_indexes.append(&mut disabled);
                self.rebuild(table, after, activation, |_, row| Ok(row))
            }
            // Sch-M, as for all DDL: it waits for whoever reads the table.
            AlterIndexAction::Set(options) => {
                if let Some(index) =
                    schema.disabled_indexes.iter().find(|index| alter.name.is_some() && is_meant(index))
                {
                    return Err(disabled(schema, index));
                }
                let mut indexes = schema.indexes.clone();
                for index in indexes.iter_mut().filter(|index| is_meant(index)) {
                    set_index_options(&mut index.options, options)?;
                }
                self.table_change(activation, |latch, tx| {
                    latch.alter_schema(tx, table, |schema| schema.indexes = indexes)
                })
            }
        }
    }
}

/// DROP_EXISTING is an option of CREATE INDEX alone.
fn check_rebuild_options(options: &[IndexOption]) -> SqlResult<()> {
    match options.iter().any(|option| matches!(option, IndexOption::DropExisting(_))) {
        true => Err(SqlError::not_supported("DROP_EXISTING in REBUILD")),
        false => Ok(()),
    }
}

/// Source: 1979 in docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md.
fn ignores_no_duplicates(index: &Index, among_all: bool) -> SqlError {
    if among_all {
        return SqlError::not_supported(
            "ALTER INDEX ALL with IGNORE_DUP_KEY on a table with a primary key or unique constraint",
        );
    }
    SqlError::new(
        1979,
        format!(
            "Cannot use index option ignore_dup_key to alter index '{}' as it enforces a primary or unique constraint.",
            index.name
        ),
    )
}

fn no_page_locks(schema: &TableSchema, index: &Index) -> SqlError {
    SqlError::new(
        2552,
        format!(
            "The index \"{}\" (partition 1) on table \"{}\" cannot be reorganized because page level locking is disabled.",
            index.name, schema.name
        ),
    )
}

fn disabled(schema: &TableSchema, index: &Index) -> SqlError {
    SqlError::new(
        1973,
        format!(
            "Cannot perform the specified operation on disabled index '{}' on table '{}.{}'.",
            index.name, schema.schema, schema.name
        ),
    )
}
