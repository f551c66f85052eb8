//! The end of what a run writes to its log.
//!
//! ```text
//! Context::log, Context::log_output ──▶ RunLog ──(a second later, or at the end of a kept run)──▶ note_progress
//! ```
//!
//! The text is plain whatever a program writes: invalid UTF-8 becomes U+FFFD, a lone carriage return ends a line as a line
//! feed does, and escape sequences of terminals and control characters other than tabs are left out. However much is
//! written, the work for a piece is bounded by the size of the log.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The end of a run's log.
#[derive(Debug)]
pub(crate) struct RunLog {
    /// The most bytes of text.
    limit: usize,
    text: Mutex<LogText>,
    /// Whether the notes contain the log, and nothing has read it since.
    is_noted: AtomicBool,
}

#[derive(Debug, Default)]
struct LogText {
    /// About twice as much as the limit between two calls, so that not every piece moves all of it.
    end: String,
    /// How many bytes the log has in all, with those that were dropped.
    length: u64,
    /// The beginning of a character.
    partial: Vec<u8>,
    escape: Escape,
    /// Whether the last character was a carriage return.
    after_return: bool,
}

/// Where the text is in an escape sequence of a terminal (ECMA-48, 5.4 and 5.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    Outside,
    /// After ESC.
    Begun,
    /// In a control sequence, which ends with a character from @ to ~.
    Control,
    /// In a string, such as a window's title, which ends with BEL or ESC \\.
    Text,
}

impl RunLog {
    pub(crate) fn new(limit: usize) -> RunLog {
        RunLog { limit, text: Mutex::default(), is_noted: AtomicBool::new(false) }
    }

    /// The most bytes that [`end`](Self::end) returns.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Adds what was written. Returns whether the log is to be noted.
    pub(crate) fn add(&self, written: &[u8]) -> bool {
        if written.is_empty() {
            return false;
        }
        self.text.lock().add(written, self.limit);
        !self.is_noted.swap(true, Ordering::AcqRel)
    }

    /// The same for a line, without another's between it and its end.
    pub(crate) fn add_line(&self, line: &str) -> bool {
        let mut text = self.text.lock();
        text.add(line.as_bytes(), self.limit);
        text.add(b"\n", self.limit);
        drop(text);
        !self.is_noted.swap(true, Ordering::AcqRel)
    }

    /// Returns the last bytes, up to the limit, and how many there were in all. What is added from now on is to be noted
    /// again.
    pub(crate) fn end(&self) -> (String, u64) {
        self.is_noted.store(false, Ordering::Release);
        let mut text = self.text.lock();
        text.cut(self.limit);
        (text.end.clone(), text.length)
    }
}

impl LogText {
    fn add(&mut self, written: &[u8], limit: usize) {
        let joined: Vec<u8>;
        let mut written = written;
        // Nobody sees the rest, and it could be a billion bytes.
        if written.len() > 2 * limit {
            let skipped = written.len() - 2 * limit;
            self.length += skipped as u64;
            self.end.clear();
            self.partial.clear();
            self.escape = Escape::Outside;
            written = &written[skipped..];
        }
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(written);
            joined = std::mem::take(&mut self.partial);
            written = &joined;
        }
        for chunk in written.utf8_chunks() {
            chunk.valid().chars().for_each(|character| self.add_char(character));
            if self.end.len() > 2 * limit {
                self.cut(limit);
            }
            let invalid = chunk.invalid();
            let is_last = invalid.as_ptr_range().end == written.as_ptr_range().end;
            if is_last && is_beginning(invalid) {
                self.partial = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.add_char(char::REPLACEMENT_CHARACTER);
            }
        }
        if self.end.len() > 2 * limit {
            self.cut(limit);
        }
    }

    fn add_char(&mut self, character: char) {
        self.escape = match (self.escape, character) {
            (Escape::Outside, '\x1B') => Escape::Begun,
            (Escape::Outside, _) => return self.add_text(character),
            (Escape::Begun, '[') => Escape::Control,
            (Escape::Begun, ']' | 'P' | 'X' | '^' | '_') => Escape::Text,
            (Escape::Begun, '\x20'..='\x2F') => Escape::Begun,
            (Escape::Control, '\x20'..='\x3F') => Escape::Control,
            (Escape::Text, '\x1B') => Escape::Begun,
            // No sequence has several lines: it was cut off.
            (Escape::Begun | Escape::Control | Escape::Text, '\n') => {
                self.escape = Escape::Outside;
                return self.add_text(character);
            }
            (Escape::Text, character) if character != '\x07' => Escape::Text,
            _ => Escape::Outside,
        };
    }

    fn add_text(&mut self, character: char) {
        let after_return = std::mem::replace(&mut self.after_return, character == '\r');
        let character = match character {
            '\n' if after_return => return,
            '\r' => '\n',
            '\n' | '\t' => character,
            _ if character.is_control() => return,
            _ => character,
        };
        self.end.push(character);
        self.length += character.len_utf8() as u64;
    }

    /// Drops all but the last bytes, up to `limit`.
    fn cut(&mut self, limit: usize) {
        let mut from = self.end.len().saturating_sub(limit);
        while !self.end.is_char_boundary(from) {
            from += 1;
        }
        self.end.drain(..from);
        self.end.shrink_to(2 * limit);
    }
}

/// Whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(limit: usize, written: &[&[u8]]) -> (String, u64) {
        let log = RunLog::new(limit);
        written.iter().for_each(|written| {
            log.add(written);
        });
        log.end()
    }

    #[test]
    fn whatever_is_written_becomes_plain_text() {
        let cases: [(&[&[u8]], &str); 13] = [
            (&[b"one\n", b"two\n"], "one\ntwo\n"),
            (&["h\u{e4}lf".as_bytes()], "h\u{e4}lf"),
            (&[b"\xF0\x9F", b"\xA6", b"\x80 crab"], "\u{1F980} crab"),
            (&[b"\xFF\xFE bytes \xF0\x9F", b" end"], "\u{FFFD}\u{FFFD} bytes \u{FFFD} end"),
            (&[b"\x1B[31mred\x1B[0m \x1B[1;32", b"mgreen\x1B[m"], "red green"),
            (&[b"\x1B]0;title\x07text \x1B]0;title\x1B\\text"], "text text"),
            (&[b"\x1B]0;cut off\nnext line"], "\nnext line"),
            (&[b"\x1B(Bplain\x1B7"], "plain"),
            (&[b"\x1B\nnext line"], "\nnext line"),
            (&[b"10 %\r20 %\r\nend\r", b"\n"], "10 %\n20 %\nend\n"),
            (&[b"a\0b\x08c\td\x7Fe"], "abc\tde"),
            (&["\u{9B}31mc1".as_bytes()], "31mc1"),
            (&[b""], ""),
        ];
        for (written, text) in cases {
            assert_eq!(logged(1_000, written), (text.to_owned(), text.len() as u64), "{written:?}");
        }
    }

    #[test]
    fn the_last_bytes_stay_and_all_are_counted() {
        let (end, length) = logged(10, &[b"0123456789", b"abcdef", b"ghij"]);
        assert_eq!((end.as_str(), length), ("abcdefghij", 20));
        let (end, length) = logged(10, &["\u{e4}".repeat(11).as_bytes()]);
        assert_eq!((end, length), ("\u{e4}".repeat(5), 22));
        let (end, length) = logged(10, &[b"before", &[b'x'; 1 << 20], b"end"]);
        assert_eq!((end.as_str(), length), ("xxxxxxxend", 6 + (1 << 20) + 3));
        let log = RunLog::new(10);
        (0..10_000).for_each(|_| {
            log.add(b"a line\n");
        });
        assert!(log.text.lock().end.capacity() < 100);
        log.add(&[0xFF; 1_000]);
        assert!(log.text.lock().end.capacity() < 100, "each byte becomes three");
    }

    #[test]
    fn a_log_is_noted_once_until_it_is_read() {
        let log = RunLog::new(10);
        assert!(!log.add(b"") && log.add(b"a") && !log.add(b"b"));
        log.end();
        assert!(log.add(b"c"));
    }
}
