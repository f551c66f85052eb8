//! sys.databases.

use crate::catalog::database::Database;
use crate::catalog::view::columns::{ColumnDescription, NAME, WORD, bit, text};
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
];

pub fn databases(database: &Database) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (id, entry) in database.server.databases.read().iter() {
        let allows_snapshot = entry.options.allows_snapshot();
        rows.push(vec![
            text(&entry.name),
            Value::Int(*id),
            bit(entry.options.is_read_only()),
            Value::TinyInt(0),
            text("ONLINE"),
            Value::TinyInt(u8::from(allows_snapshot)),
            text(if allows_snapshot { "ON" } else { "OFF" }),
            bit(entry.options.reads_committed_snapshot()),
            text(entry.recovery_model),
            text(Collation::default().name()),
            Value::TinyInt(160),
        ]);
    }
    rows
}
