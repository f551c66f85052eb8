//! Index options that the version or the edition of SQL Server does not have.

use crate::catalog::server::Product;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::{AlterTableAction, ConstraintKind, IndexOption, StatementKind, TableDefinition};

impl Session {
    pub(crate) fn check_index_options(&self, statement: &StatementKind) -> SqlResult<()> {
        let product = self.engine.product();
        match statement {
            StatementKind::CreateIndex(create) => {
                let name = &create.table.name;
                if is_online(&create.options) && name.starts_with('#') && !name.starts_with("##") {
                    return Err(SqlError::not_supported("ONLINE = ON of an index on a local temporary table"));
                }
                check(&create.options, product)
            }
            StatementKind::AlterIndex(alter) => check(&alter.options, product),
            StatementKind::AlterTable(alter) => match &alter.action {
                AlterTableAction::Add { definition, .. } => all(definition, |options| check(options, product)),
                AlterTableAction::Rebuild(options) => check(options, product),
                _ => Ok(()),
            },
            StatementKind::CreateTable(create) => all(&create.definition, |options| check_new(options, product)),
            StatementKind::CreateType(create) => all(&create.definition, |options| check_new(options, product)),
            _ => Ok(()),
        }
    }
}

fn all(definition: &TableDefinition, check: impl Fn(&[IndexOption]) -> SqlResult<()>) -> SqlResult<()> {
    for constraint in &definition.constraints {
        if let ConstraintKind::Key { options, .. } = &constraint.kind {
            check(options)?;
        }
    }
    definition.indexes.iter().try_for_each(|index| check(&index.options))
}

fn is_online(options: &[IndexOption]) -> bool {
    options.contains(&IndexOption::Online(true))
}

/// "CREATE TABLE" (docs/t-sql/statements/create-table-transact-sql.md) has no ONLINE among its index options.
fn check_new(options: &[IndexOption], product: Product) -> SqlResult<()> {
    if is_online(options) {
        return Err(SqlError::not_supported("ONLINE = ON in the definition of a table"));
    }
    check(options, product)
}

/// Sources: "CREATE INDEX" (MicrosoftDocs/sql-docs, docs/t-sql/statements/create-index-transact-sql.md),
/// OPTIMIZE_FOR_SEQUENTIAL_KEY (from SQL Server 2019 on) and ONLINE; 1712:
/// docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md.
fn check(options: &[IndexOption], product: Product) -> SqlResult<()> {
    if options.iter().any(|option| matches!(option, IndexOption::OptimizeForSequentialKey(_))) {
        product.check_has(15, "OPTIMIZE_FOR_SEQUENTIAL_KEY")?;
    }
    if is_online(options) && !product.builds_indexes_online() {
        return Err(SqlError::new(
            1712,
            "Online index operations can only be performed in Enterprise edition of SQL Server.",
        ));
    }
    Ok(())
}
