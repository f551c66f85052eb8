//! Creating, changing and dropping tables and indexes, within a transaction and undone with it.
//!
//! Everything takes Sch-M on the table until the transaction ends, so that nobody else can see the table meanwhile; a
//! new non-clustered index takes S, so that nobody else can change it. An index is built under the latch in one go.

use std::sync::Arc;

use super::database::Latch;
use super::duplicate::duplicate_while_creating;
use super::key::Key;
use super::locks::mode::LockMode;
use super::locks::resource::{IndexId, ObjectId};
use super::row::Row;
use super::schema::{Column, Index, TableSchema, validate};
use super::table::{Change, IndexTree, Table};
use super::transaction::Transaction;
use crate::error::{SqlError, SqlResult};
use crate::value::Value;

impl Latch<'_> {
    /// Creates a table. Its number and those of its indexes are filled in: clustered first, then in the order given.
    ///
    /// # Errors
    ///
    /// 2714 if the name is taken by a table; what an index cannot be (1900, 1902, 1913, 1916); as
    /// [`Latch::lock_table`].
    pub fn create_table(&mut self, tx: &mut Transaction, mut schema: TableSchema) -> SqlResult<ObjectId> {
        if schema.lifetime.is_shared() {
            // Whoever is dropping or creating a table of this name must finish first.
            let taken = self.open_table(tx, &schema.schema.clone(), &schema.name.clone(), LockMode::SchemaStability)?;
            if taken.is_some() {
                let message = format!("There is already an object named '{}' in the database.", schema.name);
                return Err(SqlError::new(2714, message).state(6));
            }
        }
        schema.id = self.new_object_id();
        schema.number_indexes()?;
        if schema.lifetime.is_shared() {
            self.lock_table(tx, schema.id, LockMode::SchemaModification, true)?;
        }
        let (id, lifetime) = (schema.id, schema.lifetime);
        let schema = Arc::new(schema);
        self.state().add_name(&schema);
        self.state().tables.insert(id, Table::new(schema));
        tx.record(lifetime, id, Change::TableCreated);
        Ok(id)
    }

    /// Drops a table.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn drop_table(&mut self, tx: &mut Transaction, table: ObjectId) -> SqlResult<()> {
        let schema = self.lock_for_change(tx, table)?;
        let Some(dropped) = self.state().tables.remove(&table) else {
            return Ok(());
        };
        self.state().begin_drop(&dropped);
        tx.record(schema.lifetime, table, Change::TableDropped(Box::new(dropped)));
        Ok(())
    }

    /// Adds a column at the end. The rows that are there read as having `value_when_absent` in it.
    ///
    /// # Errors
    ///
    /// 2705 if there is a column of that name; as [`Latch::lock_table`].
    pub fn add_column(&mut self, tx: &mut Transaction, table: ObjectId, column: Column) -> SqlResult<()> {
        let schema = self.lock_for_change(tx, table)?;
        if schema.column_named(&column.name).is_some() {
            let message = format!(
                "Column names in each table must be unique. Column name '{}' in table '{}.{}' is specified more than \
                 once.",
                column.name, schema.schema, schema.name
            );
            return Err(SqlError::new(2705, message).state(4));
        }
        self.alter_schema(tx, table, |schema| schema.columns.push(column))
    }

    /// Changes what is known of a table without touching a row: defaults, checks, options, names of columns and
    /// indexes. Columns and indexes must stay in number, type and place (new columns may follow).
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn alter_schema(
        &mut self,
        tx: &mut Transaction,
        table: ObjectId,
        change: impl FnOnce(&mut TableSchema),
    ) -> SqlResult<()> {
        let before = self.lock_for_change(tx, table)?;
        let mut schema = TableSchema::clone(&before);
        change(&mut schema);
        validate(&schema)?;
        self.table_mut(table)?.schema = Arc::new(schema);
        tx.record(before.lifetime, table, Change::SchemaReplaced(before));
        Ok(())
    }

    /// Locks a table for [`Latch::rebuild_table`] and gives its rows, in their order.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn rows_to_rebuild(&mut self, tx: &mut Transaction, table: ObjectId) -> SqlResult<Vec<Vec<Value>>> {
        let schema = self.lock_for_change(tx, table)?;
        let rows = self.table_mut(table)?.rows.iter().filter(|(_, record)| !record.ghost);
        Ok(rows.map(|(_, record)| record.row.values(&schema)).collect())
    }

    /// Builds a table anew: other columns, another clustered index, other rows. The identity counter stays. Takes the
    /// rows as the new schema describes them.
    ///
    /// # Errors
    ///
    /// 1505 (the rows are not unique), 1946 (a key is too long), what an index cannot be (1900, 1902, 1916); as
    /// [`Latch::lock_table`].
    pub fn rebuild_table(
        &mut self,
        tx: &mut Transaction,
        table: ObjectId,
        schema: TableSchema,
        rows: &[Vec<Value>],
    ) -> SqlResult<()> {
        let before = self.lock_for_change(tx, table)?;
        validate(&schema)?;
        let schema = Arc::new(schema);
        let mut rebuilt = Table::new(Arc::clone(&schema));
        rebuilt.identity = self.table_mut(table)?.identity;
        for values in rows {
            let key = rebuilt.new_row_key(values)?;
            if let Some(clustered) = schema.clustered()
                && rebuilt.live_row(&key).is_some()
            {
                return Err(duplicate_while_creating(&schema, clustered, values));
            }
            rebuilt.put_row(&key, Row::encode(&schema.columns, values)?);
        }
        for index in schema.indexes.iter().filter(|index| !index.is_clustered()) {
            let tree = build_index(&rebuilt, &schema, index.id)?;
            rebuilt.indexes.retain(|other| other.id != index.id);
            rebuilt.indexes.push(tree);
        }
        let replaced = std::mem::replace(self.table_mut(table)?, rebuilt);
        tx.record(before.lifetime, table, Change::Truncated(Box::new(replaced)));
        Ok(())
    }

    /// Gives a table another name or puts it into another schema. The caller has seen that the name is free.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`].
    pub fn rename_table(&mut self, tx: &mut Transaction, table: ObjectId, schema: &str, name: &str) -> SqlResult<()> {
        let before = self.lock_for_change(tx, table)?;
        let renamed = Arc::new(TableSchema { schema: schema.into(), name: name.into(), ..TableSchema::clone(&before) });
        self.state().remove_name(&before);
        self.state().add_name(&renamed);
        self.table_mut(table)?.schema = renamed;
        tx.record(before.lifetime, table, Change::SchemaReplaced(before));
        Ok(())
    }

    /// Creates a non-clustered index, over the rows that are there. The index's number is filled in.
    ///
    /// # Errors
    ///
    /// 1505 (the rows are not unique), 1913 (the name is taken), 1946 (a key is too long), what an index cannot be
    /// (1916); as [`Latch::lock_table`].
    pub fn create_index(&mut self, tx: &mut Transaction, table: ObjectId, mut index: Index) -> SqlResult<IndexId> {
        self.lock_table(tx, table, LockMode::Shared, true)?;
        let before = self.schema_of(table)?;
        debug_assert!(!index.is_clustered(), "a clustered index is made by rebuilding the table");
        if before.index_named(&index.name).is_some() {
            let message = format!(
                "The operation failed because an index or statistics with name '{}' already exists on table '{}.{}'.",
                index.name, before.schema, before.name
            );
            return Err(SqlError::new(1913, message));
        }
        index.id = before.next_index_id();
        let id = index.id;
        let mut schema = TableSchema::clone(&before);
        schema.indexes.push(index);
        validate(&schema)?;
        let schema = Arc::new(schema);
        let storage = self.table_mut(table)?;
        let tree = build_index(storage, &schema, id)?;
        storage.indexes.push(tree);
        storage.schema = schema;
        tx.record(before.lifetime, table, Change::IndexCreated(id, before));
        Ok(id)
    }

    /// Drops a non-clustered index.
    ///
    /// # Errors
    ///
    /// As [`Latch::lock_table`]; not supported for the clustered index.
    pub fn drop_index(&mut self, tx: &mut Transaction, table: ObjectId, index: IndexId) -> SqlResult<()> {
        let before = self.lock_for_change(tx, table)?;
        let storage = self.table_mut(table)?;
        let Some(position) = storage.indexes.iter().position(|tree| tree.id == index) else {
            return Err(SqlError::not_supported(format!("dropping index {index} of table '{}'", before.name)));
        };
        let tree = storage.indexes.remove(position);
        let mut schema = TableSchema::clone(&before);
        schema.indexes.retain(|other| other.id != index);
        storage.schema = Arc::new(schema);
        tx.record(before.lifetime, table, Change::IndexDropped(tree, before));
        Ok(())
    }

    /// Sch-M, and the schema that can now be changed.
    pub(super) fn lock_for_change(&mut self, tx: &mut Transaction, table: ObjectId) -> SqlResult<Arc<TableSchema>> {
        self.lock_table(tx, table, LockMode::SchemaModification, true)?;
        self.schema_of(table)
    }
}

fn build_index(table: &Table, schema: &TableSchema, id: IndexId) -> SqlResult<IndexTree> {
    let index = schema.index(id).expect("it was just added");
    let mut entries = Vec::with_capacity(table.row_count());
    for (key, record) in table.rows.iter().filter(|(_, record)| !record.ghost) {
        let key = Key::new(key);
        let values = record.row.values(schema);
        if let Some(entry) = table.entry_key(index, &values, &key)? {
            entries.push(entry);
        }
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    if index.is_unique() {
        let twin = entries.windows(2).find(|pair| pair[0].prefix() == pair[1].prefix());
        if let Some([_, twin]) = twin {
            let row_key = Key::new(&twin.key.as_bytes()[twin.row_key_start..]);
            let values = table.live_row(&row_key).map(|row| row.values(schema)).unwrap_or_default();
            return Err(duplicate_while_creating(schema, index, &values));
        }
    }
    let mut tree = IndexTree::new(id);
    for entry in &entries {
        tree.put(entry);
    }
    Ok(tree)
}
