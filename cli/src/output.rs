//! Prints tables for people and JSON for programs. Control characters in data are escaped.

use std::io::{self, IsTerminal, Write};
use std::thread;

use anyhow::Result;
use ratatui::crossterm::terminal;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::columns::width_of;
use crate::exit::{Exit, failure};
use crate::payload_text::{in_line, printable, printable_json};
use crate::table::table;

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

    /// Prints one value, as JSON or in words.
    pub fn one(self, value: &impl Serialize, words: impl FnOnce() -> String) -> Result<()> {
        if self.json { self.json(value) } else { self.line(&words()) }
    }

    /// Prints several values, as JSON lines or table rows. If there are no values, prints the text `none` instead of a
    /// table. If the terminal is too narrow, the columns of `first_to_go` are left out one by one ([`table`]).
    pub fn many<T: Serialize>(
        self,
        values: &[T],
        none: &str,
        columns: &[&str],
        first_to_go: &[&str],
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
        let rows: Vec<Vec<String>> =
            values.iter().map(|value| row(value).iter().map(|cell| in_line(cell)).collect()).collect();
        let is_terminal = io::stdout().is_terminal();
        let width = terminal::size().ok().filter(|_| is_terminal).map(|(width, _)| usize::from(width));
        self.line(&table(columns, first_to_go, &rows, width))
    }

    /// Prints one value, as JSON or as [`fields`](Self::fields).
    pub fn record<'a>(self, value: &impl Serialize, fields: impl FnOnce() -> Vec<(&'a str, String)>) -> Result<()> {
        if self.json { self.json(value) } else { self.fields(&fields()) }
    }

    /// Names and values, one per line.
    pub fn fields(self, fields: &[(&str, String)]) -> Result<()> {
        let width = fields.iter().map(|(name, _)| width_of(name)).max().unwrap_or_default();
        let lines = fields.iter().map(|(name, value)| format!("{name:width$}  {}", in_line(value)));
        self.line(&lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n"))
    }

    /// Writes bytes unchanged.
    pub fn bytes(self, bytes: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    pub fn json(self, value: &impl Serialize) -> Result<()> {
        self.bytes(format!("{}\n", printable_json(&serde_json::to_string(value)?)).as_bytes())
    }

    /// Prints text as it is, without a line end of its own, and with control characters escaped.
    pub fn text(self, text: &str) -> Result<()> {
        self.bytes(printable(text).as_bytes())
    }

    /// Prints text with control characters escaped.
    pub fn line(self, text: &str) -> Result<()> {
        self.bytes(format!("{}\n", printable(text)).as_bytes())
    }
}

/// Asks for confirmation, unless `yes`.
///
/// # Errors
///
/// If the answer is no, or there is no terminal.
///
/// # Cancel safety
///
/// When the future is dropped, the next line of standard input is lost.
pub async fn confirm(yes: bool, what: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(failure(
            Exit::Refused,
            format!("cannot ask for confirmation without a terminal; to {what}, pass --yes"),
        ));
    }
    let question = format!("{}{}? [y/N] ", what[..1].to_uppercase(), &what[1..]);
    let _ = write!(io::stderr(), "{}", in_line(&question)); // where it cannot be written, no answer comes either
    // A read cannot be cancelled. On its own thread, it does not delay Ctrl-C.
    let (send, answer) = oneshot::channel();
    thread::spawn(move || {
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        let _ = send.send(read.map(|_| answer)); // an error: nobody is waiting for it now
    });
    match answer.await??.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(failure(Exit::Refused, "nothing was done")),
    }
}
