//! Permission checks: 229 for objects, 262 and 2760 for creating things.

use crate::bind::type_name::system_type;
use crate::catalog::principal::{DBO_USER, SecurableId};
use crate::catalog::user_type::UserType;
use crate::error::{SqlError, SqlResult};
use crate::execute::activation::Activation;
use crate::execute::permission::{check_needs, denied};
use crate::plan::cached_plan::PermissionNeed;
use crate::session::client_session::Session;
use crate::storage::fold;
use crate::tsql::ast::TypeName;

impl Session {
    /// Checks what a statement needs.
    pub(crate) fn check_permissions(&self, needs: &[PermissionNeed]) -> SqlResult<()> {
        check_needs(needs, self.state.user, &self.database)
    }

    /// Who owns what is in a schema; nobody, for what is temporary: "ownership chaining" does not reach out of tempdb.
    pub(crate) fn owner_in(&self, schema: &str) -> Option<i32> {
        self.database.catalog.read().owner_in(schema)
    }

    /// EXECUTE on a procedure or function, unless it belongs to the owner of the module that calls it.
    pub(crate) fn check_execute(&self, schema: &str, name: &str, id: i32, activation: &Activation) -> SqlResult<()> {
        if self.state.user == DBO_USER {
            return Ok(());
        }
        let catalog = self.database.catalog.read();
        let Some(schema_entry) = catalog.schema(schema) else { return Ok(()) };
        if activation.owner == Some(schema_entry.owner) {
            return Ok(());
        }
        let on = SecurableId::Object { id, schema: schema_entry.id };
        if catalog.permits(self.state.user, "EXECUTE", on)? {
            return Ok(());
        }
        Err(denied("EXECUTE", name, &self.database.name, schema))
    }

    /// EXECUTE on a table type, which declaring a variable of it or passing a table needs.
    pub(crate) fn check_type(&self, user_type: &UserType) -> SqlResult<()> {
        if self.state.user == DBO_USER {
            return Ok(());
        }
        let catalog = self.database.catalog.read();
        let Some(schema) = catalog.schema(&user_type.schema) else { return Ok(()) };
        let on = SecurableId::Type { id: user_type.id, schema: schema.id };
        if catalog.permits(self.state.user, "EXECUTE", on)? {
            return Ok(());
        }
        Err(denied("EXECUTE", &user_type.name, &self.database.name, &user_type.schema))
    }

    /// EXECUTE on the type of a parameter or of what a function returns, which the module's definition needs.
    pub(crate) fn check_named_type(&self, ty: &TypeName) -> SqlResult<()> {
        if self.state.user == DBO_USER || system_type(ty)?.is_some() {
            return Ok(());
        }
        let found = self.with_binder(|binder| binder.find_user_type(&ty.name))?;
        found.map_or(Ok(()), |found| self.check_type(&found))
    }

    /// A permission on the database such as CREATE TABLE; 262. Ownership chaining does not extend to DDL: the user's
    /// own permissions count in procedures too.
    pub(crate) fn check_create(&self, permission: &str) -> SqlResult<()> {
        let catalog = self.database.catalog.read();
        if catalog.permits(self.state.user, permission, SecurableId::Database)? {
            return Ok(());
        }
        let message = format!("{permission} permission denied in database '{}'.", self.database.name);
        Err(SqlError::new(262, message).severity(14))
    }

    /// ALTER on a schema, without which nothing can be created in it; 2760.
    pub(crate) fn check_alter_schema(&self, schema: &str) -> SqlResult<()> {
        let catalog = self.database.catalog.read();
        let missing = || {
            SqlError::new(
                2760,
                format!(
                    "The specified schema name \"{schema}\" either does not exist or you do not have permission to use \
                     it."
                ),
            )
        };
        let Some(entry) = catalog.schema(schema) else { return Err(missing()) };
        if fold(schema) == "sys" || fold(schema) == "information_schema" {
            return Err(missing());
        }
        if catalog.permits(self.state.user, "ALTER", SecurableId::Schema(entry.id))? {
            return Ok(());
        }
        Err(missing())
    }

    /// ALTER on an object, or membership in db_owner: `error` otherwise.
    pub(crate) fn check_alter_object(&self, id: i32, schema: &str, error: SqlError) -> SqlResult<()> {
        self.check_object("ALTER", id, schema, error)
    }

    /// A permission on an object: `error` otherwise.
    pub(crate) fn check_object(&self, permission: &str, id: i32, schema: &str, error: SqlError) -> SqlResult<()> {
        let catalog = self.database.catalog.read();
        let Some(entry) = catalog.schema(schema) else { return Err(error) };
        let on = SecurableId::Object { id, schema: entry.id };
        if catalog.permits(self.state.user, permission, on)? { Ok(()) } else { Err(error) }
    }

    /// Whether the user may do everything in the database.
    pub(crate) fn is_owner(&self) -> bool {
        self.database.catalog.read().principals.is_owner(self.state.user)
    }

    /// Whether the login may do everything on the server.
    pub(crate) fn is_administrator(&self) -> bool {
        self.state.is_administrator
    }
}
