//! How an access is decided.
//!
//! Whoever names an object needs a permission on it, unless what names it and what is named have one owner: then the
//! permission that was asked for at the beginning of the chain is enough. A batch and dynamic text belong to nobody, so
//! that their user needs a permission on all they name. A procedure, trigger, view, function, default or computed
//! column belongs to whoever owns its schema, and so does a table. The binder knows what it stands in
//! ([`crate::bind::binder::Binder::owner`]) and notes a need only where the owner changes; the needs of a view's or
//! function's own body, against its owner, come with those of the statement around it. So a plan has the needs that are
//! left, which in a chain of one owner are none, and before it runs each is looked for among the permissions of the
//! user ([`crate::catalog::catalog::Catalog::permits`]): dbo is not asked. What is called by EXEC is found when it is
//! called, and compared with the owner of the module that runs ([`crate::execute::activation::Activation::owner`]). DDL
//! is no part of a chain: it asks the user, wherever it stands. An owner that changes makes plans stale like any change
//! of the catalog.
//!
//! Sources: "Tutorial: Ownership Chains and Context Switching" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/tutorial-ownership-chains-and-context-switching.md); "Authorization and Permissions in SQL
//! Server" (dotnet/docs, docs/framework/data/adonet/sql/authorization-and-permissions-in-sql-server.md): "When an
//! object is accessed through a chain, SQL Server first compares the object's owner to the owner of the calling
//! object".

use crate::catalog::database::Database;
use crate::catalog::principal::DBO_USER;
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::PermissionNeed;

/// 229 if the user lacks one of the permissions.
pub fn check_needs(needs: &[PermissionNeed], user: i32, database: &Database) -> SqlResult<()> {
    if needs.is_empty() || user == DBO_USER {
        return Ok(());
    }
    let catalog = database.catalog.read();
    for need in needs {
        if !catalog.permits(user, need.permission, need.on)? {
            return Err(denied(need.permission, &need.name, &database.name, &need.schema));
        }
    }
    Ok(())
}

pub fn denied(permission: &str, name: &str, database: &str, schema: &str) -> SqlError {
    SqlError::new(
        229,
        format!(
            "The {permission} permission was denied on the object '{name}', database '{database}', schema '{schema}'."
        ),
    )
    .severity(14)
    .state(5)
}
