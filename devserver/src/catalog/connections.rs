//! The connections of the server: what the dynamic management views tell of them, and how one is ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

use parking_lot::Mutex;

use crate::catalog::cancel::CancelHandle;
use crate::catalog::database::Database;
use crate::tsql::ast::IsolationLevel;

/// What a session is doing, for others to see.
#[derive(Default)]
pub struct Activity {
    running: AtomicBool,
    transaction_count: AtomicI32,
    isolation: AtomicU8,
    /// In WAITFOR.
    sleeping: AtomicBool,
    kill: Mutex<Kill>,
}

/// How a session is ended by others. It may be ended as soon as its client knows that it is logged in, before the session
/// can say how its connection is closed.
#[derive(Default)]
enum Kill {
    #[default]
    NotReady,
    Closes(Box<dyn Fn() + Send>),
    Asked,
}

impl Activity {
    /// A request begins or has ended.
    pub fn note(&self, running: bool, transaction_count: i32, isolation: IsolationLevel) {
        self.running.store(running, Ordering::Relaxed);
        self.transaction_count.store(transaction_count, Ordering::Relaxed);
        self.isolation.store(isolation_number(isolation), Ordering::Relaxed);
    }

    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    pub fn transaction_count(&self) -> i32 {
        self.transaction_count.load(Ordering::Relaxed)
    }

    /// As in sys.dm_exec_sessions.
    pub fn isolation(&self) -> u8 {
        self.isolation.load(Ordering::Relaxed)
    }

    /// WAITFOR begins or has ended.
    pub fn note_waitfor(&self, sleeping: bool) {
        self.sleeping.store(sleeping, Ordering::Relaxed);
    }

    pub fn is_in_waitfor(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed)
    }

    pub fn on_kill(&self, close: impl Fn() + Send + 'static) {
        let mut kill = self.kill.lock();
        match *kill {
            Kill::Asked => close(),
            Kill::NotReady | Kill::Closes(_) => *kill = Kill::Closes(Box::new(close)),
        }
    }
}

/// transaction_isolation_level in sys.dm_exec_sessions.
///
/// Source: "sys.dm_exec_sessions" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/system-dynamic-management-views/sys-dm-exec-sessions-transact-sql.md).
fn isolation_number(isolation: IsolationLevel) -> u8 {
    match isolation {
        IsolationLevel::ReadUncommitted => 1,
        IsolationLevel::ReadCommitted => 2,
        IsolationLevel::RepeatableRead => 3,
        IsolationLevel::Serializable => 4,
        IsolationLevel::Snapshot => 5,
    }
}

/// What was agreed on between client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    pub packet_size: usize,
    /// All of it, not the login alone.
    pub is_encrypted: bool,
}

/// A connection.
#[derive(Clone)]
pub struct Connection {
    pub spid: i32,
    pub login: Arc<str>,
    pub host_name: Arc<str>,
    pub app_name: Arc<str>,
    pub login_time: (u32, u64),
    pub activity: Arc<Activity>,
    /// `None` for a session without a connection.
    pub wire: Option<Wire>,
    pub(crate) cancel: CancelHandle,
}

impl Connection {
    pub fn database(&self) -> Arc<Database> {
        Arc::clone(&self.cancel.database)
    }

    /// Ends the session: what runs in it fails, its transaction is rolled back, its connection closed.
    pub fn kill(&self) {
        self.cancel.kill();
        let mut kill = self.activity.kill.lock();
        match &*kill {
            Kill::Closes(close) => close(),
            Kill::NotReady | Kill::Asked => *kill = Kill::Asked,
        }
    }
}

/// Everybody who is connected, by session number.
#[derive(Default)]
pub struct Connections(Mutex<BTreeMap<i32, Connection>>);

impl Connections {
    pub fn add(&self, connection: Connection) {
        self.0.lock().insert(connection.spid, connection);
    }

    pub fn note_wire(&self, spid: i32, wire: Wire) {
        if let Some(connection) = self.0.lock().get_mut(&spid) {
            connection.wire = Some(wire);
        }
    }

    pub fn remove(&self, spid: i32) {
        self.0.lock().remove(&spid);
    }

    pub fn all(&self) -> Vec<Connection> {
        self.0.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_killed_before_it_is_ready_is_closed_when_it_is() {
        let (activity, closed) = (Activity::default(), Arc::<AtomicBool>::default());
        *activity.kill.lock() = Kill::Asked;
        let closes = closed.clone();
        activity.on_kill(move || closes.store(true, Ordering::Release));
        assert!(closed.load(Ordering::Acquire));
    }
}
