//! The dynamic management views that show who locks what and who waits for whom.
//!
//! Sources: "sys.dm_tran_locks", "sys.dm_exec_sessions", "sys.dm_exec_connections", "sys.dm_exec_requests",
//! "sys.dm_os_wait_stats" (for the names of waits) in MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-dynamic-management-views/.

use crate::catalog::database::Database;
use crate::catalog::view::column_types::{ColumnDescription, NAME, WORD, date, text};
use crate::catalog::view::indexes::hobt_id;
use crate::storage::{END_OF_INDEX, HEAP, Latch, LockInfo, LockMode, LockOwner, LockStatus, Resource};
use crate::value::{Length, SqlType, Value};

pub const TRAN_LOCKS: &[ColumnDescription] = &[
    ("resource_type", WORD),
    ("resource_description", SqlType::NVarChar(Length::Limit(256))),
    ("resource_associated_entity_id", SqlType::BigInt),
    ("request_mode", WORD),
    ("request_status", WORD),
    ("request_session_id", SqlType::Int),
    ("request_owner_type", WORD),
];

pub const EXEC_SESSIONS: &[ColumnDescription] = &[
    ("session_id", SqlType::SmallInt),
    ("login_time", SqlType::DateTime),
    ("host_name", NAME),
    ("program_name", NAME),
    ("login_name", NAME),
    ("status", SqlType::NVarChar(Length::Limit(30))),
    ("transaction_isolation_level", SqlType::SmallInt),
    ("is_user_process", SqlType::Bit),
    ("original_login_name", NAME),
    ("database_id", SqlType::SmallInt),
    ("open_transaction_count", SqlType::Int),
];

/// Without what is not kept here (reads and writes, addresses), and without auth_scheme, whose word for an access token
/// is not documented.
pub const EXEC_CONNECTIONS: &[ColumnDescription] = &[
    ("session_id", SqlType::Int),
    ("net_transport", SqlType::NVarChar(Length::Limit(40))),
    ("encrypt_option", SqlType::NVarChar(Length::Limit(40))),
    ("net_packet_size", SqlType::Int),
];

pub const EXEC_REQUESTS: &[ColumnDescription] = &[
    ("session_id", SqlType::SmallInt),
    ("status", SqlType::NVarChar(Length::Limit(30))),
    ("database_id", SqlType::SmallInt),
    ("blocking_session_id", SqlType::SmallInt),
    ("wait_type", WORD),
    ("open_transaction_count", SqlType::Int),
    ("transaction_isolation_level", SqlType::SmallInt),
];

/// The part of a key's hash that is shown: SQL Server's has six bytes.
fn shown_hash(hash: u64) -> u64 {
    if hash == END_OF_INDEX { 0xffff_ffff_ffff } else { hash & 0xffff_ffff_ffff }
}

/// resource_type, resource_associated_entity_id and resource_description.
fn resource_columns(resource: Resource, name: Option<&str>) -> (&'static str, i64, String) {
    match resource {
        Resource::Database => ("DATABASE", 0, String::new()),
        Resource::Table(id) => ("OBJECT", i64::from(id), String::new()),
        Resource::Name(_) => ("OBJECT", 0, String::new()),
        Resource::Key { object, index: HEAP, hash } => {
            ("RID", hobt_id(object, HEAP), format!("1:{}:{}", hash >> 16 & 0xff_ffff, hash & 0xffff))
        }
        Resource::Key { object, index, hash } => {
            ("KEY", hobt_id(object, index), format!("({:012x})", shown_hash(hash)))
        }
        Resource::Application(hash) => {
            let name: String = name.unwrap_or_default().chars().take(32).collect();
            ("APPLICATION", 0, format!("0:[{name}]:({:08x})", hash & 0xffff_ffff))
        }
    }
}

pub fn tran_locks(latch: &Latch<'_>) -> Vec<Vec<Value>> {
    let locks = latch.database_locks().into_iter().chain(latch.locks());
    locks.map(|lock| lock_row(&lock)).collect()
}

fn lock_row(lock: &LockInfo) -> Vec<Value> {
    let (kind, entity, description) = resource_columns(lock.resource, lock.name.as_deref());
    vec![
        text(kind),
        text(description),
        Value::BigInt(entity),
        text(lock.mode.name()),
        text(match lock.status {
            LockStatus::Granted => "GRANT",
            LockStatus::Waiting => "WAIT",
            LockStatus::Converting => "CONVERT",
        }),
        Value::Int(lock.spid),
        text(match (lock.resource, lock.owner) {
            (Resource::Database, _) => "SHARED_TRANSACTION_WORKSPACE",
            (_, LockOwner::Transaction) => "TRANSACTION",
            (_, LockOwner::Session) => "SESSION",
        }),
    ]
}

/// LCK_M_S, LCK_M_SCH_M, LCK_M_RIn_NL …
fn wait_type(mode: LockMode) -> String {
    let name = match mode {
        LockMode::SchemaStability => "SCH_S",
        LockMode::SchemaModification => "SCH_M",
        LockMode::RangeSharedShared => "RS_S",
        LockMode::RangeSharedUpdate => "RS_U",
        LockMode::RangeInsertNull => "RIn_NL",
        LockMode::RangeInsertShared => "RIn_S",
        LockMode::RangeInsertUpdate => "RIn_U",
        LockMode::RangeExclusiveShared => "RX_S",
        LockMode::RangeExclusiveUpdate => "RX_U",
        LockMode::RangeExclusive => "RX_X",
        other => other.name(),
    };
    format!("LCK_M_{name}")
}

pub fn exec_sessions(database: &Database) -> Vec<Vec<Value>> {
    let rows = database.connections.all().into_iter().map(|connection| {
        let activity = &connection.activity;
        vec![
            Value::SmallInt(connection.spid as i16),
            date(connection.login_time),
            text(&connection.host_name),
            text(&connection.app_name),
            text(&connection.login),
            text(if activity.is_running() { "running" } else { "sleeping" }),
            Value::SmallInt(i16::from(activity.isolation())),
            Value::Bit(true),
            text(&connection.login),
            Value::SmallInt(connection.database().id as i16),
            Value::Int(activity.transaction_count()),
        ]
    });
    rows.collect()
}

/// There are no multiple active result sets, so that each connection is a session's own.
pub fn exec_connections(database: &Database) -> Vec<Vec<Value>> {
    let rows = database.connections.all().into_iter().filter_map(|connection| {
        let wire = connection.wire?;
        Some(vec![
            Value::Int(connection.spid),
            text("TCP"),
            text(if wire.is_encrypted { "TRUE" } else { "FALSE" }),
            Value::Int(wire.packet_size as i32),
        ])
    });
    rows.collect()
}

pub fn exec_requests(database: &Database, latch: &Latch<'_>) -> Vec<Vec<Value>> {
    let connections = database.connections.all();
    let waits = latch.waits();
    let running = connections.into_iter().filter(|connection| connection.activity.is_running());
    let rows = running.map(|connection| {
        let wait = waits.iter().find(|wait| wait.spid == connection.spid);
        let in_waitfor = connection.activity.is_in_waitfor().then(|| "WAITFOR".to_owned());
        let wait_type = wait.map(|wait| wait_type(wait.mode)).or(in_waitfor);
        vec![
            Value::SmallInt(connection.spid as i16),
            text(if wait_type.is_some() { "suspended" } else { "running" }),
            Value::SmallInt(connection.database().id as i16),
            Value::SmallInt(wait.and_then(|wait| wait.blocking_spid).unwrap_or(0) as i16),
            wait_type.map_or(Value::Null, text),
            Value::Int(connection.activity.transaction_count()),
            Value::SmallInt(i16::from(connection.activity.isolation())),
        ]
    });
    rows.collect()
}
