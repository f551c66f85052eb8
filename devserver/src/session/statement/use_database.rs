//! USE: the session moves to another database.

use std::sync::Arc;

use crate::catalog::principal::default_schema_of;
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::session::result_target::ResultTarget;
use crate::storage::fold;

impl Engine {
    /// Of the system databases only `master` is one that a session can be in.
    pub(crate) fn check_not_only_a_name(&self, name: &str) -> SqlResult<()> {
        match self.server.database_named(name) {
            Some(known) if known.is_only_a_name => {
                Err(SqlError::not_supported(format!("being in the database {}", known.name)))
            }
            _ => Ok(()),
        }
    }
}

impl Session {
    /// Moves the session to another database.
    pub(crate) fn use_database(&mut self, name: &str, out: &mut ResultTarget<'_>) -> SqlResult<()> {
        if fold(name) == fold(&self.database.name) {
            let current = self.database.name.to_string();
            out.writer().database_changed(&current, &current);
            return Ok(());
        }
        if self.engine.server.product.is_azure() {
            let message = "USE statement is not supported to switch between databases. Use a new connection to connect to a \
                 different database.";
            return Err(SqlError::new(40_508, message));
        }
        self.engine.check_not_only_a_name(name)?;
        let Some(database) = self.engine.find_database(name) else {
            return Err(SqlError::new(
                911,
                format!("Database '{name}' does not exist. Make sure that the name is entered correctly."),
            ));
        };
        if self.tx.is_some() || !self.state.temporary_tables.is_empty() {
            return Err(SqlError::not_supported("USE within a transaction or with #temp tables"));
        }
        if self.state.nest_level > 0 {
            return Err(SqlError::new(
                154,
                "a USE database statement is not allowed in a procedure, function or trigger.",
            )
            .severity(15));
        }
        let (user, default_schema) = {
            let catalog = database.catalog.read();
            let Some(principal) = catalog.principals.user_of_session(&self.state.login, self.state.is_administrator)
            else {
                return Err(SqlError::new(
                    916,
                    format!(
                        "The server principal \"{}\" is not able to access the database \"{name}\" under the current \
                         security context.",
                        self.state.login
                    ),
                )
                .severity(14));
            };
            (principal.id, default_schema_of(&principal.kind))
        };
        let old_name = Arc::clone(&self.database.name);
        self.move_to(database);
        self.state.user = user;
        self.state.default_schema = default_schema;
        self.state.identity_insert = None;
        out.writer().database_changed(&self.database.name, &old_name);
        Ok(())
    }
}
