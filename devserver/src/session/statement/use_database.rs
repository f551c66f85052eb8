//! USE of the database that the session is in, which clients and scripts begin with.

use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::session::result_target::ResultTarget;
use crate::storage::fold;

impl Session {
    pub(crate) fn use_database(&mut self, name: &str, out: &mut ResultTarget<'_>) -> SqlResult<()> {
        let current = &*self.database.name;
        if fold(name) == fold(current) {
            out.writer().database_changed(current, current);
            return Ok(());
        }
        if self.engine.server.product.is_azure() {
            let message = "USE statement is not supported to switch between databases. Use a new connection to connect to a \
                 different database.";
            return Err(SqlError::new(40_508, message));
        }
        Err(SqlError::not_supported("USE of another database than the session's"))
    }
}
