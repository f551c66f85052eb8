//! The changes to the scripts of `sql/`: places named by their text, and what is put there.

/// One change.
#[derive(Debug)]
struct Change<'a> {
    how: &'a str,
    place: String,
    put: String,
}

/// Makes the changes of `patch` to `script`. A patch without a change stands in place of the whole.
///
/// # Errors
///
/// The place that is not there exactly once, or what is wrong with the patch. A test makes all changes to the scripts
/// of this release, so nobody else meets this.
pub(super) fn applied(script: &str, patch: &str) -> Result<String, String> {
    let changes = changes(patch)?;
    if changes.is_empty() {
        return Ok(patch.to_string());
    }
    let mut changed = script.to_string();
    for Change { how, place, put } in changes {
        let mut found = changed.match_indices(&place);
        let (Some((at, _)), None) = (found.next(), found.next()) else {
            return Err(format!("this place is not there exactly once:\n{place}"));
        };
        let (begin, end, text) = match how {
            "in place of" => (at, at + place.len(), put.trim_end_matches('\n').to_string()),
            "before" => (at, at, put),
            // Behind the line in which the place ends.
            _ => {
                let end =
                    changed[at + place.len()..].find('\n').map_or(changed.len(), |next| at + place.len() + next + 1);
                (end, end, put)
            }
        };
        changed.replace_range(begin..end, &text);
    }
    Ok(changed)
}

fn changes(patch: &str) -> Result<Vec<Change<'_>>, String> {
    let mut changes: Vec<Change<'_>> = Vec::new();
    let mut is_put = false;
    for line in patch.split_inclusive('\n') {
        match (line.trim_end().strip_prefix("--@ "), changes.last_mut()) {
            (Some("put"), Some(change)) if !is_put => {
                change.place.truncate(change.place.trim_end_matches('\n').len());
                is_put = true;
            }
            (Some(how @ ("in place of" | "before" | "behind")), _) => {
                changes.push(Change { how, place: String::new(), put: String::new() });
                is_put = false;
            }
            (Some(other), _) => return Err(format!("--@ {other} is no part of a change")),
            (None, Some(change)) if is_put => change.put.push_str(line),
            (None, Some(change)) => change.place.push_str(line),
            (None, None) => {}
        }
    }
    Ok(changes)
}

/// Fills in marks: `/*{name}*/` becomes the value of that name.
///
/// # Errors
///
/// A mark for which there is no value.
pub(super) fn filled(text: &str, values: &[(&str, String)]) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find("/*{") {
        let Some(length) = rest[begin..].find("}*/") else { return Err("a mark is not closed".to_string()) };
        let name = &rest[begin + 3..begin + length];
        let Some((_, value)) = values.iter().find(|(known, _)| *known == name) else {
            return Err(format!("there is no value for the mark {name}"));
        };
        filled.push_str(&rest[..begin]);
        filled.push_str(value);
        rest = &rest[begin + length + 3..];
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_replaced_and_added_to() {
        let script = "a\nb\nc\n";
        assert_eq!(applied(script, "why\n--@ in place of\nb\n--@ put\nx\ny\n").unwrap(), "a\nx\ny\nc\n");
        assert_eq!(applied(script, "--@ before\nb\n--@ put\nx\n").unwrap(), "a\nx\nb\nc\n");
        assert_eq!(
            applied(script, "--@ behind\nb\n--@ put\nx\n--@ behind\nc\n--@ put\nz\n").unwrap(),
            "a\nb\nx\nc\nz\n"
        );
        assert_eq!(applied(script, "whole\n").unwrap(), "whole\n");
        assert!(applied("b b", "--@ before\nb\n--@ put\n").is_err());
        assert!(applied(script, "--@ before\nd\n--@ put\n").is_err());
        assert!(applied(script, "--@ instead\nb\n").is_err());
    }

    #[test]
    fn marks_are_filled_in_once() {
        let values = [("a", "/*{b}*/".to_string()), ("b", "2".to_string())];
        assert_eq!(filled("x /*{a}*/ /*{b}*/", &values).unwrap(), "x /*{b}*/ 2");
        assert!(filled("/*{c}*/", &values).is_err());
    }
}
