//! The visitor of a request.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::failure::Failure;

#[derive(Debug, Clone)]
pub struct Visitor {
    pub session: String,
    /// The token of forms.
    pub csrf: String,
    /// The name for the audit.
    pub name: String,
    /// The proxy sends the name.
    pub is_named: bool,
    /// Has logged in here, so can log out.
    pub has_logged_in: bool,
    /// Whether the options allow actions. The SQL Server login must be allowed to, too.
    pub may_act: bool,
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Visitor, Failure> {
        parts.extensions.get().cloned().ok_or(Failure::NotLoggedIn)
    }
}
