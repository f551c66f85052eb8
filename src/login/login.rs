//! Kinds of logins.

use super::secrets::{Password, Secret};
use super::token_source::TokenSource;

/// Whether `Integrated Security=true` is supported: by Kerberos with the feature `gssapi`, by SSPI with `windows-auth`.
pub(crate) const INTEGRATED: bool = cfg!(any(all(unix, feature = "gssapi"), all(windows, feature = "windows-auth")));

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Login {
    /// A SQL login.
    Sql { user: Secret, password: Password },
    /// The operating system's user, or the principal of the Kerberos ticket.
    Integrated,
    /// A token from Microsoft Entra ID.
    Entra(Identity),
    /// A token from the program.
    Own(TokenSource),
}

/// The identity for which a token is requested.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Identity {
    pub(crate) kind: IdentityKind,
    /// `User ID`: the client ID. Required for a service principal, optional for the others, which may have several
    /// identities.
    pub(crate) client_id: Option<String>,
    /// The resource that the token is for.
    pub(crate) scope: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IdentityKind {
    Managed,
    ServicePrincipal { tenant_id: Option<String>, secret: Password },
    Workload,
    Default,
}
