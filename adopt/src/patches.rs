//! Applies changes to the scripts of `sql/`, which name the places to change.

/// The start of a line that names a place in a script: `-- adopt: refuse`. The replacement replaces this line and, if a
/// line [`END`] follows, the lines up to that.
const MARK: &str = "-- adopt: ";
const END: &str = "end";

/// Applies the changes of `patch` to `script`, one to each marked place. A patch without a named change replaces the
/// whole script.
///
/// The error names a place without a change, a change without a place, or another fault of the script or patch. A test
/// applies all changes to the scripts of this release, so users never see this error.
pub(super) fn applied(script: &str, patch: &str) -> Result<String, String> {
    let mut changes = changes(patch)?;
    let places = places(script).count();
    if changes.is_empty() && places == 0 {
        return Ok(patch.to_string());
    }
    let mut changed = String::with_capacity(script.len() + patch.len());
    let mut lines = script.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let Some(name) = place(line) else {
            changed.push_str(line);
            continue;
        };
        let at = changes
            .iter()
            .position(|(of, _)| *of == name)
            .ok_or(format!("the patch has no change for the place {name}"))?;
        changed.push_str(&changes.swap_remove(at).1);
        let mut ahead = lines.clone();
        if ahead.find_map(place) == Some(END) {
            lines = ahead;
        }
    }
    match changes.first() {
        None => Ok(changed),
        Some((name, _)) => Err(format!("the script has no place {name}")),
    }
}

pub(super) fn places(script: &str) -> impl Iterator<Item = &str> {
    script.lines().filter_map(place)
}

fn place(line: &str) -> Option<&str> {
    Some(line.trim().strip_prefix(MARK)?.trim())
}

fn changes(patch: &str) -> Result<Vec<(&str, String)>, String> {
    let mut changes: Vec<(&str, String)> = Vec::new();
    for line in patch.split_inclusive('\n') {
        if let Some(name) = line.trim_end().strip_prefix("--@ ") {
            if changes.iter().any(|(of, _)| *of == name) {
                return Err(format!("there are two changes for the place {name}"));
            }
            changes.push((name, String::new()));
        } else if let Some((_, put)) = changes.last_mut() {
            put.push_str(line);
        }
    }
    Ok(changes)
}

/// Fills in marks: `/*{name}*/` becomes the value of that name. Fails for a mark without a value.
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
    fn each_place_is_given_its_change() {
        let script = "a\n-- adopt: one\nb\n  -- adopt: two\nc\nd\n-- adopt: end\ne\n";
        assert_eq!(applied(script, "why\n--@ two\nx\n--@ one\ny\nz\n").unwrap(), "a\ny\nz\nb\nx\ne\n");
        assert_eq!(applied("a\n", "whole\n").unwrap(), "whole\n");
    }

    #[test]
    fn a_place_without_a_change_and_a_change_without_a_place_are_found() {
        let error = |script, patch| applied(script, patch).unwrap_err();
        assert_eq!(error("-- adopt: one\n-- adopt: two\n", "--@ one\n"), "the patch has no change for the place two");
        assert_eq!(error("-- adopt: one\n", "whole\n"), "the patch has no change for the place one");
        assert_eq!(error("-- adopt: one\n", "--@ one\n--@ two\n"), "the script has no place two");
        assert_eq!(error("-- adopt: one\n", "--@ one\n--@ one\n"), "there are two changes for the place one");
        // A place that is marked twice, and an end without a beginning.
        assert_eq!(error("-- adopt: one\n-- adopt: one\n", "--@ one\n"), "the patch has no change for the place one");
        assert_eq!(error("-- adopt: end\n", "--@ one\n"), "the patch has no change for the place end");
    }

    #[test]
    fn marks_are_filled_in_once() {
        let values = [("a", "/*{b}*/".to_string()), ("b", "2".to_string())];
        assert_eq!(filled("x /*{a}*/ /*{b}*/", &values).unwrap(), "x /*{b}*/ 2");
        assert!(filled("/*{c}*/", &values).is_err());
    }
}
