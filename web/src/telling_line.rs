//! Finds the line of a program's error output that contains the reason.

/// How the header of a Python traceback ends.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// The exception's line in a known form, otherwise the last line.
pub fn telling_line(text: &str) -> &str {
    exception_line(text).unwrap_or_else(|| text.trim_end().lines().next_back().unwrap_or_default()).trim()
}

/// The exception's line of a Python traceback, a Node, .NET or Java stack trace, a Rust or Go panic, or an `anyhow`
/// error with causes.
pub fn exception_line(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let forms = [python_crash, python, rust_panic, go_panic, anyhow_error, node, stack_trace];
    forms.iter().find_map(|form| form(&lines)).map(str::trim)
}

/// What `faulthandler` writes when the interpreter dies.
fn python_crash<'a>(lines: &[&'a str]) -> Option<&'a str> {
    lines.iter().copied().rfind(|line| line.starts_with("Fatal Python error: "))
}

/// The first line after the last header that is not indented. Lines of an exception group have the header's prefix.
fn python<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let header = lines.iter().rposition(|line| line.trim_end().ends_with(TRACEBACK))?;
    let prefix =
        lines[header].trim_end().strip_suffix(TRACEBACK)?.trim_end_matches("Exception Group ").replace('+', "|");
    let mut inside = lines[header + 1..].iter().filter_map(|line| line.strip_prefix(&*prefix));
    inside.find(|line| line.starts_with(|first: char| !first.is_whitespace()))
}

/// The first panic: a later one may be of a thread that waited for the first. Up to Rust 1.72 the message is in the
/// header.
fn rust_panic<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let is_header = |line: &&str| line.starts_with("thread '") && line.contains(" panicked at ");
    let header = lines.iter().position(is_header)?;
    if !lines[header].trim_end().ends_with(':') {
        return Some(lines[header]);
    }
    lines[header + 1..].iter().copied().find(|line| !line.trim().is_empty())
}

fn go_panic<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let is_header = |line: &&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
    let header = lines.iter().position(is_header)?;
    lines[header..].iter().any(|line| line.starts_with("goroutine ")).then_some(lines[header])
}

/// `Error: …`, above `Caused by:`.
fn anyhow_error<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let causes = lines.iter().rposition(|line| line.trim_end() == "Caused by:")?;
    lines[..causes].iter().rev().copied().find(|line| !line.trim().is_empty())
}

/// The text after the caret below the source line. Since Node 17 the version comes last.
fn node<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let version = lines.iter().rposition(|line| line.starts_with("Node.js v"))?;
    let caret = lines[..version].iter().rposition(|line| line.trim() == "^")?;
    lines[caret + 1..version].iter().copied().find(|line| !line.trim().is_empty())
}

/// The line above the frames (`at …`) of the last stack trace of a Java, .NET or Node program: the exception that was
/// thrown, not its causes. If its message has several lines, the one with the exception's name is taken.
fn stack_trace<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let is_frame = |line: &&str| line.starts_with(char::is_whitespace) && line.trim_start().starts_with("at ");
    let is_inside = |line: &&str| {
        line.trim().is_empty() || line.starts_with(char::is_whitespace) || line.starts_with("Caused by: ")
    };
    let last = lines.iter().rposition(is_frame)?;
    let above: Vec<&str> = lines[..last].iter().rev().copied().skip_while(is_inside).collect();
    let nearest = *above.first()?;
    let message = above.iter().copied().take_while(|line| !line.trim().is_empty() && !is_inside(line));
    let line = message.into_iter().find(|line| names_exception(line)).unwrap_or(nearest);
    let line = line.strip_prefix("Unhandled exception. ").unwrap_or(line);
    Some(
        line.strip_prefix("Exception in thread ")
            .and_then(|rest| rest.split_once("\" "))
            .map_or(line, |(_, line)| line),
    )
}

/// Whether the last word before the first colon is an exception's name: `java.io.IOException`, `TypeError`.
fn names_exception(line: &str) -> bool {
    let name = line.split(": ").next().unwrap_or_default().split(' ').next_back().unwrap_or_default();
    name.ends_with("Exception") || name.ends_with("Error")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are real outputs of programs in these languages.
    #[test]
    fn the_exceptions_line_is_found_in_known_forms() {
        for (text, line) in [
            ("", ""),
            ("reading\nno such file: a.png\n\n", "no such file: a.png"),
            (
                "start\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\n    ~^^\n\
                 ValueError: bad invoice\nsecond line of its message\n",
                "ValueError: bad invoice",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\nDuring handling of the above \
                 exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 3\n\
                 app.BadInvoice: no x\nsys:1: ResourceWarning: unclosed file",
                "app.BadInvoice: no x",
            ),
            (
                "  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 1, in <module>\n  |     raise\n  \
                 | ExceptionGroup: two (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: 1\n",
                "ExceptionGroup: two (2 sub-exceptions)",
            ),
            (
                "Fatal Python error: Aborted\n\nCurrent thread 0x00007f1 (most recent call first):\n  File \"a.py\", line 7 in f\n",
                "Fatal Python error: Aborted",
            ),
            (
                "/app/a.js:1\nthrow new TypeError('bad');\n^\n\nTypeError: bad\n    at Object.<anonymous> (/app/a.js:1:7)\n    \
                 at node:internal/main/run_main_module:36:49 {\n  code: 'X'\n}\n\nNode.js v22.14.0\n",
                "TypeError: bad",
            ),
            (
                "/app/a.js:1\nthrow 'bad';\n^\nbad\n(Use `node --trace-uncaught ...` to show where the exception was \
                 thrown)\n\nNode.js v22.14.0\n",
                "bad",
            ),
            ("working\nTypeError: bad\n    at f (/app/a.js:1:7)\n    at g (/app/a.js:2:7)\n", "TypeError: bad"),
            (
                "Unhandled exception. System.InvalidOperationException: bad\n ---> System.FormatException: inner\n   at A.F()\n   \
                 --- End of inner exception stack trace ---\n   at A.Main()\nAborted\n",
                "System.InvalidOperationException: bad",
            ),
            (
                "Exception in thread \"main\" java.lang.IllegalStateException: bad\nsecond line\n\tat A.main(A.java:3)\nCaused by: \
                 java.io.IOException: inner\n\tat A.f(A.java:5)\n\t... 1 more\n",
                "java.lang.IllegalStateException: bad",
            ),
            (
                "\nthread 'w' panicked at src/main.rs:2:5:\nbad\nnote: run with `RUST_BACKTRACE=1` environment variable\n\
                 \nthread 'main' panicked at src/main.rs:9:5:\ncalled `Result::unwrap()` on an `Err` value: Any { .. }\n",
                "bad",
            ),
            ("thread 'main' panicked at 'bad', a.rs:2:5\nnote: x\n", "thread 'main' panicked at 'bad', a.rs:2:5"),
            ("panic: bad\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:4 +0x18\nexit status 2\n", "panic: bad"),
            ("Error: cannot price\n\nCaused by:\n    0: no file\n    1: gone\n", "Error: cannot price"),
        ] {
            assert_eq!(telling_line(text), line, "{text}");
        }
    }
}
