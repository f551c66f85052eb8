//! Sections `kinds.<kind>`: options of the jobs of one kind.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Error;
use crate::job::{ALLOWED_KIND, Needs, START_WITHIN, is_kind};

use super::out_of_memory::OutOfMemory;
use super::range_checks::{refused, refused_text};

/// The options of one kind in a file: section `[kinds.<kind>]`, for example
///
/// ```toml
/// [kinds.render]
/// needs = { memory = "3 GiB", threads = 4, gpu = 1 }
/// on_out_of_memory = "grow:2:64GiB"
/// start_within_ms = 300000
/// ```
///
/// Options that the program sets in code ([`KindOptions`](crate::handler::KindOptions)) take precedence, and those that
/// a job states itself over both. A kind for which a worker has no handler of its own is the kind of jobs that its
/// handler for all other kinds runs.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct KindConfig {
    /// What each job of the kind needs of a worker while it runs.
    pub needs: Option<Needs>,
    /// What happens to a job of the kind that runs out of memory. In a file: `"retry"`, the default, `"grow:2:64GiB"`
    /// (twice the memory for the next attempt, up to 64 GiB) or `"move:QUEUE"`.
    pub on_out_of_memory: Option<OutOfMemory>,
    /// How long after it was due a job of the kind may start: then it expires
    /// ([`KindOptions::start_within`](crate::handler::KindOptions::start_within)). In a file: `start_within_ms`, 1 to
    /// 315,360,000,000 (ten years).
    pub start_within: Option<Duration>,
}

/// Rejects kinds and needs that no job can have, and rules that mean nothing.
pub(crate) fn check_kinds(kinds: &BTreeMap<String, KindConfig>) -> Result<(), Error> {
    for (kind, KindConfig { needs, on_out_of_memory, start_within }) in kinds {
        if !is_kind(kind) {
            return Err(refused_text("a kind in the section kinds", kind, ALLOWED_KIND));
        }
        if let Some(Err(message)) = needs.as_ref().map(Needs::check) {
            return Err(refused(&format!("kinds.{kind}.needs"), "not possible", message));
        }
        if let Some(Err((value, allowed))) = on_out_of_memory.as_ref().map(OutOfMemory::check) {
            return Err(refused(&format!("kinds.{kind}.on_out_of_memory"), value, allowed));
        }
        if let Some(time) = start_within.filter(|time| !START_WITHIN.contains(time)) {
            let value = time.as_millis();
            return Err(refused(
                &format!("kinds.{kind}.start_within_ms"),
                value,
                "1 to 315360000000 (ten years)".to_owned(),
            ));
        }
    }
    Ok(())
}
