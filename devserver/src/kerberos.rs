//! Logins by Kerberos: the server's end of a GSSAPI context.
//!
//! The key is in the keytab that the environment's KRB5_KTNAME names, of a principal MSSQLSvc/host:port.

use libgssapi::context::{SecurityContext, ServerCtx};

use crate::error::{SqlError, SqlResult};

/// A client that a ticket has proved.
pub struct Accepted {
    /// For the client, so that it knows this server, too.
    pub answer: Vec<u8>,
    /// As Windows calls it: `EXAMPLE\worker` for `worker@EXAMPLE.TEST`.
    pub login: String,
}

/// Takes the client's first token. Kerberos needs no second one.
pub fn accept(token: &[u8]) -> SqlResult<Accepted> {
    let failed = |error: libgssapi::error::Error| refused(&error.to_string());
    let mut context = ServerCtx::new(None);
    let answer = context.step(token, None).map_err(failed)?.map(|answer| answer.to_vec()).unwrap_or_default();
    if !context.is_complete() {
        return Err(refused("the client's first token is not enough"));
    }
    let principal = context.source_name().and_then(|name| name.display_name()).map_err(failed)?;
    let login = windows_name(&String::from_utf8_lossy(&principal));
    Ok(Accepted { answer, login })
}

fn windows_name(principal: &str) -> String {
    match principal.split_once('@') {
        Some((user, realm)) => format!("{}\\{user}", realm.split('.').next().unwrap_or(realm)),
        None => principal.to_owned(),
    }
}

/// SQL Server's number and first words; it keeps the rest for its own log, which the dev server has not.
fn refused(why: &str) -> SqlError {
    SqlError::new(18452, format!("Login failed. The login is from an untrusted domain ({why}).")).severity(14)
}
