//! The telling line of an error, for display.

use askama::Template;

use crate::telling_line::exception_line;
use crate::texts::first_line;

/// The most characters shown of the line.
const MAX: usize = 200;

/// How the text begins that `readpast work` writes about a program's end.
const ENDS: [&str; 3] = ["exit code ", "exit status ", "killed by "];

/// The line of an error that contains the reason, in its parts. Displayed as HTML.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(path = "error_view.html")]
pub struct ErrorView {
    /// How the program ended: `exit code 1`.
    end: String,
    /// The module of the exception: `json.decoder.`.
    module: String,
    /// The exception: `JSONDecodeError`. Empty if the line does not begin with one.
    name: String,
    rest: String,
}

impl ErrorView {
    /// The view of a whole error, or of its first characters.
    pub fn of(error: &str) -> ErrorView {
        let error = error.trim();
        let (end, text) = split_end(error);
        let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        // After the end of a program, `readpast work` has put the line with the reason first.
        let is_told = !end.is_empty() && !first.ends_with(':');
        let line = if is_told { first } else { exception_line(text).unwrap_or(first) };
        // A line that says only how the program ended.
        if line.is_empty() {
            return ErrorView { rest: first_line(end, MAX), ..ErrorView::default() };
        }
        let line = first_line(line, MAX);
        let (module, name) = exception(&line);
        ErrorView {
            end: end.to_owned(),
            module: module.to_owned(),
            name: name.to_owned(),
            rest: line[module.len() + name.len()..].to_owned(),
        }
    }

    /// The line as it stands in the error, to search for jobs with the same one.
    pub fn search_text(&self) -> String {
        let line = format!("{}{}{}", self.module, self.name, self.rest);
        line.trim_end_matches('…').to_owned()
    }
}

/// Splits `exit code 1: …` at the colon.
fn split_end(error: &str) -> (&str, &str) {
    let line = error.lines().next().unwrap_or_default();
    if !ENDS.iter().any(|end| line.starts_with(end)) {
        return ("", error);
    }
    match line.split_once(": ") {
        Some((end, _)) => (end, &error[end.len() + 2..]),
        None => (line.trim_end_matches(':'), &error[line.len()..]),
    }
}

/// The module and the name of the exception with which a line begins: `java.io.IOException: …`.
fn exception(line: &str) -> (&str, &str) {
    let head = line.split(": ").next().unwrap_or_default();
    let is_path = head.chars().all(|c| c.is_ascii_alphanumeric() || "._:".contains(c));
    let start = head.rfind(['.', ':']).map_or(0, |at| at + 1);
    let name = &head[start..];
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.contains(|c: char| c.is_ascii_lowercase());
    if is_path && is_name && name.len() > 3 { (&head[..start], name) } else { ("", "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_in_its_parts() {
        for (error, end, module, name, rest) in [
            ("no account for Ada", "", "", "", "no account for Ada"),
            ("cannot write\n   at A.F()", "", "", "", "cannot write"),
            (
                "exit code 1: json.decoder.JSONDecodeError: Expecting value\nTraceback (most recent call last):\n  …",
                "exit code 1",
                "json.decoder.",
                "JSONDecodeError",
                ": Expecting value",
            ),
            (
                "exit code 1: Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: bad\n",
                "exit code 1",
                "",
                "ValueError",
                ": bad",
            ),
            ("exit code 137 (as after SIGKILL)", "", "", "", "exit code 137 (as after SIGKILL)"),
            ("exit code 1:\nno room", "exit code 1", "", "", "no room"),
            ("System.FormatException: x\n   at A.Main()", "", "System.", "FormatException", ": x"),
            ("app::Error: no: x", "", "app::", "Error", ": no: x"),
            ("KeyboardInterrupt", "", "", "KeyboardInterrupt", ""),
            ("Error 7: x", "", "", "", "Error 7: x"),
            ("\n", "", "", "", ""),
        ] {
            let expected = [end, module, name, rest].map(str::to_owned);
            let view = ErrorView::of(error);
            assert_eq!([view.end, view.module, view.name, view.rest], expected, "{error}");
        }
    }

    #[test]
    fn a_view_is_html_that_escapes_the_error() {
        let html = ErrorView::of("exit code 2: app.<b>: x").to_string();
        assert!(html.contains("app.&#60;b&#62;: x") && html.contains("exit code 2"), "{html}");
    }
}
