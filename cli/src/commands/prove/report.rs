//! The report: promises and figures, written once as Markdown for people and once as JSON for programs.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};

/// Whether a promise held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Held,
    Broken,
    NotAvailable,
}

#[derive(Debug, Serialize)]
pub struct Promise {
    pub promise: &'static str,
    pub verdict: Verdict,
    pub detail: String,
}

/// Rows of figures, or the reason why there are none.
#[derive(Debug, Serialize)]
struct Section {
    title: &'static str,
    expected: &'static str,
    #[serde(skip)]
    columns: Vec<&'static str>,
    rows: Vec<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_available: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    readpast: &'static str,
    promises: Vec<Promise>,
    sections: Vec<Section>,
    /// Names that must not be in the report, each found as a whole word: host, login, password.
    #[serde(skip)]
    secrets: Vec<String>,
}

impl Report {
    pub fn new() -> Report {
        Report { readpast: env!("CARGO_PKG_VERSION"), ..Report::default() }
    }

    /// Keeps this text out of the report, in upper or lower case.
    pub fn hide(&mut self, secret: &str) {
        // A password that is the name of this program would take that out of every line.
        if !secret.is_empty() && !secret.eq_ignore_ascii_case("readpast") {
            // Also as it stands in JSON, and in a cell of a table: DOMAIN\\user.
            let secret = secret.to_ascii_lowercase();
            self.secrets.extend(serde_json::to_string(&secret).map(|text| text.trim_matches('"').to_owned()));
            self.secrets.push(in_cell(&secret));
            self.secrets.push(secret);
        }
        // Longest first: a name may be a part of another.
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    /// Records a promise; `findings` are what speaks against it.
    pub fn promise(&mut self, promise: &'static str, findings: &[String], detail: impl Into<String>) {
        let mut detail = detail.into();
        for finding in findings.iter().take(20) {
            let _ = write!(detail, "; {finding}"); // a String takes everything
        }
        if findings.len() > 20 {
            let _ = write!(detail, "; and {} more", findings.len() - 20);
        }
        let verdict = if findings.is_empty() { Verdict::Held } else { Verdict::Broken };
        self.promises.push(Promise { promise, verdict, detail });
    }

    pub fn promise_not_available(&mut self, promise: &'static str, reason: &str) {
        self.promises.push(Promise { promise, verdict: Verdict::NotAvailable, detail: reason.to_owned() });
    }

    pub fn section(
        &mut self,
        title: &'static str,
        expected: &'static str,
        columns: &[&'static str],
        rows: Vec<Vec<Value>>,
    ) {
        let named = |row: Vec<Value>| columns.iter().map(|name| (*name).to_owned()).zip(row).collect();
        let rows = rows.into_iter().map(named).collect();
        self.sections.push(Section { title, expected, columns: columns.to_vec(), rows, not_available: None });
    }

    pub fn not_available(&mut self, title: &'static str, reason: &str) {
        let not_available = Some(reason.to_owned());
        self.sections.push(Section { title, expected: "", columns: Vec::new(), rows: Vec::new(), not_available });
    }

    /// The promises that did not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Promise> {
        self.promises.iter().filter(|promise| promise.verdict == Verdict::Broken)
    }

    pub fn markdown(&self) -> String {
        let words = match self.broken().count() {
            0 => "All promises that could be checked held.".to_owned(),
            1 => "**1 promise was broken.**".to_owned(),
            broken => format!("**{broken} promises were broken.**"),
        };
        let mut text = format!("# readpast prove, version {}\n\n{words}\n\n", self.readpast);
        let rows = self.promises.iter().map(|promise| {
            let verdict = match promise.verdict {
                Verdict::Held => "held",
                Verdict::Broken => "**broken**",
                Verdict::NotAvailable => "not available here",
            };
            [promise.promise, verdict, &promise.detail].map(in_cell).to_vec()
        });
        table(&mut text, &["promise", "verdict", "detail"], rows);
        for section in &self.sections {
            let _ = write!(text, "\n## {}\n\n", section.title);
            if let Some(reason) = &section.not_available {
                let _ = writeln!(text, "Not available here: {}", in_cell(reason));
                continue;
            }
            if !section.expected.is_empty() {
                let _ = writeln!(text, "Expected: {}.\n", section.expected);
            }
            if section.rows.is_empty() {
                text.push_str("None.\n");
                continue;
            }
            let cells =
                |row: &Map<String, Value>| section.columns.iter().map(|column| cell(row.get(*column))).collect();
            table(&mut text, &section.columns, section.rows.iter().map(cells));
        }
        without(&text, &self.secrets)
    }

    /// Writes both files into a directory that exists; returns their paths.
    pub fn write(&self, folder: &Path) -> Result<[PathBuf; 2]> {
        let json = without(&serde_json::to_string_pretty(self)?, &self.secrets);
        let files = [("prove-report.md", self.markdown()), ("prove-report.json", json + "\n")];
        let mut paths = Vec::new();
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            paths.push(path);
        }
        Ok(paths.try_into().unwrap_or_default())
    }
}

fn table(text: &mut String, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(text, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => in_cell(text),
        Some(Value::Number(number)) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        Some(other) => other.to_string(),
    }
}

/// Text of SQL Server's must not end a cell, nor be taken for HTML.
fn in_cell(text: &str) -> String {
    let text = text.replace('|', "\\|").replace('<', "&lt;");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` with *** in the place of each secret that is a whole word, in any case.
fn without(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        // Positions in the one are positions in the other, because only ASCII letters change.
        let lower = text.to_ascii_lowercase();
        let mut clean = String::with_capacity(text.len());
        let mut from = 0;
        for (at, found) in lower.match_indices(secret) {
            let end = at + found.len();
            let is_part = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
            if at < from || is_part(lower[..at].chars().next_back()) || is_part(lower[end..].chars().next()) {
                continue;
            }
            clean.push_str(&text[from..at]);
            clean.push_str("***");
            from = end;
        }
        clean.push_str(&text[from..]);
        text = clean;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_as_whole_words() {
        let mut report = Report::new();
        report.hide("sa");
        report.hide("Db1.example");
        report.promise("no job is lost", &["login failed for SA at DB1.EXAMPLE:1433, the same".to_owned()], "1 lost");
        report.hide("CORP\\anne");
        report.promise("no claim fails", &["user 'CORP\\anne'".to_owned()], "1 failed");
        let folder = tempfile::tempdir().unwrap();
        for path in report.write(folder.path()).unwrap() {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains("user '***'") && !text.contains("anne"), "{text}");
        }
        let text = report.markdown();
        assert!(text.contains("login failed for *** at ***:1433, the same"), "{text}");
        assert!(text.contains("**2 promises were broken.**"), "{text}");
    }

    #[test]
    fn what_is_missing_breaks_nothing_and_says_why() {
        let mut report = Report::new();
        report.promise_not_available("no deadlock", "no such view | as this");
        report.not_available("Wait types", "no such view");
        assert_eq!(report.broken().count(), 0);
        let text = report.markdown();
        assert!(text.contains("| no deadlock | not available here | no such view \\| as this |"));
        assert!(text.contains("## Wait types\n\nNot available here: no such view"), "{text}");
    }
}
