//! The executor: runs T-SQL against the storage.
//!
//! The way of a batch: [`session`] takes it from the connection → the parser → [`compile`] turns statements into steps
//! and binds them ([`binder`], `bind_*`), which needs names ([`catalog`], the storage) and ends in plans ([`plan`],
//! [`access_path`], [`query`]) → [`batch`] runs the steps: control of flow and errors there, procedures in
//! [`procedure`], queries and changes in [`modify`] over [`operate`] and [`evaluate`], everything else in [`statement`]
//! and [`ddl`] → [`output`] to the client.

mod access_path;
mod aggregate;
mod alter_database;
mod alter_table;
mod batch;
mod bind_expression;
mod bind_function;
mod bind_insert;
mod bind_merge;
mod bind_modify;
mod bind_query;
mod bind_source;
mod bind_window;
mod binder;
mod catalog;
mod catalog_view;
mod check_identity;
mod compile;
mod connections;
mod cursor;
mod ddl;
mod evaluate;
mod fault;
mod foreign_key;
mod foreign_key_ddl;
mod frame;
mod function;
mod index_activity;
mod index_ddl;
mod label;
mod lock_view;
mod locking;
mod merge;
mod modify;
mod next_value;
mod object_name;
mod open_json;
mod operate;
mod output;
mod permission;
mod plan;
mod principal;
mod procedure;
mod query;
mod recursion;
mod rename;
mod rpc;
mod scalar;
mod scope;
mod security;
mod select_into;
mod session;
mod state;
mod statement;
mod system_function;
mod system_procedure;
mod system_view;
mod table_ddl;
mod table_definition;
mod table_function;
#[cfg(test)]
mod tests;
mod transaction;
mod trigger;
mod unknown_procedure;
mod window;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::error::{SqlError, SqlResult};
use crate::storage::{self, fold};
use crate::tds::login::LoginRequest;
use batch::CompiledBatch;
use catalog::Catalog;
use connections::Connections;

pub use fault::Faults;
pub use session::{CancelHandle, Session};

/// The session ids up to 50 are the system's.
const FIRST_SPID: i32 = 51;
/// How many there are before numbers are used again: as many connections as SQL Server allows.
const SPIDS: i32 = 32_000;

/// What a new server starts with.
#[derive(Clone)]
pub struct EngineOptions {
    /// A login that may do everything, like `sa`, which is always there.
    pub user: String,
    /// The password of both.
    pub password: String,
    /// The name of the database that is there from the start, and the default of every login.
    pub database: String,
}

impl Default for EngineOptions {
    /// User `sa` with an empty password, and a database `readpast`.
    fn default() -> Self {
        EngineOptions { user: "sa".to_string(), password: String::new(), database: "readpast".to_string() }
    }
}

/// Compiled batches by database, schema of unqualified names, and text.
type BatchKey = (i32, Arc<str>, String);

/// How many compiled batches are kept; then all are forgotten, which costs no more than compiling them again.
const KEPT_BATCHES: usize = 1000;

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
pub struct DatabaseNames(RwLock<BTreeMap<i32, Arc<str>>>);

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
    fn new(id: i32, name: &str, connections: &Arc<Connections>, databases: &Arc<DatabaseNames>) -> Database {
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

    fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Release);
    }
}

/// A login of the server.
#[derive(Clone)]
struct Login {
    name: Arc<str>,
    /// `None`: somebody else says who the client is, Windows or an external provider.
    password: Option<Arc<str>>,
    default_database: Arc<str>,
    /// As a member of the server role sysadmin.
    is_administrator: bool,
}

/// A server: its logins and databases.
pub struct Engine {
    logins: RwLock<Vec<Login>>,
    databases: RwLock<Vec<Arc<Database>>>,
    next_spid: AtomicI32,
    connections: Arc<Connections>,
    names: Arc<DatabaseNames>,
    batches: Mutex<HashMap<BatchKey, (u64, Arc<CompiledBatch>)>>,
    /// In databases that are gone.
    entries_read_before: AtomicU64,
    /// What tests of clients want to go wrong.
    pub faults: Faults,
}

impl Engine {
    pub fn new(options: EngineOptions) -> Arc<Engine> {
        let connections = Arc::default();
        let names = Arc::default();
        let database = Arc::new(Database::new(5, &options.database, &connections, &names));
        let faults = Faults::default();
        faults.add_database(&database);
        let administrator = |name: &str| Login {
            name: name.into(),
            password: Some(options.password.as_str().into()),
            default_database: options.database.as_str().into(),
            is_administrator: true,
        };
        let mut logins = vec![administrator("sa")];
        if fold(&options.user) != "sa" {
            logins.push(administrator(&options.user));
        }
        Arc::new(Engine {
            logins: RwLock::new(logins),
            databases: RwLock::new(vec![database]),
            next_spid: AtomicI32::new(0),
            connections,
            names,
            batches: Mutex::new(HashMap::new()),
            entries_read_before: AtomicU64::new(0),
            faults,
        })
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// 18456 for a wrong name or password, 4060 for a database that is not there or that the login may not use.
    pub fn login(self: &Arc<Engine>, request: &LoginRequest) -> SqlResult<Session> {
        let refused = || SqlError::new(18456, format!("Login failed for user '{}'.", request.user)).severity(14);
        let login = self.find_login(&request.user).ok_or_else(refused)?;
        if login.password.as_deref() != request.password.as_deref() {
            return Err(refused());
        }
        let wanted = if request.database.is_empty() { &*login.default_database } else { &request.database };
        let no_database = || {
            SqlError::new(4060, format!("Cannot open database \"{wanted}\" requested by the login. The login failed."))
                .severity(11)
        };
        // A session lives in a user database; `master` and its like are not imitated.
        let database = self.find_database(wanted).ok_or_else(no_database)?;
        // @@SPID is a smallint.
        let spid = FIRST_SPID + self.next_spid.fetch_add(1, Ordering::Relaxed).rem_euclid(SPIDS);
        Session::open(Arc::clone(self), database, &login, request, spid).ok_or_else(no_database)
    }

    /// Ends every wait in every database: the server stops.
    pub fn stop(&self) {
        for database in self.databases.read().iter() {
            database.storage.stop();
        }
    }

    /// How many sessions wait for a lock.
    pub fn waiting_count(&self) -> usize {
        self.databases.read().iter().map(|database| database.storage.latch().waiting_count()).sum()
    }

    /// See [`crate::DevServer::entries_read`].
    pub fn entries_read(&self) -> u64 {
        let databases = self.databases.read();
        let here: u64 = databases.iter().map(|database| database.storage.entries_read()).sum();
        self.entries_read_before.load(Ordering::Relaxed) + here
    }

    fn find_login(&self, name: &str) -> Option<Login> {
        let name = fold(name);
        self.logins.read().iter().find(|login| fold(&login.name) == name).cloned()
    }

    fn find_database(&self, name: &str) -> Option<Arc<Database>> {
        let name = fold(name);
        self.databases.read().iter().find(|database| fold(&database.name) == name).cloned()
    }

    /// Adds a database; 1801 if there is one of that name.
    fn create_database(&self, name: &str) -> SqlResult<()> {
        let mut databases = self.databases.write();
        if self.names.id(name).is_some() {
            return Err(SqlError::new(
                1801,
                format!("Database '{name}' already exists. Choose a different database name."),
            )
            .state(3));
        }
        let id = databases.iter().map(|database| database.id).max().unwrap_or(4) + 1;
        let database = Arc::new(Database::new(id, name, &self.connections, &self.names));
        self.faults.add_database(&database);
        databases.push(database);
        Ok(())
    }

    /// Returns whether there was such a database.
    ///
    /// # Errors
    ///
    /// 3702 while any session uses it.
    fn drop_database(&self, name: &str) -> SqlResult<bool> {
        let mut databases = self.databases.write();
        let Some(position) = databases.iter().position(|database| fold(&database.name) == fold(name)) else {
            return Ok(false);
        };
        // The list holds one reference; every other belongs to a session.
        if Arc::strong_count(&databases[position]) > 1 {
            let message = format!("Cannot drop database \"{name}\" because it is currently in use.");
            return Err(SqlError::new(3702, message).state(4));
        }
        let dropped = databases.remove(position);
        self.entries_read_before.fetch_add(dropped.storage.entries_read(), Ordering::Relaxed);
        self.names.0.write().remove(&dropped.id);
        Ok(true)
    }
}
