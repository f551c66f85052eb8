//! Everything that sessions share: what the latch guards.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::catalog_name::ChangedName;
use super::locks::lock_table::LockTable;
use super::locks::resource::ObjectId;
use super::schema::{Lifetime, TableSchema, fold};
use super::table::Table;
use super::versions::VersionStore;

/// User objects have large numbers in SQL Server; small ones are the system's.
const FIRST_OBJECT_ID: ObjectId = 100_000;

/// Everything the latch guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tables: FxHashMap<ObjectId, Table>,
    /// Permanent tables by folded schema and name.
    pub(super) names: HashMap<(String, String), ObjectId>,
    /// Tables whose drop is not committed: another session that asks for the name must wait, as it would in SQL Server.
    pub(super) dropping: HashMap<(String, String), ObjectId>,
    pub(super) locks: LockTable,
    /// Names that open transactions change; each has a Sch-M lock.
    pub(super) changed_names: Vec<ChangedName>,
    pub(super) next_object_id: ObjectId,
    pub(super) row_version: u64,
    pub(super) name: String,
    /// ALLOW_SNAPSHOT_ISOLATION.
    pub(super) allow_snapshot: bool,
    /// There while one of the two is on.
    pub(super) versions: Option<Box<VersionStore>>,
    /// Committed deletes leave ghosts: see `ghosts.rs`.
    pub(super) keep_ghosts: bool,
    /// By scans, ghosts included.
    pub(super) entries_read: u64,
}

impl State {
    pub(super) fn new(name: &str) -> Self {
        State {
            tables: FxHashMap::default(),
            names: HashMap::new(),
            dropping: HashMap::new(),
            locks: LockTable::default(),
            changed_names: Vec::new(),
            next_object_id: FIRST_OBJECT_ID,
            row_version: 0,
            name: name.to_string(),
            allow_snapshot: false,
            versions: None,
            keep_ghosts: false,
            entries_read: 0,
        }
    }

    /// The same tables and rows for another database, without the temporary ones; `None` while anybody has a lock on
    /// anything in it.
    pub(super) fn copy(&self, name: &str) -> Option<State> {
        if !self.locks.is_idle() {
            return None;
        }
        let permanent = self.tables.iter().filter(|(_, table)| table.schema.lifetime == Lifetime::Permanent);
        let tables: FxHashMap<_, _> = permanent.map(|(id, table)| (*id, table.clone())).collect();
        let names = self.names.iter().filter(|(_, id)| tables.contains_key(*id));
        Some(State {
            names: names.map(|(name, id)| (name.clone(), *id)).collect(),
            tables,
            next_object_id: self.next_object_id,
            row_version: self.row_version,
            allow_snapshot: self.allow_snapshot,
            versions: self.versions.is_some().then(Box::default),
            keep_ghosts: self.keep_ghosts,
            ..State::new(name)
        })
    }

    fn name_of(schema: &TableSchema) -> (String, String) {
        (fold(&schema.schema), fold(&schema.name))
    }

    pub(super) fn add_name(&mut self, schema: &TableSchema) {
        if schema.lifetime.is_shared() {
            self.names.insert(Self::name_of(schema), schema.id);
        }
    }

    pub(super) fn remove_name(&mut self, schema: &TableSchema) {
        let name = Self::name_of(schema);
        if self.names.get(&name) == Some(&schema.id) {
            self.names.remove(&name);
        }
    }

    pub(super) fn begin_drop(&mut self, table: &Table) {
        self.remove_name(&table.schema);
        if table.schema.lifetime.is_shared() {
            self.dropping.insert(Self::name_of(&table.schema), table.schema.id);
        }
    }

    pub(super) fn forget_drop(&mut self, table: &Table) {
        let name = Self::name_of(&table.schema);
        if self.dropping.get(&name) == Some(&table.schema.id) {
            self.dropping.remove(&name);
        }
    }
}
