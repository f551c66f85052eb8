//! Faults on demand, for the tests of clients: errors and delays at the calls of a procedure, and a clock that is
//! wrong.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::catalog::database::Database;
use crate::error::SqlError;
use crate::gate::Gate;
use crate::storage::fold;
use crate::value::{Day, Ticks, now_utc_shifted};

type Decide = dyn Fn(u64) -> Option<SqlError> + Send + Sync;

/// What one procedure's callers are to meet.
struct Fault {
    calls: AtomicU64,
    decide: Box<Decide>,
}

/// The faults of a server; none at first.
///
/// ```
/// # async fn example() -> std::io::Result<()> {
/// use readpast_devserver::{DevServer, SqlError};
///
/// let server = DevServer::start().await?;
/// // Every third call of the procedure runs into a lock time-out.
/// let timed_out = || SqlError::new(1222, "Lock request time out period exceeded.");
/// server.faults().on_call("dbo.next_order", move |call| (call % 3 == 0).then(timed_out));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Faults {
    by_procedure: RwLock<HashMap<String, Arc<Fault>>>,
    /// Whether there are any, to be known without the lock.
    any: AtomicBool,
    clock_ms: AtomicI64,
    ghosts: RwLock<Ghosts>,
    gate: Arc<Gate>,
}

/// Whether ghosts are kept, and where.
#[derive(Default)]
struct Ghosts {
    keep: bool,
    databases: Vec<Weak<Database>>,
}

impl Faults {
    /// Lets `decide` see every call of a procedure from now on, before anything of it has run. It gets the number of
    /// the call, counted from 1 over all sessions. The error that it returns is what the call ends with, as if the
    /// first statement of the procedure had raised it; with `None` the procedure runs. It runs on the session's own
    /// thread and may block there: that is a slow procedure.
    ///
    /// `procedure` is `schema.name`, without brackets, in whichever database, or `database.schema.name`, which goes
    /// before the other. What was said about the same name before is forgotten.
    pub fn on_call(&self, procedure: &str, decide: impl Fn(u64) -> Option<SqlError> + Send + Sync + 'static) {
        let fault = Fault { calls: AtomicU64::new(0), decide: Box::new(decide) };
        let mut faults = self.by_procedure.write();
        faults.insert(fold(procedure), Arc::new(fault));
        self.any.store(true, Ordering::Release);
    }

    /// Lets all calls of a procedure through again.
    pub fn clear(&self, procedure: &str) {
        let mut faults = self.by_procedure.write();
        faults.remove(&fold(procedure));
        self.any.store(!faults.is_empty(), Ordering::Release);
    }

    /// Sets the server's clock so many milliseconds fast or, below 0, slow.
    pub fn set_clock(&self, ms: i64) {
        self.clock_ms.store(ms, Ordering::Release);
    }

    /// Lets committed deletes leave their index entries and rows behind as ghosts, as SQL Server does until its cleaner
    /// has passed: nobody sees them, but every scan and seek reads over them ([`crate::DevServer::entries_read`] counts
    /// them). So it is where the cleaner does not keep up, or is held back by a long snapshot or a readable secondary.
    /// Without this a commit cleans up at once.
    ///
    /// The rows of a heap and what `#temp` tables and table variables hold leave no ghosts.
    ///
    /// Source: "Ghost cleanup process guide" (MicrosoftDocs/sql-docs,
    /// docs/relational-databases/ghost-record-cleanup-process-guide.md).
    pub fn keep_ghosts(&self) {
        let mut ghosts = self.ghosts.write();
        ghosts.keep = true;
        ghosts.databases.retain(|database| database.strong_count() > 0);
        for database in ghosts.databases.iter().filter_map(Weak::upgrade) {
            database.storage.keep_ghosts();
        }
    }

    /// Stops the server as if its process were stopped (SIGSTOP): no statement begins, no answer goes out, no
    /// connection is answered and nobody logs in until [`Faults::thaw`]. Connections stay open, and new ones are taken
    /// by the operating system as in front of a stopped process. Clocks go on: what waited for a lock or a time may
    /// find that the time is over.
    ///
    /// A statement that runs when the server freezes may still end, but its answer waits.
    ///
    /// What clients have sent runs after the thaw, also where they have given up meanwhile and closed the connection:
    /// it was received. Five seconds after the thaw whoever is gone is cut off as usual.
    pub fn freeze(&self) {
        self.gate.close();
    }

    /// Lets everything go on after [`Faults::freeze`].
    pub fn thaw(&self) {
        self.gate.open();
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// A database is there from now on.
    pub(crate) fn add_database(&self, database: &Arc<Database>) {
        let mut ghosts = self.ghosts.write();
        if ghosts.keep {
            database.storage.keep_ghosts();
        }
        ghosts.databases.push(Arc::downgrade(database));
    }

    /// What the next call of a procedure (`schema.name`) meets.
    pub(crate) fn at_call(&self, database: &str, procedure: &str) -> Option<SqlError> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let name = fold(procedure);
        let faults = self.by_procedure.read();
        let fault = faults.get(&format!("{}.{name}", fold(database))).or_else(|| faults.get(&name)).cloned();
        drop(faults);
        let fault = fault?;
        let call = fault.calls.fetch_add(1, Ordering::AcqRel) + 1;
        (fault.decide)(call)
    }

    pub(crate) fn now(&self) -> (Day, Ticks) {
        now_utc_shifted(self.clock_ms.load(Ordering::Acquire))
    }
}
