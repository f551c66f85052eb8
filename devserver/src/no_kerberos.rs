//! In place of `kerberos.rs`, where the dev server is built without its feature `gssapi`.

use crate::error::{SqlError, SqlResult};

pub struct Accepted {
    pub answer: Vec<u8>,
    pub login: String,
}

/// As a SQL Server outside of any domain.
pub fn accept(_: &[u8]) -> SqlResult<Accepted> {
    let message =
        "Login failed. The login is from an untrusted domain and cannot be used with Integrated authentication.";
    Err(SqlError::new(18452, message).severity(14))
}
