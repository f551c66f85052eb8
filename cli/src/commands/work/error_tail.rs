//! The end of a program's standard error, for the job's error.

use readpast::Context;
use readpast_web::telling_line::telling_line;

use crate::texts::first_line;

/// The most UTF-16 units of a job's error: the width of its column.
pub const MAX_UNITS: usize = 4_000;

/// The most characters of the line with the reason, which fits into `list_errors`.
const MAX_LINE: usize = 350;

/// More than a program's pipes give at its end.
const MOST_UNLOGGED: usize = 8 << 20;

/// The UTF-8 bytes of [`MAX_UNITS`] units.
const KEPT: usize = 3 * MAX_UNITS;

#[derive(Debug, Default)]
pub struct ErrorTail {
    bytes: Vec<u8>,
    /// How many bytes were ever added.
    pushed: u64,
    /// Whether earlier bytes were dropped.
    cut: bool,
    /// What nobody has taken for the job's log: at most what one read of the pipes takes.
    unlogged: Vec<u8>,
}

impl ErrorTail {
    pub fn push(&mut self, bytes: &[u8]) {
        self.unlogged.extend_from_slice(bytes);
        // Only between two jobs does nobody take it.
        if self.unlogged.len() > MOST_UNLOGGED {
            self.unlogged.clear();
        }
        self.bytes.extend_from_slice(bytes);
        self.pushed += bytes.len() as u64;
        // Keeps twice as many bytes as needed, so that not every push moves all of them.
        if self.bytes.len() > 2 * KEPT {
            self.bytes.drain(..self.bytes.len() - KEPT);
            self.cut = true;
        }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.unlogged.clear();
        self.cut = false;
    }

    /// How many bytes were ever added.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Drops the bytes up to this one, which are of earlier jobs.
    pub fn drop_until(&mut self, pushed: u64) {
        let dropped = self.pushed - self.bytes.len() as u64;
        if let Some(earlier) = pushed.checked_sub(dropped) {
            self.bytes.drain(..earlier as usize);
            self.cut = false;
        }
    }

    /// Adds what has come to the job's log.
    pub fn log(&mut self, context: &Context) {
        if self.unlogged.is_empty() {
            return; // the log of a job with nothing to log is not even created
        }
        context.log_output(&self.unlogged);
        self.unlogged.clear();
    }

    /// Composes the job's error: `what` happened, the line with the reason, and as much of the end of the stream as
    /// fits. Lists show its first line, and failures are grouped by it.
    pub fn after(&self, what: &str) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = text.trim();
        if text.is_empty() {
            return what.to_owned();
        }
        let line = telling_line(text);
        let first = format!("{what}: {}", first_line(line, MAX_LINE));
        if text == line && !self.cut && line.chars().count() <= MAX_LINE {
            return first;
        }
        let units = |text: &str| text.encode_utf16().count();
        let mut room = MAX_UNITS.saturating_sub(units(&first) + units("\n…"));
        let mut start = text.len();
        for (position, character) in text.char_indices().rev() {
            let width = character.len_utf16();
            if width > room {
                break;
            }
            (room, start) = (room - width, position);
        }
        let dots = if self.cut || start > 0 { "…" } else { "" };
        format!("{first}\n{dots}{}", &text[start..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_earlier_jobs_have_written_is_dropped() {
        let mut tail = ErrorTail::default();
        tail.push(b"of an earlier job\n");
        let of_earlier_jobs = tail.pushed();
        tail.push(b"of this job\n");
        tail.drop_until(of_earlier_jobs);
        assert_eq!(tail.after("x"), "x: of this job");
        tail.push(&[b'\n'; 2 * KEPT]);
        tail.push(b"the end\n");
        tail.drop_until(of_earlier_jobs); // it was already dropped, and more
        assert!(tail.cut && tail.after("x").ends_with("the end"), "{tail:?}");
    }

    #[test]
    fn the_end_is_kept_within_the_column() {
        let mut tail = ErrorTail::default();
        assert_eq!(tail.after("exit code 3"), "exit code 3");
        tail.push(b"no such file\n");
        assert_eq!(tail.after("exit code 3"), "exit code 3: no such file");
        tail.push(b"in a.png\n");
        assert_eq!(tail.after("exit code 3"), "exit code 3: in a.png\nno such file\nin a.png");
        for _ in 0..5_000 {
            tail.push("x🦀 ".as_bytes());
        }
        tail.push(b"the end\n");
        let text = tail.after("exit code 3");
        assert!(text.starts_with("exit code 3: x🦀 x🦀 ") && text.ends_with("🦀 the end"), "{text}");
        assert!((MAX_UNITS - 1..=MAX_UNITS).contains(&text.encode_utf16().count()));
        assert!(tail.bytes.len() <= 2 * KEPT);
        tail.clear();
        tail.push(b"half of a character: \xF0\x9F\xA6");
        assert_eq!(tail.after("x"), "x: half of a character: \u{FFFD}");
    }
}
