//! A connection's session: what it has, and its place in a database.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::cancel::CancelHandle;
use crate::catalog::catalog::Undo;
use crate::catalog::connections::{Activity, Connection, Wire};
use crate::catalog::database::Database;
use crate::catalog::principal::default_schema_of;
use crate::execute::session_state::{Options, SessionState, TemporaryTable};
use crate::session::engine::Engine;
use crate::storage::{self, Mark, ObjectId, OwnTables, Transaction};
use crate::tds::login::LoginRequest;
use crate::value::now_utc;

/// A session. Dropping it rolls its transaction back and releases everything.
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) database: Arc<Database>,
    /// `None` only while the session is being dropped.
    storage: Option<storage::Session>,
    pub(crate) state: SessionState,
    /// The tables of the table variables.
    pub(crate) own_tables: OwnTables,
    /// The open transaction.
    pub(crate) tx: Option<Transaction>,
    /// The client was told of the open transaction.
    pub(crate) transaction_announced: bool,
    /// Name, place in the storage's changes, and place in `catalog_undo`.
    pub(crate) savepoints: Vec<(String, Mark, usize)>,
    /// How to take the transaction's changes of the catalog back.
    pub(crate) catalog_undo: Vec<Undo>,
    /// The `#temp` tables that the transaction has dropped: a rollback gives their names back.
    pub(crate) dropped_temporary: Vec<TemporaryTable>,
    /// Those that went with their procedure while the transaction was open: a rollback does not bring them back.
    pub(crate) ended_temporary: Vec<ObjectId>,
    /// The transaction has changed tables or the catalog: a rollback makes plans stale.
    pub(crate) has_changed_schema: bool,
    /// The nesting levels of the TRY blocks that are running.
    pub(crate) try_levels: Vec<u32>,
    /// The triggers that are running, the innermost last.
    pub(crate) running_triggers: Vec<RunningTrigger>,
    /// The worst error that nobody caught in the procedure that runs: its return status.
    pub(crate) worst_severity: Option<u8>,
    pub(crate) prepared: Vec<(i32, Prepared)>,
    pub(crate) next_handle: i32,
    pub(crate) cancel: CancelHandle,
    activity: Arc<Activity>,
}

/// A trigger that is running.
#[derive(Debug, Clone, Copy)]
pub struct RunningTrigger {
    pub trigger: ObjectId,
    pub table: ObjectId,
}

/// A prepared statement: its parameters as declared, and its text.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub declared: Arc<str>,
    pub text: Arc<str>,
}

impl Session {
    /// `None` if the login has no user in the database.
    pub(crate) fn open(
        engine: Arc<Engine>,
        database: Arc<Database>,
        login: &crate::catalog::server::Login,
        request: &LoginRequest,
        spid: i32,
    ) -> Option<Session> {
        let (user, default_schema) = {
            let catalog = database.catalog.read();
            let principal = catalog.principals.user_of_session(&login.name, login.is_administrator)?;
            (principal.id, default_schema_of(&principal.kind))
        };
        let storage = database.storage.open_session(spid);
        let cancel = CancelHandle::new(&database, storage.handle());
        let state = SessionState {
            spid,
            login: Arc::clone(&login.name),
            is_administrator: login.is_administrator,
            host_name: request.host_name.as_str().into(),
            app_name: request.app_name.as_str().into(),
            user,
            default_schema,
            options: Options::default(),
            context: HashMap::new(),
            row_count: 0,
            error: 0,
            identity: None,
            scope_identity: None,
            transaction_count: 0,
            doomed: false,
            caught: Vec::new(),
            nest_level: 0,
            temporary_tables: Vec::new(),
            identity_insert: None,
            cursors: Vec::new(),
            fetch_status: 0,
            in_insert_exec: false,
        };
        let activity = Arc::new(Activity::default());
        engine.connections.add(Connection {
            spid,
            login: Arc::clone(&login.name),
            host_name: request.host_name.as_str().into(),
            app_name: request.app_name.as_str().into(),
            login_time: now_utc(),
            activity: Arc::clone(&activity),
            wire: None,
            cancel: cancel.clone(),
        });
        Some(Session {
            engine,
            database,
            storage: Some(storage),
            state,
            own_tables: OwnTables::default(),
            tx: None,
            transaction_announced: false,
            savepoints: Vec::new(),
            catalog_undo: Vec::new(),
            dropped_temporary: Vec::new(),
            ended_temporary: Vec::new(),
            has_changed_schema: false,
            try_levels: Vec::new(),
            running_triggers: Vec::new(),
            worst_severity: None,
            prepared: Vec::new(),
            next_handle: 1,
            cancel,
            activity,
        })
    }

    /// The name of the current database.
    pub fn database(&self) -> Arc<str> {
        Arc::clone(&self.database.name)
    }

    /// `@@SPID`.
    pub fn spid(&self) -> u16 {
        self.state.spid as u16
    }

    /// What sys.dm_exec_connections is to tell of its connection.
    pub fn note_wire(&self, wire: Wire) {
        self.engine.connections.note_wire(self.state.spid, wire);
    }

    /// What is to close the connection when the session is killed.
    pub fn on_kill(&self, close: impl Fn() + Send + 'static) {
        self.activity.on_kill(close);
    }

    pub(crate) fn note_waitfor(&self, sleeping: bool) {
        self.activity.note_waitfor(sleeping);
    }

    pub(crate) fn note_activity(&self, running: bool) {
        self.activity.note(running, self.state.transaction_count, self.state.options.isolation);
    }

    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.storage().handle().is_cancelled()
    }

    /// The session's place in the storage.
    pub(crate) fn storage(&self) -> &storage::Session {
        self.storage.as_ref().expect("a session has it until it is dropped")
    }

    /// A transaction; there is no other one.
    pub(crate) fn new_transaction(&self) -> Transaction {
        let mut tx = Transaction::begin(self.storage());
        tx.lock_timeout = self.state.options.lock_timeout;
        tx.deadlock_priority = self.state.options.deadlock_priority;
        tx
    }

    /// Gives up everything the session has in its database, and takes a new place in it.
    pub(crate) fn take_new_place(&mut self) {
        let storage = self.database.storage.open_session(self.state.spid);
        self.cancel.point_at(storage.handle());
        if let Some(old) = self.storage.replace(storage) {
            self.database.storage.close_session(old);
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.database.version()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abandon_transaction();
        self.drop_temporary_tables(0);
        self.engine.connections.remove(self.state.spid);
        if let Some(storage) = self.storage.take() {
            self.database.storage.close_session(storage);
        }
    }
}
