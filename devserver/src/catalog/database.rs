//! One database, and the names of the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::catalog::catalog::Catalog;
use crate::catalog::connections::Connections;
use crate::storage::{self, fold};

/// One database.
pub struct Database {
    pub id: i32,
    pub name: Arc<str>,
    pub storage: storage::Database,
    pub catalog: RwLock<Catalog>,
    /// Those of the whole server.
    pub connections: Arc<Connections>,
    /// Of the whole server.
    pub databases: Arc<DatabaseNames>,
    /// Grows with every change of a table or of the catalog: plans made before are stale then.
    version: AtomicU64,
    read_only: AtomicBool,
}

/// The ids and names of a server's databases: what one database may know of the others.
#[derive(Default)]
pub struct DatabaseNames(pub(crate) RwLock<BTreeMap<i32, Arc<str>>>);

/// The system databases (docs/relational-databases/databases/system-databases.md); sessions cannot use them here.
const SYSTEM_DATABASES: [(i32, &str); 4] = [(1, "master"), (2, "tempdb"), (3, "model"), (4, "msdb")];

impl DatabaseNames {
    pub fn id(&self, name: &str) -> Option<i32> {
        let names = self.0.read();
        let user = names.iter().map(|(id, name)| (*id, &**name));
        user.chain(SYSTEM_DATABASES).find(|(_, known)| fold(known) == fold(name)).map(|(id, _)| id)
    }

    pub fn name(&self, id: i32) -> Option<Arc<str>> {
        let system = || SYSTEM_DATABASES.iter().find(|(known, _)| *known == id).map(|(_, name)| Arc::from(*name));
        self.0.read().get(&id).cloned().or_else(system)
    }
}

impl Database {
    pub(crate) fn new(id: i32, name: &str, connections: &Arc<Connections>, databases: &Arc<DatabaseNames>) -> Database {
        databases.0.write().insert(id, name.into());
        Database {
            id,
            name: name.into(),
            storage: storage::Database::new(name),
            catalog: RwLock::new(Catalog::new()),
            connections: Arc::clone(connections),
            databases: Arc::clone(databases),
            version: AtomicU64::new(1),
            read_only: AtomicBool::new(false),
        }
    }

    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Makes every plan stale.
    pub fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Release);
    }
}
