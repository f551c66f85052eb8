//! The dynamic management views that show who locks what and who waits for whom.
//!
//! Sources: "sys.dm_tran_locks", "sys.dm_exec_sessions", "sys.dm_exec_connections", "sys.dm_exec_requests",
//! "sys.dm_os_waiting_tasks", "sys.dm_os_wait_stats" (for the names of waits) in MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-dynamic-management-views/.

use std::time::Instant;

use crate::catalog::database::Database;
use crate::catalog::view::column_types::{ColumnDescription, NAME, WORD, date, text};
use crate::catalog::view::indexes::hobt_id;
use crate::storage::{END_OF_INDEX, HEAP, Latch, LockInfo, LockMode, LockOwner, LockStatus, Resource, WaitInfo};
use crate::value::{Length, SqlType, Value};

pub const TRAN_LOCKS: &[ColumnDescription] = &[
    ("resource_type", WORD),
    ("resource_subtype", WORD),
    ("resource_database_id", SqlType::Int),
    ("resource_description", SqlType::NVarChar(Length::Limit(256))),
    ("resource_associated_entity_id", SqlType::BigInt),
    ("resource_lock_partition", SqlType::Int),
    ("request_mode", WORD),
    ("request_type", WORD),
    ("request_status", WORD),
    ("request_session_id", SqlType::Int),
    ("request_exec_context_id", SqlType::Int),
    ("request_request_id", SqlType::Int),
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
    ("most_recent_session_id", SqlType::Int),
    ("connect_time", SqlType::DateTime),
    ("net_transport", SqlType::NVarChar(Length::Limit(40))),
    ("protocol_type", SqlType::NVarChar(Length::Limit(40))),
    ("protocol_version", SqlType::Int),
    ("encrypt_option", SqlType::NVarChar(Length::Limit(40))),
    ("net_packet_size", SqlType::Int),
    ("parent_connection_id", SqlType::UniqueIdentifier),
];

pub const EXEC_REQUESTS: &[ColumnDescription] = &[
    ("session_id", SqlType::SmallInt),
    ("request_id", SqlType::Int),
    ("status", SqlType::NVarChar(Length::Limit(30))),
    ("database_id", SqlType::SmallInt),
    ("blocking_session_id", SqlType::SmallInt),
    ("wait_type", WORD),
    ("wait_time", SqlType::Int),
    ("wait_resource", SqlType::NVarChar(Length::Limit(256))),
    ("open_transaction_count", SqlType::Int),
    ("transaction_isolation_level", SqlType::SmallInt),
];

pub const WAITING_TASKS: &[ColumnDescription] = &[
    ("session_id", SqlType::SmallInt),
    ("exec_context_id", SqlType::Int),
    ("wait_duration_ms", SqlType::BigInt),
    ("wait_type", WORD),
    ("blocking_session_id", SqlType::SmallInt),
    ("resource_description", SqlType::NVarChar(Length::Limit(3072))),
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

pub fn tran_locks(database: i32, latch: &Latch<'_>) -> Vec<Vec<Value>> {
    let locks = latch.database_locks().into_iter().chain(latch.locks());
    locks.map(|lock| lock_row(&lock, database)).collect()
}

fn lock_row(lock: &LockInfo, database: i32) -> Vec<Value> {
    let (kind, entity, description) = resource_columns(lock.resource, lock.name.as_deref());
    vec![
        text(kind),
        text(""),
        Value::Int(database),
        text(description),
        Value::BigInt(entity),
        Value::Int(0),
        text(lock.mode.name()),
        text("LOCK"),
        text(match lock.status {
            LockStatus::Granted => "GRANT",
            LockStatus::Waiting => "WAIT",
            LockStatus::Converting => "CONVERT",
        }),
        Value::Int(lock.spid),
        Value::Int(0),
        Value::Int(0),
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

/// The wait of WAITFOR.
const WAITFOR: &str = "WAITFOR";

fn milliseconds(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}

/// `KEY: 5:72057594057457664 (350007a4d329)`, as the locking guide writes resources.
fn wait_resource(wait: &WaitInfo, database: i32) -> String {
    let (kind, entity, description) = resource_columns(wait.resource, None);
    match kind {
        "DATABASE" => format!("DATABASE: {database}"),
        "OBJECT" => format!("OBJECT: {database}:{entity}:0"),
        "RID" => format!("RID: {database}:{description}"),
        "KEY" => format!("KEY: {database}:{entity} {description}"),
        _ => format!("APPLICATION: {database}:{description}"),
    }
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
            Value::Int(connection.spid),
            date(connection.login_time),
            text("TCP"),
            text("TSQL"),
            Value::Int(wire.tds_version as i32),
            text(if wire.is_encrypted { "TRUE" } else { "FALSE" }),
            Value::Int(wire.packet_size as i32),
            Value::Null,
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
        let sleeps_since = connection.activity.waits_for();
        let wait_type = wait.map(|wait| wait_type(wait.mode)).or_else(|| sleeps_since.map(|_| WAITFOR.to_owned()));
        let waits_since = wait.map(|wait| wait.since).or(sleeps_since);
        vec![
            Value::SmallInt(connection.spid as i16),
            Value::Int(0),
            text(if waits_since.is_some() { "suspended" } else { "running" }),
            Value::SmallInt(connection.database().id as i16),
            Value::SmallInt(wait.and_then(|wait| wait.blocking_spid).unwrap_or(0) as i16),
            wait_type.map_or(Value::Null, text),
            Value::Int(waits_since.map_or(0, |since| milliseconds(since) as i32)),
            text(wait.map_or(String::new(), |wait| wait_resource(wait, database.id))),
            Value::Int(connection.activity.transaction_count()),
            Value::SmallInt(i16::from(connection.activity.isolation())),
        ]
    });
    rows.collect()
}

pub fn waiting_tasks(database: &Database, latch: &Latch<'_>) -> Vec<Vec<Value>> {
    let waits = latch.waits();
    let sleeping = database.connections.all().into_iter().filter_map(|connection| {
        let since = connection.activity.waits_for()?;
        Some(vec![
            Value::SmallInt(connection.spid as i16),
            Value::Int(0),
            Value::BigInt(milliseconds(since)),
            text(WAITFOR),
            Value::Null,
            Value::Null,
        ])
    });
    let locked = waits.iter().map(|wait| {
        vec![
            Value::SmallInt(wait.spid as i16),
            Value::Int(0),
            Value::BigInt(milliseconds(wait.since)),
            text(wait_type(wait.mode)),
            wait.blocking_spid.map_or(Value::Null, |spid| Value::SmallInt(spid as i16)),
            text(wait_resource(wait, database.id)),
        ]
    });
    locked.chain(sleeping).collect()
}
