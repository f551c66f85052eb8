//! The server: its logins and databases.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::catalog::connections::Connections;
use crate::catalog::database::Database;
use crate::catalog::release::Release;
use crate::catalog::server::{Login, MASTER, MASTER_NAME, Product, Server};
use crate::error::{SqlError, SqlResult};
use crate::session::injected_faults::Faults;
use crate::session::plan_cache::PlanCache;
use crate::storage::fold;
use crate::tsql::check_name;

/// The id of the first database that is none of the system.
const FIRST_DATABASE: i32 = 5;

/// What a new server starts with.
#[derive(Clone)]
pub struct EngineOptions {
    /// A login that may do everything, like `sa`, which is always there.
    pub user: String,
    /// The password of both.
    pub password: String,
    /// The name of the database that is there from the start, and the default of every login.
    pub database: String,
    /// What the server says it is.
    pub product: Product,
}

impl Default for EngineOptions {
    /// User `sa` with an empty password, and a database `readpast`.
    fn default() -> Self {
        EngineOptions {
            user: "sa".to_string(),
            password: String::new(),
            database: "readpast".to_string(),
            product: Product::default(),
        }
    }
}

/// A server: its logins and databases.
pub struct Engine {
    pub(crate) databases: RwLock<Vec<Arc<Database>>>,
    /// No number comes again: sessions may still be in a database that is gone.
    next_database: AtomicI32,
    pub(crate) next_spid: AtomicI32,
    pub(crate) connections: Arc<Connections>,
    pub(crate) server: Arc<Server>,
    pub(crate) plans: PlanCache,
    /// In databases that are gone.
    entries_read_before: AtomicU64,
    /// What tests of clients want to go wrong.
    pub faults: Faults,
}

impl Engine {
    pub fn new(options: EngineOptions) -> Arc<Engine> {
        let connections = Arc::default();
        let server = Arc::new(Server::new(options.product));
        let faults = Faults::default();
        let mut databases = vec![Arc::new(Database::new(MASTER, MASTER_NAME, &connections, &server))];
        if server.database_id(&options.database).is_none() {
            databases.push(Arc::new(Database::new(FIRST_DATABASE, &options.database, &connections, &server)));
        }
        for database in &databases {
            faults.add_database(database);
        }
        let add_administrator = |name: &str| {
            server.add_login(
                &name.into(),
                Some(options.password.as_str().into()),
                options.database.as_str().into(),
                true,
            );
        };
        add_administrator("sa");
        if fold(&options.user) != "sa" {
            add_administrator(&options.user);
        }
        Arc::new(Engine {
            databases: RwLock::new(databases),
            next_database: AtomicI32::new(FIRST_DATABASE + 1),
            next_spid: AtomicI32::new(0),
            connections,
            server,
            plans: PlanCache::default(),
            entries_read_before: AtomicU64::new(0),
            faults,
        })
    }

    pub(crate) fn product(&self) -> Product {
        self.server.product
    }

    pub(crate) fn release(&self) -> &'static Release {
        Release::of(self.server.product)
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
        self.server.logins.read().iter().find(|login| fold(&login.name) == name).cloned()
    }

    pub(crate) fn find_database(&self, name: &str) -> Option<Arc<Database>> {
        let name = fold(name);
        self.databases.read().iter().find(|database| fold(&database.name) == name).cloned()
    }

    /// Adds a database; 1801 if there is one of that name.
    pub(crate) fn create_database(&self, name: &str) -> SqlResult<()> {
        self.add_database(name, |_, id| Ok(Database::new(id, name, &self.connections, &self.server)))
    }

    /// Adds a database with all that is in another one.
    ///
    /// # Errors
    ///
    /// 911 if there is no such database, 1801 if there is one of the new name, 1038 or 103 if that is empty or has more
    /// than 128 characters, 3702 while anybody has a lock on anything in it.
    pub fn copy_database(&self, from: &str, to: &str) -> SqlResult<()> {
        self.add_database(to, |databases, id| {
            let source = databases.iter().find(|database| fold(&database.name) == fold(from));
            let source = source.ok_or_else(|| {
                let message =
                    format!("Database '{from}' does not exist. Make sure that the name is entered correctly.");
                SqlError::new(911, message)
            })?;
            source.copy(id, to).ok_or_else(|| {
                let message = format!("Cannot copy database '{from}' because it is currently in use.");
                SqlError::new(3702, message)
            })
        })
    }

    fn add_database(
        &self,
        name: &str,
        make: impl FnOnce(&[Arc<Database>], i32) -> SqlResult<Database>,
    ) -> SqlResult<()> {
        check_name(name, 1)?;
        let mut databases = self.databases.write();
        if self.server.database_id(name).is_some() {
            return Err(SqlError::new(
                1801,
                format!("Database '{name}' already exists. Choose a different database name."),
            )
            .state(3));
        }
        let id = self.next_database.fetch_add(1, Ordering::Relaxed);
        let database = Arc::new(make(&databases, id)?);
        self.faults.add_database(&database);
        databases.push(database);
        Ok(())
    }

    /// Returns whether there was such a database.
    ///
    /// # Errors
    ///
    /// 3702 while any session uses it, 3708 for a system database.
    pub(crate) fn drop_database(&self, name: &str) -> SqlResult<bool> {
        check_drop(&self.server, name)?;
        let mut databases = self.databases.write();
        let Some(position) = databases.iter().position(|database| fold(&database.name) == fold(name)) else {
            return Ok(false);
        };
        // The list holds one reference; every other belongs to a session.
        if Arc::strong_count(&databases[position]) > 1 {
            let message = format!("Cannot drop database \"{name}\" because it is currently in use.");
            return Err(SqlError::new(3702, message).state(4));
        }
        self.forget_database(databases.remove(position));
        Ok(true)
    }

    /// Removes a database, whoever is in it: their sessions are killed.
    ///
    /// # Errors
    ///
    /// 3701 if there is no such database, 3708 for a system database.
    pub fn end_database(&self, name: &str) -> SqlResult<()> {
        check_drop(&self.server, name)?;
        let mut databases = self.databases.write();
        let Some(position) = databases.iter().position(|database| fold(&database.name) == fold(name)) else {
            let message =
                format!("Cannot drop the database '{name}', because it does not exist or you do not have permission.");
            return Err(SqlError::new(3701, message).state(1));
        };
        let dropped = databases.remove(position);
        drop(databases);
        for connection in self.connections.all() {
            if Arc::ptr_eq(&connection.database(), &dropped) {
                connection.kill();
            }
        }
        self.forget_database(dropped);
        Ok(())
    }

    fn forget_database(&self, dropped: Arc<Database>) {
        self.entries_read_before.fetch_add(dropped.storage.entries_read(), Ordering::Relaxed);
        self.server.databases.write().remove(&dropped.id);
        self.plans.forget_database(dropped.id);
    }
}

fn check_drop(server: &Server, name: &str) -> SqlResult<()> {
    if server.database_id(name).is_some_and(|id| id < FIRST_DATABASE) {
        let message = format!("Cannot drop the database '{name}' because it is a system database.");
        return Err(SqlError::new(3708, message));
    }
    Ok(())
}
