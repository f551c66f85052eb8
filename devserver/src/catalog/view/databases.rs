//! sys.databases and sys.database_recovery_status.

use crate::catalog::database::Database;
use crate::catalog::server::{DatabaseEntry, MASTER};
use crate::catalog::view::column_types::{ColumnDescription, NAME, WORD, bit, date, text};
use crate::value::{Collation, SqlType, Value};

pub const DATABASES: &[ColumnDescription] = &[
    ("name", NAME),
    ("database_id", SqlType::Int),
    ("is_read_only", SqlType::Bit),
    ("state", SqlType::TinyInt),
    ("state_desc", WORD),
    ("snapshot_isolation_state", SqlType::TinyInt),
    ("snapshot_isolation_state_desc", WORD),
    ("is_read_committed_snapshot_on", SqlType::Bit),
    ("recovery_model_desc", WORD),
    ("collation_name", NAME),
    ("compatibility_level", SqlType::TinyInt),
    ("create_date", SqlType::DateTime),
    ("group_database_id", SqlType::UniqueIdentifier),
];

pub const RECOVERY_STATUS: &[ColumnDescription] = &[
    ("database_id", SqlType::Int),
    ("database_guid", SqlType::UniqueIdentifier),
    ("recovery_fork_guid", SqlType::UniqueIdentifier),
];

/// How far the ids in this view are from those of DB_ID and of the other views, in Azure: "In Azure SQL Database, DB_ID
/// may not return the same value as the database_id column in sys.databases […]. These two views return database_id
/// values that are unique within the logical server, while DB_ID and the database_id column in other system views
/// return values that are unique within a single database or within an elastic pool" ("DB_ID", MicrosoftDocs/sql-docs,
/// docs/t-sql/functions/db-id-transact-sql.md).
const AZURE_ID_OFFSET: i32 = 100;

pub fn databases(database: &Database) -> Vec<Vec<Value>> {
    let is_azure = database.server.product.is_azure();
    let mut rows = Vec::new();
    for (id, entry) in database.server.databases.read().iter() {
        // There, a user database shows itself and master alone ("sys.databases",
        // docs/relational-databases/system-catalog-views/sys-databases-transact-sql.md).
        let is_seen = database.id == MASTER || [MASTER, database.id].contains(id);
        if is_azure && (entry.is_only_a_name || !is_seen) {
            continue;
        }
        let shown_id = if is_azure && *id != MASTER { *id + AZURE_ID_OFFSET } else { *id };
        let allows_snapshot = entry.options.allows_snapshot();
        rows.push(vec![
            text(&entry.name),
            Value::Int(shown_id),
            bit(entry.options.is_read_only()),
            Value::TinyInt(0),
            text("ONLINE"),
            Value::TinyInt(u8::from(allows_snapshot)),
            text(if allows_snapshot { "ON" } else { "OFF" }),
            bit(entry.options.reads_committed_snapshot()),
            text(entry.recovery_model),
            text(Collation::default().name()),
            Value::TinyInt(entry.options.compatibility_level()),
            date(entry.created_at),
            Value::Null, // in no availability group
        ]);
    }
    rows
}

/// Every login sees every database, as in a server whose role public has VIEW ANY DATABASE.
///
/// Source: "sys.database_recovery_status" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/system-catalog-views/sys-database-recovery-status-transact-sql.md).
pub fn recovery_status(database: &Database) -> Vec<Vec<Value>> {
    let databases = database.server.databases.read();
    let row = |(id, entry): (&i32, &DatabaseEntry)| {
        vec![Value::Int(*id), Value::Uuid(entry.database_guid), Value::Uuid(entry.recovery_fork_guid)]
    };
    databases.iter().map(row).collect()
}
