//! What happens to a job that runs out of memory.

use std::str::FromStr;

use crate::error::Error;
use crate::job::MAX_MEMORY;

use super::memory_size::MemorySize;
use super::queue::is_name;
use super::range_checks::refused_text;

/// What happens to the jobs of a kind that run out of memory
/// ([`KindOptions::on_out_of_memory`](crate::handler::KindOptions::on_out_of_memory), or `on_out_of_memory` in
/// `[kinds.<kind>]`). The attempt counts in any case. As text: `retry`, `grow:2:64GiB` or `move:QUEUE`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum OutOfMemory {
    /// The job is retried by the retry policy.
    #[default]
    Retry,
    /// The job is retried, and needs more memory from then on than it and its kind have stated. If neither states any,
    /// it is retried without a change.
    Grow {
        /// By how much the stated memory is multiplied: more than 1.
        factor: f64,
        /// The most memory in bytes. A job that already needs this much becomes dead.
        max: u64,
    },
    /// The job goes to this queue, as with [`JobError::move_to`](crate::handler::JobError::move_to). A job that is in
    /// this queue is retried.
    MoveTo(String),
}

/// How a rule is written, for error messages.
pub(super) const ALLOWED_RULE: &str = "retry, grow:FACTOR:SIZE (a factor above 1; a size up to 1 PiB in KiB, MiB, GiB or \
                                       TiB) such as grow:2:64GiB, or move:QUEUE (a queue's name)";

impl OutOfMemory {
    /// The invalid value, and what is allowed.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
        match self {
            OutOfMemory::Grow { factor, .. } if !(factor.is_finite() && *factor > 1.0) => {
                Err((format!("factor {factor}"), "a factor above 1".to_owned()))
            }
            OutOfMemory::Grow { max, .. } if *max == 0 || *max > MAX_MEMORY => {
                Err((format!("max {max}"), format!("a max of 1 to {MAX_MEMORY} bytes (1 PiB)")))
            }
            OutOfMemory::MoveTo(queue) if !is_name(queue) => {
                Err((format!("move to '{queue}'"), "the name of a queue".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for OutOfMemory {
    type Err = Error;

    fn from_str(text: &str) -> Result<OutOfMemory, Error> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let rule = match (name, rest.split_once(':')) {
            ("retry", None) if text == name => Some(OutOfMemory::Retry),
            ("move", _) => Some(OutOfMemory::MoveTo(rest.to_owned())),
            ("grow", Some((factor, max))) => match (factor.parse(), MemorySize::parse(max)) {
                (Ok(factor), Some(MemorySize::Bytes(max))) => Some(OutOfMemory::Grow { factor, max }),
                _ => None,
            },
            _ => None,
        };
        let rule = rule.filter(|rule| rule.check().is_ok());
        rule.ok_or_else(|| refused_text("on_out_of_memory", text, ALLOWED_RULE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_what_happens() {
        let rule = |text: &str| text.parse::<OutOfMemory>().ok();
        assert_eq!(rule("retry"), Some(OutOfMemory::Retry));
        assert_eq!(rule("grow:1.5:64GiB"), Some(OutOfMemory::Grow { factor: 1.5, max: 64 << 30 }));
        assert_eq!(rule("grow:2:64 GiB"), Some(OutOfMemory::Grow { factor: 2.0, max: 64 << 30 }));
        assert_eq!(rule("move:big:jobs"), Some(OutOfMemory::MoveTo("big:jobs".to_owned())));
        for text in [
            "",
            "retry:",
            "retry:1",
            "grow",
            "grow:2",
            "grow:1:1GiB",
            "grow:inf:1GiB",
            "grow:2:80 %",
            "grow:2:lots",
            "grow:2:1025TiB",
            "move:",
            "move: big",
            "dead",
        ] {
            assert_eq!(rule(text), None, "{text}");
        }
    }
}
