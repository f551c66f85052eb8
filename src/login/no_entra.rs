//! In place of `entra.rs`, where the crate is built without its feature `entra`.

use super::login::Identity;
use super::token_source::TokenSource;

/// A connection string that asks for one is refused.
pub(crate) fn tokens(_: Identity) -> TokenSource {
    TokenSource::named("Microsoft Entra ID", || async { Err("the crate was built without its feature entra".into()) })
}
