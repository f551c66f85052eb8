//! Who asks for a page.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::failure::Failure;

/// Whom the guard has let through.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The cookie's value.
    pub session: String,
    /// What forms have to contain.
    pub csrf: String,
    /// Who it is, for the audit.
    pub name: String,
    /// The proxy says who it is.
    pub is_named: bool,
    /// He has logged in here, and so can log out.
    pub has_logged_in: bool,
    /// He may act, as far as this page is concerned; the connection's login must be allowed to, too.
    pub may_act: bool,
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Visitor, Failure> {
        parts.extensions.get().cloned().ok_or(Failure::NotLoggedIn)
    }
}
