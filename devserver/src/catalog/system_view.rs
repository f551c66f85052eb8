//! Catalog views and dynamic management views, computed when they are read.

use crate::catalog::database::Database;
use crate::catalog::view::column_types::{ColumnDescription, INT, nvarchar, text};
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::catalog::view::{databases, indexes, list, principals, session_activity};
use crate::storage::{CatalogName, Latch, fold};
use crate::value::{SqlType, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemView {
    /// One of the views in [`list`].
    Catalog(&'static CatalogView),
    Databases,
    DatabaseRecoveryStatus,
    DatabasePrincipals,
    DatabaseRoleMembers,
    DatabasePermissions,
    TranLocks,
    ExecSessions,
    ExecConnections,
    Configurations,
    ExecRequests,
    Partitions,
}

/// Those that are no [`CatalogView`], all of them in `sys`.
const OTHERS: &[(&str, SystemView)] = &[
    ("databases", SystemView::Databases),
    ("database_recovery_status", SystemView::DatabaseRecoveryStatus),
    ("database_principals", SystemView::DatabasePrincipals),
    ("database_role_members", SystemView::DatabaseRoleMembers),
    ("database_permissions", SystemView::DatabasePermissions),
    ("dm_tran_locks", SystemView::TranLocks),
    ("dm_exec_sessions", SystemView::ExecSessions),
    ("dm_exec_connections", SystemView::ExecConnections),
    ("configurations", SystemView::Configurations),
    ("dm_exec_requests", SystemView::ExecRequests),
    ("partitions", SystemView::Partitions),
];

/// Without what nobody asks for of an option.
const CONFIGURATIONS: &[ColumnDescription] = &[
    ("configuration_id", INT),
    ("name", nvarchar(35)),
    ("value", SqlType::Variant),
    ("value_in_use", SqlType::Variant),
];

/// The one option that the dev server has.
///
/// Source: "sys.configurations" (MicrosoftDocs/sql-docs,
/// docs/relational-databases/system-catalog-views/sys-configurations-transact-sql.md).
fn configurations(database: &Database) -> Vec<Vec<Value>> {
    const MAX_WORKER_THREADS: i32 = 503;
    let threads = Value::variant(SqlType::Int, Value::Int(database.server.product.max_worker_threads));
    vec![vec![Value::Int(MAX_WORKER_THREADS), text("max worker threads"), threads.clone(), threads]]
}

impl SystemView {
    /// By folded schema; the name in any case.
    pub fn find(schema: &str, name: &str) -> Option<SystemView> {
        let name = fold(name);
        if let Some(view) = list::find(schema, &name) {
            return Some(SystemView::Catalog(view));
        }
        if schema != "sys" {
            return None;
        }
        OTHERS.iter().find(|(other, _)| *other == name).map(|(_, view)| *view)
    }

    /// Whether every database of the server shows the same rows.
    pub fn is_of_the_server(self) -> bool {
        match self {
            SystemView::Databases
            | SystemView::DatabaseRecoveryStatus
            | SystemView::TranLocks
            | SystemView::ExecSessions
            | SystemView::ExecConnections
            | SystemView::Configurations
            | SystemView::ExecRequests => true,
            SystemView::Catalog(view) => view.schema == "sys" && view.name == "sql_logins",
            _ => false,
        }
    }

    pub fn columns(self) -> &'static [ColumnDescription] {
        match self {
            SystemView::Catalog(view) => view.columns,
            SystemView::Databases => databases::DATABASES,
            SystemView::DatabaseRecoveryStatus => databases::RECOVERY_STATUS,
            SystemView::DatabasePrincipals => principals::PRINCIPALS,
            SystemView::DatabaseRoleMembers => principals::ROLE_MEMBERS,
            SystemView::DatabasePermissions => principals::PERMISSIONS,
            SystemView::TranLocks => session_activity::TRAN_LOCKS,
            SystemView::ExecSessions => session_activity::EXEC_SESSIONS,
            SystemView::ExecConnections => session_activity::EXEC_CONNECTIONS,
            SystemView::Configurations => CONFIGURATIONS,
            SystemView::ExecRequests => session_activity::EXEC_REQUESTS,
            SystemView::Partitions => indexes::PARTITIONS,
        }
    }

    /// Whether it has rows about what has the name, so that it waits for a transaction that changes that.
    pub fn shows(self, name: &CatalogName) -> bool {
        match self {
            SystemView::Catalog(view) => match view.name {
                "sql_logins" => false,
                "schemas" | "schemata" => name.is_schema(),
                "types" => name.is_type(),
                _ => true,
            },
            SystemView::Partitions => true,
            _ => false,
        }
    }

    /// Its rows are read under the latch; else the latch need not be taken.
    pub fn needs_latch(self) -> bool {
        !matches!(self, SystemView::ExecSessions | SystemView::ExecConnections | SystemView::Configurations)
    }

    /// The rows as they are now.
    pub fn rows(self, database: &Database, latch: &Latch<'_>) -> Vec<Vec<Value>> {
        match self {
            SystemView::Catalog(view) => Facts::with(database, latch, view.rows),
            SystemView::Databases => databases::databases(database),
            SystemView::DatabaseRecoveryStatus => databases::recovery_status(database),
            SystemView::DatabasePrincipals => principals::principals(&database.catalog.read().principals),
            SystemView::DatabaseRoleMembers => principals::role_members(&database.catalog.read().principals),
            SystemView::DatabasePermissions => principals::permissions(&database.catalog.read().principals),
            SystemView::TranLocks => session_activity::tran_locks(latch),
            SystemView::ExecSessions => session_activity::exec_sessions(database),
            SystemView::ExecConnections => session_activity::exec_connections(database),
            SystemView::Configurations => configurations(database),
            SystemView::ExecRequests => session_activity::exec_requests(database, latch),
            SystemView::Partitions => indexes::partitions(latch),
        }
    }
}
