//! `readpast web`: the web UI.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use readpast::Queue;
use readpast_web::{Access, HeaderName, Options, User};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::connection::{self, Common};
use crate::exit::{Exit, failure};
use crate::interrupt::StopSignals;
use crate::logs;
use crate::output::Output;

/// Serve the web UI, which shows and controls the queues.
///
/// By default, everyone on this machine can view and act. On another address it needs a token, users, or a
/// proxy that admits only authorized visitors. It speaks HTTP: put an HTTPS proxy in front of it. Logins, actions and
/// failures are logged to standard error. With --json, it prints an object with `url`. See docs/web.md.
///
/// Role: monitor to view, operator to act.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("access"))]
pub struct Web {
    /// Address to listen on; port 0: any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7380")]
    listen: SocketAddr,
    /// File with the token that visitors need; or set READPAST_WEB_TOKEN
    #[arg(long, value_name = "FILE", group = "access")]
    token_file: Option<PathBuf>,
    /// TOML file of users, each a `[[user]]` with `name`, `password_hash` (see `readpast hash-password`) and optionally
    /// `read_only = true`
    #[arg(long, value_name = "FILE", group = "access")]
    users: Option<PathBuf>,
    /// Rely on a proxy to admit only authorized visitors
    #[arg(long, group = "access")]
    behind_proxy: bool,
    /// Header in which the proxy names the visitor, for the audit
    #[arg(long, value_name = "NAME", requires = "behind_proxy")]
    user_header: Option<HeaderName>,
    /// Send the session cookie over HTTPS only
    #[arg(long)]
    https: bool,
    /// Disable all actions
    #[arg(long)]
    read_only: bool,
    /// Hide payloads, outputs, logs and checkpoints, which may be personal data
    #[arg(long)]
    hide_payloads: bool,
}

/// The variable with the token.
const TOKEN: &str = "READPAST_WEB_TOKEN";

/// The minimum length of a token: 16 characters of 64 are 96 bits.
const TOKEN_CHARS: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFile {
    user: Vec<UserEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserEntry {
    name: String,
    password_hash: String,
    #[serde(default)]
    read_only: bool,
}

#[derive(Serialize)]
struct Started {
    url: String,
}

/// The least number of connections, which the web UI divides among pages, operations and the reading
/// (`web/src/connections.rs`).
const LEAST_CONNECTIONS: usize = 8;

impl Web {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let options = self.options()?;
        logs::to_stderr()?;
        let mut stop = StopSignals::watch()?;
        let mut config = common.config()?;
        config.connection.pool_size = config.connection.pool_size.max(LEAST_CONNECTIONS);
        let queue = connection::schema(&config).await?;
        serve_page(queue, self.listen, options, output, async move { stop.next().await }).await?;
        Ok(Exit::Ok)
    }

    fn options(&self) -> Result<Options> {
        let options = Options::default().access(self.access()?).read_only(self.read_only);
        Ok(options.hide_payloads(self.hide_payloads).secure_cookie(self.https))
    }

    fn access(&self) -> Result<Access> {
        if let Some(file) = &self.token_file {
            return token(&read(file)?);
        }
        if let Some(file) = &self.users {
            return users(file);
        }
        if self.behind_proxy {
            return Ok(Access::Trusted { user_header: self.user_header.clone() });
        }
        if let Ok(text) = std::env::var(TOKEN) {
            return token(&text);
        }
        if !self.listen.ip().is_loopback() {
            let message = format!(
                "on {} others can reach the web UI: pass --token-file or {TOKEN}, --users, or --behind-proxy",
                self.listen.ip()
            );
            return Err(failure(Exit::Usage, message));
        }
        Ok(Access::Local)
    }
}

/// Prints the address of the web UI, and serves it until `end`.
pub async fn serve_page(
    queue: Queue,
    address: SocketAddr,
    options: Options,
    output: Output,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let started = Started { url: format!("http://{}/", listener.local_addr()?) };
    output.one(&started, || format!("the web UI is at {}", started.url))?;
    Ok(readpast_web::serve(listener, queue, options, end).await?)
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn token(text: &str) -> Result<Access> {
    let token = text.trim();
    if token.chars().count() < TOKEN_CHARS {
        let message = format!("the token must have at least {TOKEN_CHARS} characters");
        return Err(failure(Exit::Usage, message));
    }
    Ok(Access::Token(token.to_owned()))
}

fn users(file: &Path) -> Result<Access> {
    let text = read(file)?;
    let entries: UserFile = toml::from_str(&text).map_err(|error| not_users(file, &text, &error))?;
    let user = |entry: UserEntry| Ok(User::new(entry.name, entry.password_hash)?.read_only(entry.read_only));
    let users: Vec<User> = entries.user.into_iter().map(user).collect::<Result<_>>()?;
    let mut names: Vec<&str> = users.iter().map(|user| user.name.as_str()).collect();
    names.sort_unstable();
    if users.is_empty() || names.windows(2).any(|pair| pair[0] == pair[1]) {
        let message = format!("{} must contain at least one user, and each name only once", file.display());
        return Err(failure(Exit::Usage, message));
    }
    Ok(Access::Users(users))
}

/// The error of an invalid file of users. It shows neither the line nor the parser's message: both quote the file,
/// which may hold a misplaced password.
fn not_users(file: &Path, text: &str, error: &toml::de::Error) -> anyhow::Error {
    let begin = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = 1 + text.as_bytes()[..begin].iter().filter(|byte| **byte == b'\n').count();
    let allowed = "it must have a [[user]] for each user, with name, password_hash and optionally read_only";
    failure(Exit::Usage, format!("{}, line {line} is not valid: {allowed}", file.display()))
}
