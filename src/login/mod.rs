//! Logins, their secrets, and when the next attempt is due.

#[cfg(feature = "entra")]
mod entra;
mod login;
mod login_attempts;
mod secrets;
mod standing;
mod token_cache;
mod token_source;

pub(crate) use login::{INTEGRATED, Identity, IdentityKind, Login};
pub(crate) use login_attempts::{Attempt, LoginAttempts, Proof};
pub use secrets::AccessToken;
pub(crate) use secrets::{Password, Secret};
pub use token_source::TokenSource;
