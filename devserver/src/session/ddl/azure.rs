//! What Azure SQL Database does not let a statement do.
//!
//! Sources: "T-SQL differences between SQL Server and Azure SQL Database" (MicrosoftDocs/sql-docs,
//! azure-sql/database/transact-sql-tsql-differences-sql-server.md); "CREATE LOGIN"
//! (docs/t-sql/statements/create-login-transact-sql.md), Azure SQL Database: "you must be connected to the master
//! database to create a login"; "CREATE DATABASE" (create-database-transact-sql.md); 5001:
//! docs/relational-databases/errors-events/database-engine-events-and-errors-5000-to-5999.md.

use crate::catalog::server::MASTER;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::{DropKind, StatementKind};

impl Session {
    pub(crate) fn check_azure(&self, statement: &StatementKind) -> SqlResult<()> {
        if !self.engine.product().is_azure() {
            return Ok(());
        }
        match statement {
            StatementKind::CreateLogin { name, password: None, .. } if name.contains('\\') => {
                Err(SqlError::not_supported("a login of Windows in Azure SQL Database"))
            }
            StatementKind::CreateLogin { .. }
            | StatementKind::AlterLogin { .. }
            | StatementKind::CreateDatabase { .. } => self.check_in_master(),
            StatementKind::Drop(drop) if matches!(drop.kind, DropKind::Login | DropKind::Database) => {
                self.check_in_master()
            }
            _ => Ok(()),
        }
    }

    fn check_in_master(&self) -> SqlResult<()> {
        if self.database.id == MASTER {
            return Ok(());
        }
        Err(SqlError::new(5001, "User must be in the master database."))
    }
}
