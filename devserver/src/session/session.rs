//! A connection's session: from requests to running batches.

use std::sync::Arc;
use std::time::Instant;

use crate::bind::compile::{Compiler, Surroundings};
use crate::catalog::catalog::Undo;
use crate::catalog::database::Database;
use crate::error::{SqlError, SqlResult};
use crate::execute::session_state::{Options, SessionState};
use crate::execute::system_function::default_schema_of;
use crate::execute::variables::Activation;
use crate::plan::batch::CompiledBatch;
use crate::plan::declarations::Declarations;
use crate::session::batch::{Control, Failure, Origin};
use crate::session::connections::{Activity, Connection};
use crate::session::engine::BatchKey;
use crate::session::engine::Engine;
use crate::session::engine::KEPT_BATCHES;
use crate::session::output::Output;
use crate::session::trigger::RunningTrigger;
use crate::storage::{self, Lifetime, Mark, ObjectId, OwnTables, SessionHandle, TableSchema, Transaction, fold};
use crate::tds::login::LoginRequest;
use crate::tds::request::{RpcCall, TransactionRequest};
use crate::tds::token::{ResponseWriter, StatementKind};
use crate::tsql;
use crate::tsql::ast::Statement;
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
    /// The name given to the outermost BEGIN TRANSACTION.
    pub(crate) transaction_name: Option<String>,
    /// How to take the transaction's changes of the catalog back.
    pub(crate) catalog_undo: Vec<Undo>,
    /// The transaction has changed tables or the catalog: a rollback makes plans stale.
    pub(crate) has_changed_schema: bool,
    /// The nesting levels of the TRY blocks that are running.
    pub(crate) try_levels: Vec<u32>,
    /// The label that GOTO is on its way to.
    pub(crate) jump: Option<usize>,
    /// The triggers that are running, the innermost last.
    pub(crate) running_triggers: Vec<RunningTrigger>,
    /// The worst error that nobody caught in the procedure that runs: its return status.
    pub(crate) worst_severity: Option<u8>,
    pub(crate) prepared: Vec<(i32, crate::session::rpc::Prepared)>,
    pub(crate) next_handle: i32,
    pub(crate) cancel: CancelHandle,
    activity: Arc<Activity>,
}

/// Cancels what a session is doing, from another thread.
#[derive(Clone)]
pub struct CancelHandle {
    inner: Arc<parking_lot::Mutex<(Arc<Database>, SessionHandle)>>,
}

impl CancelHandle {
    /// The client's attention signal.
    pub fn cancel(&self) {
        let (database, session) = {
            let inner = self.inner.lock();
            (Arc::clone(&inner.0), inner.1.clone())
        };
        database.storage.cancel(&session);
    }

    /// Everything the session does from now on fails.
    pub fn kill(&self) {
        let (database, session) = {
            let inner = self.inner.lock();
            (Arc::clone(&inner.0), inner.1.clone())
        };
        database.storage.kill(&session);
    }

    /// What a cancel is for from now on.
    pub(crate) fn point_at(&self, database: &Arc<Database>, session: SessionHandle) {
        *self.inner.lock() = (Arc::clone(database), session);
    }

    pub(crate) fn database(&self) -> Arc<Database> {
        Arc::clone(&self.inner.lock().0)
    }
}

impl Session {
    /// `None` if the login has no user in the database.
    pub(crate) fn open(
        engine: Arc<Engine>,
        database: Arc<Database>,
        login: &crate::session::engine::Login,
        request: &LoginRequest,
        spid: i32,
    ) -> Option<Session> {
        let (user, default_schema) = {
            let catalog = database.catalog.read();
            let principal = catalog.principals.user_of_session(&login.name, login.is_administrator)?;
            (principal.id, default_schema_of(&principal.kind))
        };
        let storage = database.storage.open_session(spid);
        let cancel =
            CancelHandle { inner: Arc::new(parking_lot::Mutex::new((Arc::clone(&database), storage.handle()))) };
        let state = SessionState {
            spid,
            login: Arc::clone(&login.name),
            is_administrator: login.is_administrator,
            host_name: request.host_name.as_str().into(),
            app_name: request.app_name.as_str().into(),
            user,
            default_schema,
            options: Options::default(),
            row_count: 0,
            error: 0,
            identity: None,
            transaction_count: 0,
            doomed: false,
            caught: Vec::new(),
            nest_level: 0,
            trigger_level: 0,
            temporary_tables: Vec::new(),
            identity_insert: None,
            context_info: None,
            cursors: Vec::new(),
            cursor_closing_transactions: 0,
            fetch_status: 0,
            cursor_rows: 0,
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
            transaction_name: None,
            catalog_undo: Vec::new(),
            has_changed_schema: false,
            try_levels: Vec::new(),
            running_triggers: Vec::new(),
            jump: None,
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

    /// What is to close the connection when the session is killed.
    pub fn on_kill(&self, close: impl Fn() + Send + 'static) {
        self.activity.on_kill(close);
    }

    pub(crate) fn note_waitfor(&self, since: Option<Instant>) {
        self.activity.note_waitfor(since);
    }

    fn note_activity(&self, running: bool) {
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
        Transaction::begin(self.storage())
    }

    /// Gives up everything the session has in its database, and takes a new place in another one (or the same).
    pub(crate) fn move_to(&mut self, database: Arc<Database>) {
        let storage = database.storage.open_session(self.state.spid);
        *self.cancel.inner.lock() = (Arc::clone(&database), storage.handle());
        let old_database = std::mem::replace(&mut self.database, database);
        if let Some(old) = self.storage.replace(storage) {
            old_database.storage.close_session(old);
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.database.version()
    }

    /// Runs a SQL batch.
    pub fn run_batch(&mut self, sql: &str, writer: &mut ResponseWriter) {
        self.storage().handle().clear_cancel();
        self.note_activity(true);
        let mut out = Output::new(writer);
        let mut scope = Activation { check_permissions: true, ..Activation::default() };
        let compiled = match self.compiled_batch(sql, Declarations::default()) {
            Ok(compiled) => compiled,
            Err(error) => {
                self.refuse_batch(error, &mut out);
                return;
            }
        };
        let result = self.run_compiled(&compiled, &mut scope, &mut out);
        if result.is_err() {
            // The statement that ended everything has not written its own DONE.
            out.writer().done_statement(StatementKind::Other, None);
        }
        self.end_of_request(result.map(|_| ()), &mut out);
    }

    /// An error before anything ran.
    pub(crate) fn refuse_batch(&mut self, error: SqlError, out: &mut Output<'_>) {
        self.state.error = error.number;
        out.error(&error.at_line(1));
        out.writer().done_statement(StatementKind::Other, None);
        self.end_of_request(Ok(()), out);
    }

    pub fn run_rpc(&mut self, call: RpcCall, writer: &mut ResponseWriter) {
        self.storage().handle().clear_cancel();
        self.note_activity(true);
        let mut out = Output::new(writer);
        let result = self.call(call, &mut out);
        self.end_of_request(result, &mut out);
    }

    pub fn run_transaction_request(&mut self, request: TransactionRequest, writer: &mut ResponseWriter) {
        self.storage().handle().clear_cancel();
        let mut out = Output::new(writer);
        if let Err(error) = self.transaction_request(request, &mut out) {
            self.state.error = error.number;
            out.error(&error.at_line(1));
        }
        out.writer().done_statement(StatementKind::Other, None);
        self.note_activity(false);
    }

    /// What must be true between two requests.
    pub(crate) fn end_of_request(&mut self, result: Result<(), Failure>, out: &mut Output<'_>) {
        debug_assert!(
            !matches!(result, Err(Failure::Raised { .. })),
            "an error on its way to a CATCH that is not there"
        );
        self.try_levels.clear();
        self.running_triggers.clear();
        self.jump = None;
        self.state.caught.clear();
        self.state.nest_level = 0;
        self.state.trigger_level = 0;
        if self.state.doomed {
            let error = SqlError::new(
                3998,
                "Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.",
            );
            out.error(&error.at_line(1));
            self.rollback_everything(out);
            out.writer().done_statement(StatementKind::Other, None);
        }
        self.note_activity(false);
    }

    /// sp_reset_connection: as if newly logged in.
    pub fn reset(&mut self, keep_transaction: bool) {
        if !keep_transaction {
            self.abandon_transaction();
        }
        self.drop_temporary_tables(0);
        // A new place in the storage: application locks of the session go with the old one.
        if self.tx.is_none() {
            self.move_to(Arc::clone(&self.database));
        }
        self.prepared.clear();
        self.state.options = Options::default();
        self.state.row_count = 0;
        self.state.error = 0;
        self.state.identity = None;
        self.state.identity_insert = None;
        self.state.context_info = None;
        self.state.cursors.clear();
        self.state.fetch_status = 0;
        self.state.cursor_rows = 0;
    }

    /// Parses and compiles a text, or takes it from the batches that were compiled before.
    pub(crate) fn compiled_batch(&mut self, sql: &str, parameters: Declarations) -> SqlResult<Arc<CompiledBatch>> {
        let schema = Arc::clone(&self.state.default_schema);
        self.compiled_text(sql, "", parameters, &schema)
    }

    /// `declared`: the text of the parameters' declaration, which the batch depends on too.
    pub(crate) fn compiled_text(
        &mut self,
        sql: &str,
        declared: &str,
        parameters: Declarations,
        schema: &Arc<str>,
    ) -> SqlResult<Arc<CompiledBatch>> {
        let version = self.version();
        let key: BatchKey = (self.database.id, Arc::clone(schema), format!("{declared}\u{0}{sql}"));
        // What was bound with a #temp table or IDENTITY_INSERT of this session is of no use to others.
        let is_shared = self.state.temporary_tables.is_empty() && self.state.identity_insert.is_none();
        if is_shared
            && let Some((made_under, compiled)) = self.engine.batches.lock().get(&key)
            && *made_under == version
        {
            return Ok(Arc::clone(compiled));
        }
        let statements = tsql::parse_request(sql)?;
        let compiled = Arc::new(self.compile(&statements, parameters, schema)?);
        if is_shared {
            let mut batches = self.engine.batches.lock();
            if batches.len() >= KEPT_BATCHES {
                batches.clear();
            }
            batches.insert(key, (version, Arc::clone(&compiled)));
        }
        Ok(compiled)
    }

    pub(crate) fn compile(
        &mut self,
        statements: &[Statement],
        parameters: Declarations,
        schema: &Arc<str>,
    ) -> SqlResult<CompiledBatch> {
        let version = self.version();
        let database = Arc::clone(&self.database);
        let latch = database.storage.latch();
        let surroundings = Surroundings { database: &database, latch: &latch, state: &self.state, schema };
        Compiler::new(surroundings, parameters, version).compile(statements)
    }

    /// The table of a table variable.
    pub(crate) fn create_table_variable(&mut self, template: &TableSchema) -> SqlResult<ObjectId> {
        self.own_tables.create(TableSchema { lifetime: Lifetime::Variable, ..template.clone() })
    }

    pub(crate) fn drop_table_variables(&mut self, scope: &mut Activation) {
        for table in scope.owned_tables.drain(..) {
            self.own_tables.remove(table);
        }
    }

    fn drop_tables(&mut self, tables: &[ObjectId]) {
        let database = Arc::clone(&self.database);
        let mut latch = database.storage.latch();
        let mut own = None;
        let tx = match &mut self.tx {
            Some(tx) => tx,
            None => {
                own.insert(Transaction::begin(self.storage.as_ref().expect("a session has it until it is dropped")))
            }
        };
        for table in tables {
            // It can only fail if the table is gone already.
            let _ = latch.drop_table(tx, *table);
        }
        if let Some(tx) = own {
            latch.commit(tx);
        }
    }

    /// Drops the `#temp` tables made at a nesting level or deeper.
    pub(crate) fn drop_temporary_tables(&mut self, level: u32) {
        let mut dropped = Vec::new();
        self.state.temporary_tables.retain(|table| {
            if table.level >= level {
                dropped.push(table.id);
            }
            table.level < level
        });
        if !dropped.is_empty() {
            self.drop_tables(&dropped);
        }
    }

    /// Moves the session to another database.
    pub(crate) fn use_database(&mut self, name: &str, out: &mut Output<'_>) -> SqlResult<()> {
        if fold(name) == fold(&self.database.name) {
            let current = self.database.name.to_string();
            out.writer().database_changed(&current, &current);
            return Ok(());
        }
        let Some(database) = self.engine.find_database(name) else {
            return Err(SqlError::new(
                911,
                format!("Database '{name}' does not exist. Make sure that the name is entered correctly."),
            ));
        };
        if self.tx.is_some() || !self.state.temporary_tables.is_empty() {
            return Err(SqlError::not_supported("USE within a transaction or with #temp tables"));
        }
        if self.state.nest_level > 0 {
            return Err(SqlError::new(
                154,
                "a USE database statement is not allowed in a procedure, function or trigger.",
            )
            .severity(15));
        }
        let (user, default_schema) = {
            let catalog = database.catalog.read();
            let Some(principal) = catalog.principals.user_of_session(&self.state.login, self.state.is_administrator)
            else {
                return Err(SqlError::new(
                    916,
                    format!(
                        "The server principal \"{}\" is not able to access the database \"{name}\" under the current \
                         security context.",
                        self.state.login
                    ),
                )
                .severity(14));
            };
            (principal.id, default_schema_of(&principal.kind))
        };
        let old_name = Arc::clone(&self.database.name);
        self.move_to(database);
        self.state.user = user;
        self.state.default_schema = default_schema;
        self.state.identity_insert = None;
        out.writer().database_changed(&self.database.name, &old_name);
        Ok(())
    }

    /// An error of a statement outside of any batch, for callers that only report.
    pub(crate) fn report(&mut self, error: SqlError, scope: &Activation, out: &mut Output<'_>) -> Result<(), Failure> {
        match self.fail(error, Origin::Statement, scope, 1, out) {
            Ok(Control::Next | Control::Break | Control::Continue | Control::Goto(_) | Control::Return(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
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
