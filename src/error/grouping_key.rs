//! Reduces an error's text to a pattern. Texts that differ only in numbers, ids and quoted parts have the same pattern.

use std::ops::ControlFlow;

pub(crate) const GAP: char = '…';

/// The maximum length of a pattern, which ends between two words. Only the first 400 characters of an error are read.
/// Where they end depends on the length of the error's numbers, so that end must not be in the pattern.
const MAX_CHARS: usize = 200;

/// A word of at least this many hexadecimal digits is an id, even if all digits are decimal.
const SHORTEST_ID: usize = 8;

/// The most decimal digits of an exit code: 32 bits on Windows.
const LONGEST_CODE: usize = 10;

const QUOTES: [(char, char); 6] = [('\'', '\''), ('"', '"'), ('`', '`'), ('“', '”'), ('‘', '’'), ('«', '»')];

/// Returns the first line of an error, plus the following lines as long as each line ends in a colon. `…` replaces
/// numbers (except exit codes and signals), hexadecimal ids, GUIDs and quoted parts. Gaps with only punctuation between
/// them become one: times, addresses, versions, lists. The pattern of a pattern is the pattern itself. Runs in linear
/// time.
pub(crate) fn grouping_key(error: &str) -> String {
    let mut pattern = GroupingKey::default();
    let mut rest = headline(error);
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) { word_at(rest) } else { first.len_utf8() };
        let quote = QUOTES.iter().find(|(opening, _)| *opening == first && !after_word);
        let (length, added) = match quote {
            Some((opening, closing)) => quoted(rest, *opening, *closing, &mut pattern),
            None if is_word(first) => (length, pattern.add_word(&rest[..length])),
            None => (length, pattern.add(&rest[..length])),
        };
        if added.is_break() {
            break;
        }
        after_word = rest[..length].chars().next_back().is_some_and(is_word);
        rest = &rest[length..];
    }
    let end = pattern.text.trim_end().len();
    pattern.text.truncate(end);
    pattern.text
}

/// The lines that describe the error. A line that ends in a colon announces the next.
fn headline(error: &str) -> &str {
    let error = error.trim();
    let mut end = 0;
    for line in error.split_inclusive('\n') {
        end += line.len();
        let line = line.trim_end();
        if !line.is_empty() && !line.ends_with(':') {
            break;
        }
    }
    error[..end].trim_end()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == GAP
}

fn word_at(text: &str) -> usize {
    let end = |text: &str| text.find(|character| !is_word(character)).unwrap_or(text.len());
    if is_guid(text) { 36 } else { end(text) }
}

fn is_guid(text: &str) -> bool {
    let Some(guid) = text.as_bytes().get(..36) else { return false };
    let is_part = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    guid.iter().enumerate().all(is_part) && !text[36..].starts_with(is_word)
}

/// Adds the quoted part at the start of the text, and returns its length. Without a closing quotation mark, it is the
/// whole text. An apostrophe closes a quote only at the end of a word, so not in "can't".
fn quoted(text: &str, opening: char, closing: char, pattern: &mut GroupingKey) -> (usize, ControlFlow<()>) {
    let inside = &text[opening.len_utf8()..];
    let closes = |(at, _): &(usize, &str)| closing != '\'' || !inside[at + 1..].starts_with(is_word);
    match inside.match_indices(closing).find(closes) {
        Some((at, _)) => {
            let length = opening.len_utf8() + at + closing.len_utf8();
            (length, pattern.add(&format!("{opening}{GAP}{closing}")))
        }
        None => (text.len(), pattern.add(&format!("{opening}{GAP}"))),
    }
}

#[derive(Default)]
struct GroupingKey {
    text: String,
    chars: usize,
}

impl GroupingKey {
    fn add(&mut self, text: &str) -> ControlFlow<()> {
        let chars = text.chars().count();
        if self.chars + chars > MAX_CHARS {
            return ControlFlow::Break(());
        }
        self.text.push_str(text);
        self.chars += chars;
        ControlFlow::Continue(())
    }

    /// Adds a word: letters, digits, and gaps, which count as digits. Exit codes and signals keep their numbers,
    /// because these distinguish failures.
    fn add_word(&mut self, word: &str) -> ControlFlow<()> {
        let before = self.text.strip_suffix('-').unwrap_or(&self.text);
        let is_end = ["exit code ", "exit status ", "signal "].iter().any(|name| before.ends_with(name));
        if is_end && word.len() <= LONGEST_CODE && word.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.add(word);
        }
        let (before, after) = match Word::of(word) {
            Word::Text => return self.add(word),
            Word::Varies => ("", ""),
            Word::WithNumber { before, after } => (before, after),
        };
        if self.chars + before.chars().count() + 1 + after.chars().count() > MAX_CHARS {
            return ControlFlow::Break(());
        }
        self.add(before)?;
        self.add_gap();
        self.add(after)
    }

    fn add_gap(&mut self) {
        if let [_, ' ' | '\t' | '\n' | '(' | '[' | '=' | ':' | ',', '-' | '+'] = self.end() {
            self.drop_last(1);
        }
        match self.end() {
            [.., GAP] => return,
            [_, GAP, '.' | ',' | ':' | '-' | '+' | '/' | '_'] => return self.drop_last(1),
            [GAP, ',', ' '] => return self.drop_last(2),
            _ => {}
        }
        self.text.push(GAP);
        self.chars += 1;
    }

    fn end(&self) -> [char; 3] {
        let mut last = self.text.chars().rev();
        let mut next = || last.next().unwrap_or(' ');
        let (third, second, first) = (next(), next(), next());
        [first, second, third]
    }

    fn drop_last(&mut self, chars: usize) {
        for _ in 0..chars {
            self.text.pop();
        }
        self.chars -= chars;
    }
}

enum Word<'a> {
    Text,
    Varies,
    /// One number: `worker17`, `250ms`.
    WithNumber {
        before: &'a str,
        after: &'a str,
    },
}

impl Word<'_> {
    fn of(word: &str) -> Word<'_> {
        let is_digit = |character: char| character.is_ascii_digit() || character == GAP;
        let is_hex = word.chars().all(|character| character.is_ascii_hexdigit() || character == GAP);
        if is_hex && word.chars().count() >= SHORTEST_ID || is_guid(word) {
            return Word::Varies;
        }
        let Some(start) = word.find(is_digit) else { return Word::Text };
        let number = &word[start..];
        let end = start + number.find(|character| !is_digit(character)).unwrap_or(number.len());
        let (before, after) = (&word[..start], &word[end..]);
        let has_another = after.contains(is_digit);
        let is_0x = word.len() > 2 && (word.starts_with("0x") || word.starts_with("0X"));
        if is_hex && start == 0 || has_another || is_0x { Word::Varies } else { Word::WithNumber { before, after } }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_ids_and_quoted_parts_are_gaps() {
        for (error, pattern) in [
            ("", ""),
            ("out of memory", "out of memory"),
            ("took 250ms, limit 100ms", "took …ms, limit …ms"),
            ("-5 is less than 0.5", "… is less than …"),
            ("needs 1,024 bytes, has 17", "needs … bytes, has …"),
            ("a-5 = -5 (+7)", "a-… = … (…)"),
            ("job 7 of worker17 on host-3.example", "job … of worker… on host-….example"),
            ("job 0b7a9d6e-7a41-4c1e-9f3c-b1a5b1a5b1a5 is gone", "job … is gone"),
            ("job {FACEFEED-cafe-cafe-cafe-feedfacebeef}", "job {…}"),
            ("at 0x7ffe12 and 0XABCDEF: deadbeef, a1b2c3", "at … and …: …"),
            ("the facade faded", "the facade faded"),
            ("cannot open 'C:\\in\\7.csv'", "cannot open '…'"),
            ("key=\"it's\" can't be `x` or ``", "key=\"…\" can't be `…` or `…`"),
            ("no “such” file «x»", "no “…” file «…»"),
            ("the workers' job isn't 'a 'b' c' here", "the workers' job isn't '…' c' here"),
            ("unclosed 'to the end: 7", "unclosed '…"),
            ("connect 10.0.0.1:1433 failed", "connect … failed"),
            ("at 2026-11-23T10:20:30.5Z it broke", "at …Z it broke"),
            ("ids 1, 2, 3, 4 are missing", "ids … are missing"),
            ("/tmp/job-17/part_3.bin: no space", "/tmp/job-…/part_….bin: no space"),
            ("exit code 137: took 7 s", "exit code 137: took … s"),
            ("exit code -1073741819", "exit code -1073741819"),
            ("killed by signal 34, exit status 2", "killed by signal 34, exit status 2"),
            ("exit code 12345678901 of code 3", "exit code … of code …"),
            ("Zeile 7 ist ungültig: größer als 3", "Zeile … ist ungültig: größer als …"),
        ] {
            assert_eq!(grouping_key(error), pattern, "{error}");
        }
    }

    #[test]
    fn a_line_that_ends_in_a_colon_goes_on_with_the_next() {
        assert_eq!(grouping_key("no such file\n at line 7\n at line 9"), "no such file");
        assert_eq!(
            grouping_key("\n\n  thread 'x' panicked at a.rs:7:5:\r\nno room\nnote: …"),
            "thread '…' panicked at a.rs:…:\r\nno room"
        );
        assert_eq!(grouping_key("caused by:\n\n"), "caused by:");
    }

    /// The position at which SQL Server cuts an error depends on the length of its numbers.
    #[test]
    fn a_long_error_has_the_same_pattern_wherever_it_is_cut() {
        let error = |id: u64| format!("cannot store page {id}: {}", "the disk is full ".repeat(40));
        let cut = |error: String| error.chars().take(400).collect::<String>();
        let pattern = grouping_key(&cut(error(7)));
        assert_eq!(grouping_key(&cut(error(1_234_567_890))), pattern);
        assert!((190..=MAX_CHARS).contains(&pattern.chars().count()), "{pattern}");
        assert!(["the", "disk", "is", "full"].contains(&pattern.rsplit(' ').next().unwrap()), "{pattern}");
    }

    #[test]
    fn a_text_of_any_length_is_read_once() {
        // Quadratic time would be minutes for each of these.
        for part in ["'", "'a", "'a'b", "\"", "7.", "-", "a1", "`x` ", ":\n", "deadbeef-", "…"] {
            assert!(grouping_key(&part.repeat(1_000_000)).chars().count() <= MAX_CHARS);
        }
    }

    /// Each varying part twice, with different values.
    fn varying() -> impl Strategy<Value = (String, String)> {
        prop_oneof![
            ("[0-9]{1,12}", "[0-9]{1,12}"),
            ("-?[0-9]{1,4}[.][0-9]{1,3}", "[0-9]{1,4}"),
            ("[0-9a-f]{8,40}", "[0-9a-f]{8,40}"),
            ("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
            ("0x[0-9A-F]{1,16}", "0x[0-9a-f]{1,16}"),
            ("'[a-z0-9 /:.-]{0,20}'", "'[a-zA-Z \"]{0,20}'"),
            ("\"[a-z0-9 /:'-]{0,20}\"", "\"[A-Z ]{0,20}\""),
        ]
    }

    proptest! {
        #[test]
        fn the_pattern_of_a_pattern_is_itself(error in prop_oneof![
            "\\PC{0,300}",
            "[a-f0-9x'\"`.,:+ \\-_/…\n(=zT]{0,300}",
            "([a-z]{1,12}|[0-9]{1,5}|'|\"|-| |, |[.:]|…|\n){0,120}",
        ]) {
            let pattern = grouping_key(&error);
            prop_assert_eq!(grouping_key(&pattern), pattern);
        }

        #[test]
        fn errors_that_differ_in_such_parts_only_have_one_pattern(
            parts in prop::collection::vec(("[g-z]{1,10}", varying(), "[g-z]{1,10}[:,.]?"), 1..6),
        ) {
            let error = |which: fn(&(String, String)) -> &String| {
                parts.iter().map(|(before, part, after)| format!("{before} {} {after}", which(part))).collect::<Vec<_>>().join(" ")
            };
            prop_assert_eq!(grouping_key(&error(|(one, _)| one)), grouping_key(&error(|(_, other)| other)));
        }
    }
}
