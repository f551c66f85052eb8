//! Logins, their secrets, and when the next attempt is due.

mod credentials;
#[cfg(feature = "entra")]
mod entra;
mod login;
mod secrets;
mod standing;
mod token_cache;
mod token_source;

pub(crate) use credentials::{Attempt, Credentials, Proof};
pub(crate) use login::{INTEGRATED, Identity, IdentityKind, Login};
pub use secrets::AccessToken;
pub(crate) use secrets::{Password, Secret};
pub use token_source::TokenSource;
