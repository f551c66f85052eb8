//! The server: its logins and databases.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::catalog::connections::Connections;
use crate::catalog::database::{Database, DatabaseNames};
use crate::error::{SqlError, SqlResult};
use crate::session::fault::Faults;
use crate::session::plan_cache::PlanCache;
use crate::storage::fold;

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

/// A login of the server.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) name: Arc<str>,
    /// `None`: somebody else says who the client is, Windows or an external provider.
    pub(crate) password: Option<Arc<str>>,
    pub(crate) default_database: Arc<str>,
    /// As a member of the server role sysadmin.
    pub(crate) is_administrator: bool,
}

/// A server: its logins and databases.
pub struct Engine {
    pub(crate) logins: RwLock<Vec<Login>>,
    pub(crate) databases: RwLock<Vec<Arc<Database>>>,
    pub(crate) next_spid: AtomicI32,
    pub(crate) connections: Arc<Connections>,
    names: Arc<DatabaseNames>,
    pub(crate) plans: PlanCache,
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
            plans: PlanCache::default(),
            entries_read_before: AtomicU64::new(0),
            faults,
        })
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

    pub(crate) fn find_login(&self, name: &str) -> Option<Login> {
        let name = fold(name);
        self.logins.read().iter().find(|login| fold(&login.name) == name).cloned()
    }

    pub(crate) fn find_database(&self, name: &str) -> Option<Arc<Database>> {
        let name = fold(name);
        self.databases.read().iter().find(|database| fold(&database.name) == name).cloned()
    }

    /// Adds a database; 1801 if there is one of that name.
    pub(crate) fn create_database(&self, name: &str) -> SqlResult<()> {
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
    pub(crate) fn drop_database(&self, name: &str) -> SqlResult<bool> {
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
