//! Sections `kinds.<kind>`: options of the jobs of one kind.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::job::{ALLOWED_KIND, Needs, is_kind};

use super::range_checks::{refused, refused_text};

/// The options of one kind in a file: section `[kinds.<kind>]`, for example
///
/// ```toml
/// [kinds.render]
/// needs = { memory = "3 GiB", threads = 4, gpu = 1 }
/// ```
///
/// Options that the program sets in code ([`KindOptions`](crate::handler::KindOptions)) take precedence, and those that
/// a job states itself over both. A kind for which a worker has no handler of its own is the kind of jobs that its
/// handler for all other kinds runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindConfig {
    /// What each job of the kind needs of a worker while it runs.
    pub needs: Option<Needs>,
}

/// Rejects kinds that no job can have, and needs that none can have.
pub(crate) fn check_kinds(kinds: &BTreeMap<String, KindConfig>) -> Result<(), Error> {
    for (kind, KindConfig { needs }) in kinds {
        if !is_kind(kind) {
            return Err(refused_text("a kind in the section kinds", kind, ALLOWED_KIND));
        }
        if let Some(Err(message)) = needs.as_ref().map(Needs::check) {
            return Err(refused(&format!("kinds.{kind}.needs"), "not possible", message));
        }
    }
    Ok(())
}
