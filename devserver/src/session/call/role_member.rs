//! sp_addrolemember.
//!
//! Source: "sp_addrolemember" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-stored-procedures/); their messages: 15014 and 15410 in "Database Engine events and
//! errors" (docs/relational-databases/errors-events/database-engine-events-and-errors-15000-to-15999.md).

use crate::error::{SqlError, SqlResult};
use crate::session::call::argument::{PassedArgument, Returned};
use crate::session::call::system_argument::text_argument;
use crate::session::client_session::Session;

impl Session {
    pub(crate) fn add_role_member(&mut self, arguments: &[PassedArgument]) -> SqlResult<Returned> {
        let role = text_argument(arguments, 0, "@rolename", "sp_addrolemember")?;
        let member = text_argument(arguments, 1, "@membername", "sp_addrolemember")?;
        self.changing_security(|session| {
            {
                let catalog = session.database.catalog.read();
                if catalog.principals.find(&role).is_none_or(|found| !found.is_role()) {
                    let message = format!("The role '{role}' does not exist in the current database.");
                    return Err(SqlError::new(15014, message));
                }
                if catalog.principals.find(&member).is_none() {
                    let message = format!("User or role '{member}' does not exist in this database.");
                    return Err(SqlError::new(15410, message).severity(11));
                }
            }
            session.alter_role(&role, &member, true)
        })?;
        Ok(Returned::default())
    }
}
