//! Statements that were prepared: kept under a number until they are given up.

use crate::error::{SqlError, SqlResult};
use crate::session::client_session::{Prepared, Session};

impl Session {
    /// sp_prepare: keeps the text under a number.
    pub(crate) fn prepare(&mut self, declared: &str, text: &str) -> i32 {
        let handle = self.next_handle;
        self.next_handle += 1;
        self.prepared.push((handle, Prepared { declared: declared.into(), text: text.into() }));
        handle
    }

    pub(crate) fn prepared(&self, handle: i32) -> SqlResult<Prepared> {
        match self.prepared.iter().find(|(number, _)| *number == handle) {
            Some((_, prepared)) => Ok(prepared.clone()),
            None => Err(SqlError::new(8179, format!("Could not find prepared statement with handle {handle}."))),
        }
    }

    pub(crate) fn unprepare(&mut self, handle: i32) -> SqlResult<()> {
        self.prepared(handle)?;
        self.prepared.retain(|(number, _)| *number != handle);
        Ok(())
    }
}
