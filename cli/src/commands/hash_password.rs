//! `readpast hash-password`.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::exit::{Exit, failure};
use crate::output::Output;

/// Hash a password for the file of `readpast web --users`.
///
/// Prompts twice on a terminal, without echo; otherwise reads one line from standard input. The hash is argon2id with a
/// random salt. With --json, it prints an object with `password_hash`.
#[derive(Debug, Args)]
pub struct HashPassword {}

impl HashPassword {
    pub async fn run(self, output: Output) -> Result<Exit> {
        let password = if io::stdin().is_terminal() { asked()? } else { line()? };
        if password.is_empty() {
            return Err(failure(Exit::Usage, "standard input has no password"));
        }
        let hash = readpast_web::hash_password(&password);
        output.one(&serde_json::json!({"password_hash": hash}), || hash.clone())?;
        Ok(Exit::Ok)
    }
}

fn line() -> Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Asks at the terminal, twice.
fn asked() -> Result<String> {
    let password = typed("Password: ")?;
    if !password.is_empty() && typed("Repeat the password: ")? != password {
        return Err(failure(Exit::Usage, "the passwords differ"));
    }
    Ok(password)
}

/// Disables echo until dropped.
struct Unseen;

impl Unseen {
    fn begin() -> io::Result<Unseen> {
        enable_raw_mode()?;
        Ok(Unseen)
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        let _ = disable_raw_mode(); // where the terminal is gone, nothing is left to be done
    }
}

/// Reads a line without echo. The prompt goes to standard error, because standard output may be redirected to a file.
fn typed(question: &str) -> Result<String> {
    let unseen = Unseen::begin()?;
    write!(io::stderr(), "{question}")?;
    let line = keys();
    drop(unseen);
    writeln!(io::stderr())?;
    line
}

fn keys() -> Result<String> {
    let mut line = String::new();
    loop {
        let Event::Key(key) = event::read()? else { continue };
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Err(failure(Exit::Interrupted, "interrupted"));
            }
            KeyCode::Enter => return Ok(line),
            KeyCode::Backspace => {
                line.pop();
            }
            KeyCode::Char(character) => line.push(character),
            _ => {}
        }
    }
}
