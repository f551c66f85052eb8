//! How a session begins: a login opens it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::session::engine::Engine;
use crate::tds::login::LoginRequest;

/// The session ids up to 50 are the system's.
const FIRST_SPID: i32 = 51;
/// How many there are before numbers are used again: as many connections as SQL Server allows.
const SPIDS: i32 = 32_000;

impl Engine {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// 18456 for a wrong name or password, 4060 for a database that is not there or that the login may not use.
    pub fn login(self: &Arc<Engine>, request: &LoginRequest) -> SqlResult<Session> {
        let refused = || SqlError::new(18456, format!("Login failed for user '{}'.", request.user)).severity(14);
        let login = self.find_login(&request.user).ok_or_else(refused)?;
        if login.password.as_deref() != request.password.as_deref() {
            return Err(refused());
        }
        let wanted = if request.database.is_empty() { &*login.default_database } else { &request.database };
        let no_database = || {
            SqlError::new(4060, format!("Cannot open database \"{wanted}\" requested by the login. The login failed."))
                .severity(11)
        };
        if self.server.database_named(wanted).is_some_and(|known| known.is_only_a_name) {
            return Err(SqlError::not_supported(format!("being in the database {wanted}")));
        }
        let database = self.find_database(wanted).ok_or_else(no_database)?;
        // @@SPID is a smallint.
        let spid = FIRST_SPID + self.next_spid.fetch_add(1, Ordering::Relaxed).rem_euclid(SPIDS);
        Session::open(Arc::clone(self), database, &login, request, spid).ok_or_else(no_database)
    }
}
