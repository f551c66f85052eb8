//! One database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::catalog::catalog::Catalog;
use crate::catalog::connections::Connections;
use crate::catalog::server::{DatabaseEntry, DatabaseOptions, MASTER, Server};
use crate::storage::{self, Latch};

/// One database.
pub struct Database {
    pub id: i32,
    pub name: Arc<str>,
    pub storage: storage::Database,
    pub catalog: RwLock<Catalog>,
    /// Those of the whole server.
    pub connections: Arc<Connections>,
    pub server: Arc<Server>,
    /// Grows with every change of a table or of the catalog: plans made before are stale then.
    version: AtomicU64,
    options: Arc<DatabaseOptions>,
}

impl Database {
    pub(crate) fn new(id: i32, name: &str, connections: &Arc<Connections>, server: &Arc<Server>) -> Database {
        let options = Arc::new(DatabaseOptions::new(server.product));
        let entry = DatabaseEntry::new(name, Arc::clone(&options), "SIMPLE");
        server.databases.write().insert(id, entry);
        let database = Database {
            id,
            name: name.into(),
            storage: storage::Database::new(name),
            catalog: RwLock::new(Catalog::new()),
            connections: Arc::clone(connections),
            server: Arc::clone(server),
            version: AtomicU64::new(1),
            options,
        };
        if id == MASTER {
            // Every login may be in it, and snapshots are allowed there from the start.
            database.catalog.write().principals.let_guest_connect();
            database.set_versioning(&mut database.storage.latch(), false, true);
        } else if server.product.is_azure() {
            // "READ_COMMITTED_SNAPSHOT … ON in Azure SQL Database", and "ALLOW_SNAPSHOT_ISOLATION … on by default":
            // "ALTER DATABASE SET options" (MicrosoftDocs/sql-docs,
            // docs/t-sql/statements/alter-database-transact-sql-set-options.md).
            database.set_versioning(&mut database.storage.latch(), true, true);
        }
        database
    }

    /// A database of another name with all that is in this one; `None` while anybody has a lock on anything in it.
    pub(crate) fn copy(&self, id: i32, name: &str) -> Option<Database> {
        // What a transaction has changed in the catalog is locked in the storage until it ends.
        let latch = self.storage.latch();
        let storage = latch.copy_database(name)?;
        let catalog = self.catalog.read().copy();
        drop(latch);
        let copy = Database {
            storage,
            catalog: RwLock::new(catalog),
            ..Database::new(id, name, &self.connections, &self.server)
        };
        copy.options.set_compatibility_level(self.compatibility_level());
        copy.options.set_read_only(self.options.is_read_only());
        copy.options.set_versioning(self.options.reads_committed_snapshot(), self.options.allows_snapshot());
        Some(copy)
    }

    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Makes every plan stale.
    pub fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    pub fn is_read_only(&self) -> bool {
        self.options.is_read_only()
    }

    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.options.set_read_only(read_only);
    }

    pub fn compatibility_level(&self) -> u8 {
        self.options.compatibility_level()
    }

    /// Procedures are compiled again under the new level.
    pub(crate) fn set_compatibility_level(&self, level: u8) {
        self.options.set_compatibility_level(level);
        self.changed();
    }

    /// READ_COMMITTED_SNAPSHOT and ALLOW_SNAPSHOT_ISOLATION.
    pub(crate) fn set_versioning(&self, latch: &mut Latch<'_>, reads_committed_snapshot: bool, allows_snapshot: bool) {
        latch.set_versioning(reads_committed_snapshot, allows_snapshot);
        self.options.set_versioning(reads_committed_snapshot, allows_snapshot);
    }
}
