//! The way of a DDL statement to the file that does it.
//!
//! Tables and indexes change in the storage ([`crate::session::ddl::table`]), everything else in the catalog; both go
//! back with the transaction.

use crate::catalog::server::MASTER_NAME;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::tsql::ast::StatementKind;

impl Session {
    pub(crate) fn run_ddl(&mut self, statement: &StatementKind, activation: &mut Activation) -> SqlResult<()> {
        let is_temporary = match statement {
            StatementKind::CreateTable(create) => create.name.name.starts_with('#'),
            StatementKind::CreateProcedure(create) => create.name.name.starts_with('#'),
            StatementKind::CreateIndex(create) => create.table.name.starts_with('#'),
            StatementKind::CreateStatistics(create) => create.table.name.starts_with('#'),
            StatementKind::Drop(drop) => drop.names.iter().all(|name| name.name.starts_with('#')),
            StatementKind::AlterDatabase(_) => true,
            StatementKind::SetIdentityInsert { .. } => true,
            _ => false,
        };
        self.check_ddl_allowed(is_temporary)?;
        self.check_index_options(statement)?;
        self.check_azure(statement)?;
        self.with_names_locked(statement, |session| session.run_locked_ddl(statement, activation))
    }

    fn run_locked_ddl(&mut self, statement: &StatementKind, activation: &mut Activation) -> SqlResult<()> {
        match statement {
            StatementKind::CreateTable(create) => self.create_table(create, activation),
            StatementKind::CreateIndex(create) => self.create_index(create, activation),
            StatementKind::CreateStatistics(create) => self.create_statistics(create, activation),
            StatementKind::CreateType(create) => self.create_type(create),
            StatementKind::CreateProcedure(create) => self.create_procedure(create),
            StatementKind::CreateView(create) => self.create_view(create),
            StatementKind::CreateFunction(create) => self.create_function(create),
            StatementKind::CreateTrigger(create) => self.create_trigger(create),
            StatementKind::SwitchTriggers(switch) => self.switch_triggers(switch),
            StatementKind::CreateSequence(create) => self.create_sequence(create),
            StatementKind::CreateSchema(create) => self.create_schema(&create.name, create.owner.as_deref()),
            StatementKind::CreateRole { name, owner } => self.create_role(name, owner.as_deref()),
            StatementKind::CreateUser(create) => self.create_user(create),
            StatementKind::CreateLogin { name, password } => self.create_login(name, password.as_ref(), MASTER_NAME),
            StatementKind::AlterLogin { name, password } => self.alter_login(name, password),
            StatementKind::CreateDatabase { name, collation } => {
                if !self.is_administrator() {
                    return Err(
                        SqlError::new(262, "CREATE DATABASE permission denied in database 'master'.").severity(14)
                    );
                }
                self.check_not_in_trigger("CREATE DATABASE")?;
                if self.tx.is_some() {
                    return Err(SqlError::new(
                        226,
                        "CREATE DATABASE statement not allowed within multi-statement transaction.",
                    )
                    .state(6));
                }
                if let Some(collation) = collation
                    && crate::value::Collation::parse(collation)? != crate::value::Collation::default()
                {
                    return Err(SqlError::not_supported("a database with another collation than the server's"));
                }
                self.engine.create_database(name)
            }
            StatementKind::AlterTable(alter) => self.alter_table(alter, activation),
            StatementKind::AlterIndex(alter) => self.alter_index(alter, activation),
            StatementKind::AlterDatabase(alter) => self.alter_database(alter),
            StatementKind::AlterAuthorization { schema, to } => self.alter_authorization(schema, to),
            StatementKind::AlterRole { role, add, member } => self.alter_role(role, member, *add),
            StatementKind::Drop(drop) => self.drop_objects(drop, activation),
            StatementKind::DropIndex(drop) => {
                for (name, table) in &drop.indexes {
                    self.drop_index(name, table, drop.if_exists, activation)?;
                }
                Ok(())
            }
            StatementKind::Permission(permission) => self.change_permission(permission),
            StatementKind::SetIdentityInsert { table, on } => self.set_identity_insert(table, *on),
            _ => Err(SqlError::not_supported("this statement")),
        }
    }
}
