//! What all databases of a server know of it: the names and options of each other, and the logins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

use parking_lot::RwLock;
use uuid::Uuid;

use crate::catalog::catalog::Moment;
use crate::catalog::release::Release;
use crate::storage::fold;
use crate::value::now_utc;

/// The id of `master`.
pub const MASTER: i32 = 1;
/// The id of tempdb.
pub const TEMPDB: i32 = 2;
/// The name of the system database that sessions can be in.
pub const MASTER_NAME: &str = "master";
/// Where #temp tables stand. Here they stand in the database of their session.
pub const TEMPDB_NAME: &str = "tempdb";

/// What a server says it is.
///
/// Source: "SERVERPROPERTY" (MicrosoftDocs/sql-docs, docs/t-sql/functions/serverproperty-transact-sql.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// `ProductMajorVersion`: 13 is SQL Server 2016, 14 is 2017, 15 is 2019, 16 is 2022, 17 is 2025.
    pub major_version: u8,
    /// `EngineEdition`: 2 is Standard, 3 Enterprise or Developer, 4 Express.
    pub engine_edition: u8,
    /// `ServiceObjective` of the databases in Azure SQL Database, such as `S0`.
    pub service_objective: &'static str,
    /// `max worker threads`; 0: it chooses itself.
    pub max_worker_threads: i32,
}

impl Product {
    /// Its version number is no SQL Server's: "Version 12 of Azure SQL Database is newer than version 15 of SQL
    /// Server".
    pub const AZURE_SQL_DATABASE: Product =
        Product { major_version: 12, engine_edition: 5, service_objective: "GP_Gen5_2", max_worker_threads: 0 };

    /// SQL Server of a year, 2016 to 2025, Developer Edition.
    pub fn sql_server(year: u16) -> Option<Product> {
        Release::major_version_of(year).map(|major_version| Product { major_version, ..Product::default() })
    }

    pub fn is_azure(self) -> bool {
        self.engine_edition == Product::AZURE_SQL_DATABASE.engine_edition
    }

    /// Not in Standard and Express Edition. Source: "Editions and supported features of SQL Server 2022", "Online index
    /// create and rebuild" (MicrosoftDocs/sql-docs, docs/sql-server/editions-and-components-of-sql-server-2022.md).
    pub(crate) fn builds_indexes_online(self) -> bool {
        !matches!(self.engine_edition, 2 | 4)
    }

    /// Source: "ALTER DATABASE compatibility level", the table of supported values (MicrosoftDocs/sql-docs,
    /// docs/t-sql/statements/alter-database-transact-sql-compatibility-level.md).
    pub(crate) fn newest_compatibility_level(self) -> u8 {
        if self.is_azure() { 160 } else { self.major_version * 10 }
    }

    fn default_compatibility_level(self) -> u8 {
        if self.is_azure() { 150 } else { self.newest_compatibility_level() }
    }
}

impl Default for Product {
    /// SQL Server 2022, Developer Edition.
    fn default() -> Self {
        Product { major_version: 16, engine_edition: 3, service_objective: "", max_worker_threads: 0 }
    }
}

/// A server, as its databases see it.
pub struct Server {
    pub product: Product,
    pub databases: RwLock<BTreeMap<i32, DatabaseEntry>>,
    pub(crate) logins: RwLock<Vec<Login>>,
    next_login_id: AtomicI32,
}

/// What one database may know of another.
#[derive(Clone)]
pub struct DatabaseEntry {
    pub name: Arc<str>,
    pub options: Arc<DatabaseOptions>,
    pub recovery_model: &'static str,
    /// Of sys.database_recovery_status: new for each database, also for a copy.
    pub database_guid: Uuid,
    pub recovery_fork_guid: Uuid,
    pub created_at: (u32, u64),
    /// It has a name and nothing else: nobody can be in it.
    pub is_only_a_name: bool,
}

impl DatabaseEntry {
    pub(crate) fn new(name: &str, options: Arc<DatabaseOptions>, recovery_model: &'static str) -> DatabaseEntry {
        DatabaseEntry {
            name: name.into(),
            options,
            recovery_model,
            database_guid: Uuid::new_v4(),
            recovery_fork_guid: Uuid::new_v4(),
            created_at: now_utc(),
            is_only_a_name: false,
        }
    }
}

/// The options of a database that others see.
#[derive(Debug)]
pub struct DatabaseOptions {
    read_only: AtomicBool,
    reads_committed_snapshot: AtomicBool,
    allows_snapshot: AtomicBool,
    compatibility_level: AtomicU8,
}

impl DatabaseOptions {
    pub(crate) fn new(product: Product) -> DatabaseOptions {
        DatabaseOptions {
            read_only: AtomicBool::new(false),
            reads_committed_snapshot: AtomicBool::new(false),
            allows_snapshot: AtomicBool::new(false),
            compatibility_level: AtomicU8::new(product.default_compatibility_level()),
        }
    }

    pub fn compatibility_level(&self) -> u8 {
        self.compatibility_level.load(Ordering::Acquire)
    }

    pub(crate) fn set_compatibility_level(&self, level: u8) {
        self.compatibility_level.store(level, Ordering::Release);
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Release);
    }

    pub fn reads_committed_snapshot(&self) -> bool {
        self.reads_committed_snapshot.load(Ordering::Acquire)
    }

    pub fn allows_snapshot(&self) -> bool {
        self.allows_snapshot.load(Ordering::Acquire)
    }

    pub(crate) fn set_versioning(&self, reads_committed_snapshot: bool, allows_snapshot: bool) {
        self.reads_committed_snapshot.store(reads_committed_snapshot, Ordering::Release);
        self.allows_snapshot.store(allows_snapshot, Ordering::Release);
    }
}

/// A login of the server.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) id: i32,
    pub(crate) name: Arc<str>,
    /// `None`: somebody else says who the client is, Windows or an external provider.
    pub(crate) password: Option<Arc<str>>,
    pub(crate) default_database: Arc<str>,
    /// As a member of the server role sysadmin.
    pub(crate) is_administrator: bool,
    pub(crate) created_at: Moment,
}

impl Server {
    /// Without a database that sessions can be in, and with `sa` to come.
    ///
    /// Source for the options of the system databases: "master database", "tempdb database", "model database" and "msdb
    /// database" (MicrosoftDocs/sql-docs, docs/relational-databases/databases/).
    pub(crate) fn new(product: Product) -> Server {
        let name_only = |name: &str, recovery_model, allows_snapshot| {
            let options = DatabaseOptions::new(product);
            options.set_versioning(false, allows_snapshot);
            DatabaseEntry { is_only_a_name: true, ..DatabaseEntry::new(name, Arc::new(options), recovery_model) }
        };
        let databases = BTreeMap::from([
            (TEMPDB, name_only(TEMPDB_NAME, "SIMPLE", false)),
            (3, name_only("model", "FULL", false)),
            (4, name_only("msdb", "SIMPLE", true)),
        ]);
        Server {
            product,
            databases: RwLock::new(databases),
            logins: RwLock::default(),
            next_login_id: AtomicI32::new(1),
        }
    }

    pub fn database_id(&self, name: &str) -> Option<i32> {
        let databases = self.databases.read();
        databases.iter().find(|(_, known)| fold(&known.name) == fold(name)).map(|(id, _)| *id)
    }

    pub fn database(&self, id: i32) -> Option<DatabaseEntry> {
        self.databases.read().get(&id).cloned()
    }

    pub fn database_named(&self, name: &str) -> Option<DatabaseEntry> {
        self.database_id(name).and_then(|id| self.database(id))
    }

    pub(crate) fn add_login(
        &self,
        name: &Arc<str>,
        password: Option<Arc<str>>,
        default_database: Arc<str>,
        is_administrator: bool,
    ) {
        let id = self.next_login_id.fetch_add(1, Ordering::Relaxed);
        self.logins.write().push(Login {
            id,
            name: Arc::clone(name),
            password,
            default_database,
            is_administrator,
            created_at: now_utc(),
        });
    }
}
