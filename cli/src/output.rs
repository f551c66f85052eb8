//! Tables for people, JSON for programs. What others have written does not steer the terminal.

use std::io::{self, IsTerminal, Write};
use std::thread;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::exit::{Exit, failure};
use crate::payload_text::{in_line, printable, printable_json};

/// Where to and how the command answers.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    pub fn new(json: bool) -> Output {
        Output { json }
    }

    pub fn is_json(self) -> bool {
        self.json
    }

    /// One thing: as JSON, or in words.
    pub fn one(self, value: &impl Serialize, words: impl FnOnce() -> String) -> Result<()> {
        if self.json { self.json(value) } else { self.line(&words()) }
    }

    /// Several: an object a line, or a row each. Without any, a table says `none` instead.
    pub fn many<T: Serialize>(
        self,
        values: &[T],
        none: &str,
        columns: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> Result<()> {
        if self.json {
            for value in values {
                self.json(value)?;
            }
            return Ok(());
        }
        if values.is_empty() {
            return self.line(none);
        }
        let mut table = plain_table();
        table.set_header(columns.iter().map(|column| column.to_uppercase()));
        for value in values {
            table.add_row(row(value).iter().map(|cell| in_line(cell)));
        }
        self.line(&trimmed(&table))
    }

    /// One thing: as JSON, or its [`fields`](Self::fields).
    pub fn record<'a>(self, value: &impl Serialize, fields: impl FnOnce() -> Vec<(&'a str, String)>) -> Result<()> {
        if self.json { self.json(value) } else { self.fields(&fields()) }
    }

    /// Names and values, one below the other.
    pub fn fields(self, fields: &[(&str, String)]) -> Result<()> {
        let mut table = plain_table();
        for (name, value) in fields {
            table.add_row([*name, &in_line(value)]);
        }
        self.line(&trimmed(&table))
    }

    /// Bytes on standard output, as they are.
    pub fn bytes(self, bytes: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// An object in a line.
    pub fn json(self, value: &impl Serialize) -> Result<()> {
        self.bytes(format!("{}\n", printable_json(&serde_json::to_string(value)?)).as_bytes())
    }

    /// A line of text on standard output, or several, without what would steer the terminal.
    pub fn line(self, text: &str) -> Result<()> {
        self.bytes(format!("{}\n", printable(text)).as_bytes())
    }
}

/// Asks whether to do `what`, unless that was answered on the command line.
///
/// # Errors
///
/// When the answer is no, and where nobody can be asked.
///
/// # Cancel safety
///
/// When the future is dropped, the next line of standard input is lost.
pub async fn confirm(yes: bool, what: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(failure(Exit::Refused, format!("to {what}, add --yes: there is no terminal to ask on")));
    }
    let question = format!("{}{}? [y/N] ", what[..1].to_uppercase(), &what[1..]);
    let _ = write!(io::stderr(), "{}", in_line(&question)); // where it cannot be written, no answer comes either
    // Reading cannot be ended: on a thread of its own, it keeps nobody from acting on Ctrl-C.
    let (send, answer) = oneshot::channel();
    thread::spawn(move || {
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        let _ = send.send(read.map(|_| answer)); // an error: nobody waits for it any more
    });
    match answer.await??.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(failure(Exit::Refused, "nothing was done")),
    }
}

/// Columns and nothing else: it can be read, cut and searched by line.
fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// Without the room that the table keeps for borders.
fn trimmed(table: &Table) -> String {
    let lines = table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}
