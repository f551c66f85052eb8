//! Catalog views and dynamic management views, computed when they are read.

use crate::catalog::database::Database;
use crate::catalog::view::columns::ColumnDescription;
use crate::catalog::view::facts::{CatalogView, Facts};
use crate::catalog::view::{databases, indexes, list, principals, session_activity, tempdb};
use crate::storage::{Latch, fold};
use crate::value::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemView {
    /// One of the views in [`list`].
    Catalog(&'static CatalogView),
    /// One of `tempdb`: the #temp tables.
    Tempdb(&'static CatalogView),
    Databases,
    DatabasePrincipals,
    DatabaseRoleMembers,
    DatabasePermissions,
    TranLocks,
    ExecSessions,
    ExecRequests,
    WaitingTasks,
    Partitions,
}

impl SystemView {
    /// By folded schema; the name in any case.
    pub fn find(schema: &str, name: &str) -> Option<SystemView> {
        let name = fold(name);
        if let Some(view) = list::find(schema, &name) {
            return Some(SystemView::Catalog(view));
        }
        Some(match (schema, name.as_str()) {
            ("sys", "databases") => SystemView::Databases,
            ("sys", "database_principals") => SystemView::DatabasePrincipals,
            ("sys", "database_role_members") => SystemView::DatabaseRoleMembers,
            ("sys", "database_permissions") => SystemView::DatabasePermissions,
            ("sys", "dm_tran_locks") => SystemView::TranLocks,
            ("sys", "dm_exec_sessions") => SystemView::ExecSessions,
            ("sys", "dm_exec_requests") => SystemView::ExecRequests,
            ("sys", "dm_os_waiting_tasks") => SystemView::WaitingTasks,
            ("sys", "partitions") => SystemView::Partitions,
            _ => return None,
        })
    }

    /// By folded schema; the name in any case.
    pub fn find_in_tempdb(schema: &str, name: &str) -> Option<SystemView> {
        let name = fold(name);
        tempdb::VIEWS.iter().find(|view| view.schema == schema && view.name == name).map(SystemView::Tempdb)
    }

    /// Whether every database of the server shows the same rows.
    pub fn is_of_the_server(self) -> bool {
        match self {
            SystemView::Databases
            | SystemView::TranLocks
            | SystemView::ExecSessions
            | SystemView::ExecRequests
            | SystemView::WaitingTasks => true,
            SystemView::Catalog(view) => view.schema == "sys" && view.name == "sql_logins",
            _ => false,
        }
    }

    pub fn columns(self) -> &'static [ColumnDescription] {
        match self {
            SystemView::Catalog(view) | SystemView::Tempdb(view) => view.columns,
            SystemView::Databases => databases::DATABASES,
            SystemView::DatabasePrincipals => principals::PRINCIPALS,
            SystemView::DatabaseRoleMembers => principals::ROLE_MEMBERS,
            SystemView::DatabasePermissions => principals::PERMISSIONS,
            SystemView::TranLocks => session_activity::TRAN_LOCKS,
            SystemView::ExecSessions => session_activity::EXEC_SESSIONS,
            SystemView::ExecRequests => session_activity::EXEC_REQUESTS,
            SystemView::WaitingTasks => session_activity::WAITING_TASKS,
            SystemView::Partitions => indexes::PARTITIONS,
        }
    }

    /// Its rows are read under the latch; else the latch need not be taken.
    pub fn needs_latch(self) -> bool {
        self != SystemView::ExecSessions
    }

    /// The rows as they are now.
    pub fn rows(self, database: &Database, latch: &Latch<'_>) -> Vec<Vec<Value>> {
        match self {
            SystemView::Catalog(view) => Facts::with(database, latch, view.rows),
            SystemView::Tempdb(view) => tempdb::rows(view, database, latch),
            SystemView::Databases => databases::databases(database),
            SystemView::DatabasePrincipals => principals::principals(&database.catalog.read().principals),
            SystemView::DatabaseRoleMembers => principals::role_members(&database.catalog.read().principals),
            SystemView::DatabasePermissions => principals::permissions(&database.catalog.read().principals),
            SystemView::TranLocks => session_activity::tran_locks(database.id, latch),
            SystemView::ExecSessions => session_activity::exec_sessions(database),
            SystemView::ExecRequests => session_activity::exec_requests(database, latch),
            SystemView::WaitingTasks => session_activity::waiting_tasks(database, latch),
            SystemView::Partitions => indexes::partitions(latch),
        }
    }
}
