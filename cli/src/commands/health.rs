//! `readpast health`: a health check for containers, which have no curl.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::exit::{Exit, failure};
use crate::output::Output;

/// Check the health of a worker on this machine, for containers without curl.
///
/// The worker serves its health at the address of `--metrics` or `metrics.listen`. /healthz: the process is alive, and
/// its worker thread is not stuck. /readyz: the worker holds its lease, and its claims succeed. Restart workers by
/// /healthz: during an outage of SQL Server no worker is ready, but each still holds results.
///
/// Exit code 1: not healthy, or no response within five seconds.
#[derive(Debug, Args)]
#[command(after_help = "Example: readpast health http://127.0.0.1:9464/readyz")]
pub struct Health {
    /// Address of the worker's health endpoint
    #[arg(default_value = "http://127.0.0.1:9464/healthz")]
    url: String,
}

/// A healthy worker responds within this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes read of a response; workers send a line.
const MOST_BYTES: u64 = 64 * 1024;

impl Health {
    pub async fn run(self, output: Output) -> Result<Exit> {
        let (host, path) = parts(&self.url)?;
        let answer = timeout(PATIENCE, get(host, path)).await;
        let answer = answer.with_context(|| format!("{host} does not respond"))?;
        let (status, said) = answer.with_context(|| format!("{host} does not respond"))?;
        output.one(&serde_json::json!({"status": status, "said": said}), || said.clone())?;
        Ok(if status == 200 { Exit::Ok } else { Exit::Failed })
    }
}

/// The host with its port, and the path, of `http://127.0.0.1:9464/healthz`.
fn parts(url: &str) -> Result<(&str, &str)> {
    let parts = url.strip_prefix("http://").map(|rest| match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    });
    parts
        .filter(|(host, path)| host.contains(':') && path.bytes().all(|byte| byte.is_ascii_graphic()))
        .ok_or_else(|| failure(Exit::Usage, format!("'{url}' must have the form http://HOST:PORT/PATH")))
}

/// The status, and the first line of the body.
async fn get(host: &str, path: &str) -> Result<(u16, String)> {
    let mut connection = TcpStream::connect(host).await?;
    // HTTP 1.0 has no chunked responses.
    connection.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    connection.take(MOST_BYTES).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("the response is not HTTP")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("the response is not HTTP")?;
    Ok((status, body.lines().next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_a_port_and_perhaps_a_path() {
        assert_eq!(parts("http://127.0.0.1:9464/readyz").unwrap(), ("127.0.0.1:9464", "/readyz"));
        assert_eq!(parts("http://[::1]:9464").unwrap(), ("[::1]:9464", "/"));
        for wrong in ["127.0.0.1:9464", "https://a:1/", "http://a/b", "http://a:1/b c", "http://a:1/b\r\nX: y", ""] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }
}
