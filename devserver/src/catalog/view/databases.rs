//! sys.databases: the current one alone.

use crate::catalog::database::Database;
use crate::catalog::view::columns::{ColumnDescription, NAME, WORD, bit, text};
use crate::storage::Latch;
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

pub fn databases(database: &Database, latch: &Latch<'_>) -> Vec<Vec<Value>> {
    let allows_snapshot = latch.allows_snapshot();
    vec![vec![
        text(&database.name),
        Value::Int(database.id),
        bit(database.is_read_only()),
        Value::TinyInt(0),
        text("ONLINE"),
        Value::TinyInt(u8::from(allows_snapshot)),
        text(if allows_snapshot { "ON" } else { "OFF" }),
        bit(latch.reads_committed_snapshot()),
        text("SIMPLE"),
        text(Collation::default().name()),
        Value::TinyInt(160),
    ]]
}
