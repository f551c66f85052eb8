//! In place of `entra.rs`, where the crate is built without its feature `entra`.

use crate::access_token::TokenSource;
use crate::connection_string::Identity;

/// A connection string that asks for one is refused.
pub(super) fn tokens(_: Identity) -> TokenSource {
    TokenSource::named("Microsoft Entra ID", || async { Err("the crate was built without its feature entra".into()) })
}
