//! Splitting scripts into batches.

/// Splits a script at its GO lines. A GO inside a comment or a string does not count. The client's `GO n` is not
/// supported; the scripts do not use it.
pub(crate) fn batches(script: &str) -> Vec<&str> {
    let mut batches = Vec::new();
    let mut inside = Inside::Code;
    let mut begin = 0;
    let mut position = 0;
    for line in script.split_inclusive('\n') {
        let next = position + line.len();
        if inside == Inside::Code && line.trim().eq_ignore_ascii_case("GO") {
            batches.push(&script[begin..position]);
            begin = next;
        } else {
            inside = after_line(line, inside);
        }
        position = next;
    }
    batches.push(&script[begin..]);
    batches.retain(|batch| !batch.trim().is_empty());
    batches
}

/// The construct that a position in a script is inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    /// A string, or a name in brackets or quotes: ends with this character, which is doubled to stand for itself.
    Quoted(char),
    /// Block comments nest in T-SQL: the depth.
    Comment(usize),
}

fn after_line(line: &str, mut inside: Inside) -> Inside {
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let mut pair = false;
        inside = match (inside, character, next) {
            (Inside::Code, '-', Some('-')) => return Inside::Code,
            (Inside::Code, '/', Some('*')) => {
                pair = true;
                Inside::Comment(1)
            }
            (Inside::Code, '\'' | '"', _) => Inside::Quoted(character),
            (Inside::Code, '[', _) => Inside::Quoted(']'),
            // For other characters, a doubled closing character closes and opens again, which is equivalent. A bracket
            // would not open again.
            (Inside::Quoted(']'), ']', Some(']')) => {
                pair = true;
                inside
            }
            (Inside::Quoted(closing), _, _) if character == closing => Inside::Code,
            (Inside::Comment(depth), '/', Some('*')) => {
                pair = true;
                Inside::Comment(depth + 1)
            }
            (Inside::Comment(depth), '*', Some('/')) => {
                pair = true;
                if depth == 1 { Inside::Code } else { Inside::Comment(depth - 1) }
            }
            _ => inside,
        };
        if pair {
            characters.next();
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_split_at_go_outside_of_comments_and_strings() {
        let script = "SELECT 1\nGO\n-- don't\nSELECT 'it''s\nGO\n' AS [a]]'b]\n  go  \n\
                      /* GO /* nested */\nGO\n*/ SELECT 2;\r\nGO\r\n\nGO\n";
        let expected =
            ["SELECT 1\n", "-- don't\nSELECT 'it''s\nGO\n' AS [a]]'b]\n", "/* GO /* nested */\nGO\n*/ SELECT 2;\r\n"];
        assert_eq!(batches(script), expected);
        assert_eq!(batches("SELECT 1"), ["SELECT 1"]);
    }
}
