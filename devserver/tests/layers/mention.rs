//! What a file's text mentions: a reader of Rust that knows words, comments, literals and `use` trees, and no more.

pub type Words = Vec<String>;

/// A `use` of a path, or a path in the code.
pub struct Mention {
    pub path: Words,
    pub line: usize,
    /// By which name a `use` makes it known; `None` for a path in the code.
    pub name: Option<String>,
    pub is_public: bool,
}

/// Where the string or character that the text begins with ends.
fn end_of_literal(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (position, letter) in text.char_indices().skip(1) {
        if letter == quote && !is_escaped {
            return position + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    text.len()
}

/// The length of the comment or literal that the text begins with; 0 if it begins with neither.
fn no_code(text: &str) -> usize {
    let up_to = |end: &str| text[1..].find(end).map_or(text.len(), |position| 1 + position + end.len());
    let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
    match text.as_bytes() {
        [b'/', b'/', ..] => up_to("\n") - 1,
        [b'/', b'*', ..] => up_to("*/"),
        [b'r', ..] if text[1 + hashes..].starts_with('"') => {
            2 + hashes + {
                let end = format!("\"{}", "#".repeat(hashes));
                text[2 + hashes..].find(&end).map_or(text.len() - 2 - hashes, |position| position + end.len())
            }
        }
        [b'"', ..] => end_of_literal(text, '"'),
        [b'\'', ..] if text[1..].starts_with('\\') || text.chars().nth(2) == Some('\'') => end_of_literal(text, '\''),
        _ => 0,
    }
}

/// The words of the code, `::` and other signs one by one, each with its line.
fn words(text: &str) -> Vec<(&str, usize)> {
    let (mut words, mut rest, mut line) = (Vec::new(), text, 1);
    while let Some(first) = rest.chars().next() {
        let skipped = if first.is_ascii() { no_code(rest) } else { first.len_utf8() };
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = match rest.find(|letter| !is_part(letter)).unwrap_or(rest.len()) {
            _ if skipped > 0 => skipped,
            0 if rest.starts_with("::") => 2,
            0 => 1,
            length => length,
        };
        if skipped == 0 && !first.is_whitespace() {
            words.push((&rest[..length], line));
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    words
}

/// Takes out each item under `#[cfg(test)]`.
fn without_tests(words: Vec<(&str, usize)>) -> Vec<(&str, usize)> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let is_test = ["#", "[", "cfg", "(", "test", ")", "]"].iter().zip(&words[at..]).all(|(a, (b, _))| a == b);
        if !is_test {
            kept.push(words[at]);
            at += 1;
            continue;
        }
        at += 7;
        let (mut depth, is_use) = (0, words.get(at).is_some_and(|(word, _)| *word == "use"));
        while let Some((word, _)) = words.get(at) {
            at += 1;
            depth += i32::from(matches!(*word, "{" | "(" | "[")) - i32::from(matches!(*word, "}" | ")" | "]"));
            if depth <= 0 && (*word == ";" || (*word == "}" && !is_use)) {
                break;
            }
        }
    }
    kept
}

/// The paths of a use tree, whose words begin at `at`; says where it ends.
fn use_tree(
    words: &[(&str, usize)],
    mut at: usize,
    before: &[String],
    public: bool,
    found: &mut Vec<Mention>,
) -> usize {
    let (mut path, mut name) = (before.to_vec(), None);
    while let Some((word, line)) = words.get(at) {
        at += 1;
        match *word {
            "::" => {}
            "as" => name = words.get(at).map(|(word, _)| word.to_string()),
            "{" => {
                while words.get(at).is_some_and(|(word, _)| *word != "}") {
                    at = use_tree(words, at, &path, public, found);
                    at += usize::from(words.get(at).is_some_and(|(word, _)| *word == ","));
                }
                return at + 1;
            }
            "," | "}" | ";" => {
                if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                let name = name.or(path.last().cloned());
                found.push(Mention { path, line: *line, name, is_public: public });
                return at - 1;
            }
            word if name.is_none() => path.push(word.to_string()),
            _ => {}
        }
    }
    at
}

/// Every path in the text, tests apart.
pub fn mentions(text: &str) -> Vec<Mention> {
    let words = without_tests(words(text));
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((word, line)) = words.get(at) {
        let word_before = at.checked_sub(1).map_or("", |at| words[at].0);
        if *word == "use" {
            let is_public = word_before == "pub" || word_before == ")";
            at = use_tree(&words, at + 1, &[], is_public, &mut found);
            continue;
        }
        let mut path = vec![word.to_string()];
        while let [("::", _), (next, _), ..] = words[at + 1..]
            && next.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
        {
            path.push(next.to_string());
            at += 2;
        }
        if path.len() > 1 && word_before != "::" {
            found.push(Mention { path, line: *line, name: None, is_public: false });
        }
        at += 1;
    }
    found
}

/// What makes a `mod.rs` more than a table of contents, with its line: anything but attributes, `mod`, and `use`; and a
/// `mod` that others may name, with the module's name.
pub fn not_contents(text: &str) -> Vec<(usize, Option<String>)> {
    let words = without_tests(words(text));
    let (mut found, mut at) = (Vec::new(), 0);
    let word = |at: usize| words.get(at).map_or("", |(word, _)| word);
    let after = |mut at: usize, open: &str, close: &str| {
        let mut depth = 0;
        while at < words.len() {
            depth += i32::from(word(at) == open) - i32::from(word(at) == close);
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    };
    while at < words.len() {
        let (start, line) = (at, words[at].1);
        if word(at) == "#" {
            at = after(at + 1 + usize::from(word(at + 1) == "!"), "[", "]");
            continue;
        }
        if word(at) == "pub" {
            at = if word(at + 1) == "(" { after(at + 1, "(", ")") } else { at + 1 };
        }
        match word(at) {
            "mod" if word(at + 2) == ";" => {
                if at > start {
                    found.push((line, Some(word(at + 1).to_string())));
                }
                at += 3;
            }
            "use" => at += 1 + words[at..].iter().position(|(word, _)| *word == ";").unwrap_or(words.len()),
            _ => {
                found.push((line, None));
                break;
            }
        }
    }
    found
}

#[test]
fn a_nested_use_is_taken_apart() {
    let found = mentions("pub use a::{b::{C, self}, d as e};\nfn f() { g::h::<i::J>() }");
    let found: Vec<_> = found.iter().map(|m| (m.path.join("::"), m.line, m.name.as_deref(), m.is_public)).collect();
    let used = |path: &str, name| (path.to_string(), 1, Some(name), true);
    let in_code = |path: &str| (path.to_string(), 2, None, false);
    let expected = [used("a::b::C", "C"), used("a::b", "b"), used("a::d", "e"), in_code("g::h"), in_code("i::J")];
    assert_eq!(found, expected);
}
