//! Who logs in.

use super::secrets::{Password, Secret};
use super::token_source::TokenSource;

/// `Integrated Security=true` can be done: by Kerberos with the feature `gssapi`, by SSPI with `windows-auth`.
pub(crate) const INTEGRATED: bool = cfg!(any(all(unix, feature = "gssapi"), all(windows, feature = "windows-auth")));

/// How a connection logs in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Login {
    /// A login of SQL Server's own.
    Sql { user: Secret, password: Password },
    /// As the operating system's user, or whom Kerberos takes the process for.
    Integrated,
    /// With a token that Microsoft Entra ID gives.
    Entra(Identity),
    /// With a token that the program gives.
    Own(TokenSource),
}

/// For whom a token is to be had.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Identity {
    pub(crate) kind: IdentityKind,
    /// `User ID`: the client ID. For a service principal it is there; for the others, where they have several.
    pub(crate) client_id: Option<String>,
    /// What the token is for.
    pub(crate) scope: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IdentityKind {
    Managed,
    ServicePrincipal { tenant_id: Option<String>, secret: Password },
    Workload,
    Default,
}
