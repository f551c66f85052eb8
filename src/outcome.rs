//! What became of a job that was run: from the handler to SQL Server, one type.

use std::time::Duration;

/// What is acknowledged about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done.
    Done { output: Option<Vec<u8>> },
    /// It failed and runs again after the delay, unless its attempts are used up.
    Retry { delay: Duration, error: String },
    /// It failed for good.
    Dead { error: String },
}

impl Outcome {
    /// The bytes of its output.
    pub(crate) fn output_bytes(&self) -> usize {
        match self {
            Outcome::Done { output: Some(output) } => output.len(),
            _ => 0,
        }
    }
}

/// The width of the column `error`, in UTF-16 units.
const MAX_ERROR_UNITS: usize = 4_000;

/// As much of an error's text as the column holds, without cutting a character in two.
pub(crate) fn cut(error: &str) -> &str {
    let mut units = 0;
    for (position, character) in error.char_indices() {
        units += character.len_utf16();
        if units > MAX_ERROR_UNITS {
            return &error[..position];
        }
    }
    error
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
