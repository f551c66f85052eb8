//! What became of a job that was run: from the handler to SQL Server, one type.

use std::time::Duration;

use crate::follow_up::FollowUp;

/// What a worker acknowledges about a job that it has run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done.
    Done {
        /// What it leaves behind, for the queue's sink, and for queues that keep that.
        output: Option<Vec<u8>>,
        /// The jobs that are enqueued with its acknowledgement.
        follow_ups: Vec<FollowUp>,
    },
    /// It is done, and its handler has acknowledged it itself: [`finish_in`](crate::finish_in()).
    Acknowledged,
    /// It failed and runs again, unless its attempts are used up: then it is dead.
    Retry {
        /// How long it waits before that.
        delay: Duration,
        /// Why it failed, with all causes; as much as the column holds (4,000 UTF-16 units).
        error: String,
    },
    /// It runs again, and this attempt does not count.
    Snooze {
        /// How long it waits before that.
        delay: Duration,
        /// Why; as much as the column holds (4,000 UTF-16 units).
        error: String,
    },
    /// It failed for good.
    Dead {
        /// Why it failed, with all causes; as much as the column holds (4,000 UTF-16 units).
        error: String,
    },
}

impl Outcome {
    pub(crate) fn output(&self) -> Option<&[u8]> {
        match self {
            Outcome::Done { output, .. } => output.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn follow_ups(&self) -> &[FollowUp] {
        match self {
            Outcome::Done { follow_ups, .. } => follow_ups,
            _ => &[],
        }
    }

    /// The bytes that its acknowledgement carries: of its output and of the payloads of its follow-ups.
    pub(crate) fn bytes(&self) -> usize {
        let output = self.output().map_or(0, <[u8]>::len);
        output + self.follow_ups().iter().map(|follow_up| follow_up.job.payload.len()).sum::<usize>()
    }
}

/// The width of the column `error`, in UTF-16 units.
const MAX_ERROR_UNITS: usize = 4_000;

/// As much of an error's text as the column holds, without cutting a character in two.
pub(crate) fn cut(error: &str) -> &str {
    cut_to(error, MAX_ERROR_UNITS)
}

/// As much of a text as a column of so many UTF-16 units holds, without cutting a character in two.
pub(crate) fn cut_to(text: &str, max_units: usize) -> &str {
    let mut units = 0;
    for (position, character) in text.char_indices() {
        units += character.len_utf16();
        if units > max_units {
            return &text[..position];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_cut_to_the_column_at_a_character() {
        assert_eq!(cut("short"), "short");
        let exact = "🦀".repeat(2_000);
        assert_eq!(cut(&exact), exact);
        let long = format!("x{exact}");
        let kept = cut(&long);
        assert_eq!(kept.encode_utf16().count(), 3_999);
        assert!(long.starts_with(kept));
    }
}
