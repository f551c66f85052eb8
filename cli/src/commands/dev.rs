//! `readpast dev`: runs the dev server.

use anyhow::Result;
use clap::{Args, ValueEnum};
use readpast::admin::QueueOptions;
use readpast_devserver::DevServer;
use serde::Serialize;

use crate::connection::Common;
use crate::dev_server;
use crate::exit::Exit;
use crate::interrupt::StopSignals;
use crate::output::Output;

/// The queue that exists from the start.
const QUEUE: &str = "default";

/// Start the dev server, a stand-in for SQL Server, with readpast and a queue `default`.
///
/// Prints the connection string, and serves on 127.0.0.1 until Ctrl-C or SIGTERM. All data is in memory. With --json,
/// it prints an object with `url` (the connection string), `address`, `schema` and `queue`.
#[derive(Debug, Args)]
pub struct Dev {
    /// Port on 127.0.0.1; 0: any free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Password of the login sa
    #[arg(long, value_name = "TEXT", default_value = "readpast")]
    password: String,
    /// Whether the connection string asks for encryption
    #[arg(long, value_enum, default_value_t = Tls::On)]
    tls: Tls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tls {
    On,
    Off,
}

/// The output once the server has started: how to connect.
#[derive(Serialize)]
struct Started {
    url: String,
    address: String,
    schema: String,
    queue: &'static str,
}

impl Dev {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let mut stop = StopSignals::watch()?;
        let mut config = common.config()?;
        let server = DevServer::builder().port(self.port).password(self.password).tls(self.tls == Tls::On);
        let server = dev_server::start(server, &mut config).await?;
        dev_server::create_queue(&config, QUEUE, QueueOptions::default()).await?;
        let started = Started {
            url: server.connection_string(),
            address: server.address().to_string(),
            schema: config.connection.schema,
            queue: QUEUE,
        };
        // The reader may have closed the pipe; the server continues.
        let _ = output.one(&started, || started.words());
        stop.next().await;
        server.shutdown().await;
        Ok(Exit::Ok)
    }
}

impl Started {
    fn words(&self) -> String {
        format!(
            "The dev server, an in-memory stand-in for SQL Server, listens on {}. It has readpast in the\n\
             schema {} and a queue {}. Ctrl-C stops it and deletes all data. In another terminal:\n\n\
             {}\n\
             readpast top",
            self.address,
            self.schema,
            self.queue,
            export(&self.url)
        )
    }
}

/// The command that sets READPAST_URL in this system's shell.
fn export(url: &str) -> String {
    if cfg!(windows) {
        format!("$env:READPAST_URL = '{}'", url.replace('\'', "''"))
    } else {
        format!("export READPAST_URL='{}'", url.replace('\'', r"'\''"))
    }
}
