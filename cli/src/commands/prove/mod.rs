//! `readpast prove`: checks the promises on a real server, and reports.
//!
//! ```text
//! URL ─▶ may it install? ─▶ a schema of its own
//!            │
//!   plans, locks ─── T-SQL ──▶ SQL Server ◀── proxy ◀── fleet of worker processes
//!            │                     ▲                          │
//!          soak ─── producer ──────┘                          │
//!            │          └──────────▶ ledger (a file) ◀────────┘
//!            ▼
//!   ledger ⇄ tables compared ─▶ report ─▶ prove-report.md, prove-report.json
//!            │
//!   the schema is removed, whatever happened
//! ```

mod fleet;
mod ledger;
mod locks;
mod monitor;
mod plans;
mod producer;
mod proxy;
mod report;
mod server;
mod soak;
mod worker_process;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use readpast::crates::tiberius::Config as DriverConfig;
use readpast::crates::uuid::Uuid;
use readpast::{Config, Error, Queue};
use serde_json::json;

use crate::connection::{self, Common};
use crate::exit::{Exit, failure, say};
use crate::interrupt::StopSignals;
use crate::output::Output;

use report::Report;
use server::Server;
pub use worker_process::ProveWorker;

/// Prove on your SQL Server that readpast keeps its promises, and write a report.
///
/// Installs a schema of its own (`prove_…`) in the database, and removes it at the end, even after Ctrl-C or an error.
/// It changes nothing else. First it checks plans, locks, logical reads and log at several sizes of the table. Then it
/// runs producers and worker processes for the chosen time. Workers are killed, paused and stopped, and their
/// connections are cut. At the end it compares what ran with the tables: nothing may be lost or doubled.
///
/// It writes `prove-report.md` and `prove-report.json`, which name no server, login or password. A figure that this
/// server or login does not show is listed as not available, with the reason. The exit code is 0 only if no promise was
/// broken. Use a test server: the load is real. Deadlocks, waits and reads need VIEW SERVER STATE.
///
/// Role: db_owner.
#[derive(Debug, Args)]
pub struct Prove {
    /// ADO.NET connection string; other users of this machine can see it, so prefer READPAST_URL
    #[arg(value_name = "URL")]
    connection: Option<String>,
    /// Length of the soak in hours [default: 0.5]
    #[arg(long, value_name = "NUMBER", value_parser = positive, conflicts_with = "minutes")]
    hours: Option<f64>,
    /// Length of the soak in minutes
    #[arg(long, value_name = "NUMBER", value_parser = positive)]
    minutes: Option<f64>,
    /// Rows of the largest table, 1000 to 10000000
    #[arg(long, default_value_t = 1_000_000, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    rows: u64,
    /// Try all steps in a minute: 5,000 rows, and a soak of half a minute unless set
    #[arg(long, conflicts_with = "rows")]
    quick: bool,
    /// Jobs enqueued per second during the soak, 1 to 200: it looks for mistakes, `bench` for speed
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=200))]
    rate: u64,
    /// Worker processes at a time, 2 to 50
    #[arg(long, default_value_t = 3, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(2..=50))]
    processes: u64,
    /// Directory of the report
    #[arg(long, default_value = ".", value_name = "DIR")]
    output: PathBuf,
}

/// Rows of the largest table with --quick.
const QUICK_ROWS: u64 = 5_000;

/// The filling and the plans of a large table take longer than a queue's calls.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 10_000.0 => Ok(number),
        _ => Err("write a number such as 0.5 or 24".to_owned()),
    }
}

impl Prove {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let url = self.url(common)?;
        let mut config = Config::default();
        config.connection = common.config()?.connection;
        config.connection.url = url.as_str().into();
        config.connection.schema = format!("prove_{}", &Uuid::new_v4().simple().to_string()[..12]);
        config.connection.command_timeout = COMMAND_TIMEOUT;
        // Fails now instead of after hours.
        let folder = self.output.display();
        std::fs::create_dir_all(&self.output).with_context(|| format!("cannot create {folder}"))?;
        tempfile::tempfile_in(&self.output).with_context(|| format!("cannot write to {folder}"))?;
        let queue = connection::schema(&config).await?;
        if !Server::new(&queue).await?.may_install().await? {
            return Err(failure(Exit::PermissionDenied, "prove installs a schema, so the login must be a db_owner"));
        }
        let schema = &config.connection.schema;
        let minutes = self.time().as_secs_f64() / 60.0;
        say(&format!(
            "installing the schema {schema}, filling a table with {} rows, then {minutes:.1} minutes of jobs and faults; \
             the schema is removed at the end, even after Ctrl-C",
            self.rows()
        ));
        // Signals are watched before there is anything to clean up.
        let mut stop = StopSignals::watch()?;
        let proved = tokio::select! {
            report = self.prove(&queue, &config, common, &url) => report,
            () = stop.next() => Err(failure(Exit::Interrupted, "there is no report")),
        };
        remove(&queue, &mut stop).await?;
        let report = proved?;
        let [text, json] = report.write(&self.output)?;
        let broken: Vec<&str> = report.broken().map(|promise| promise.promise).collect();
        let summary = json!({ "report": text, "json": json, "broken": broken });
        output.one(&summary, || match broken[..] {
            [] => format!("All promises that could be checked held. The report: {}", text.display()),
            _ => format!("Broken: {}. The report: {}", broken.join("; "), text.display()),
        })?;
        Ok(if broken.is_empty() { Exit::Ok } else { Exit::Failed })
    }

    /// The text of the connection string, which the proxy must change.
    fn url(&self, common: &Common) -> Result<String> {
        let given = self.connection.clone().or_else(|| common.url.clone());
        given.or_else(|| std::env::var("READPAST_URL").ok()).filter(|url| !url.trim().is_empty()).ok_or_else(|| {
            failure(Exit::Usage, "prove needs the connection string: set READPAST_URL, or pass it as an argument")
        })
    }

    fn rows(&self) -> u64 {
        if self.quick { QUICK_ROWS } else { self.rows }
    }

    fn time(&self) -> Duration {
        let default = if self.quick { 0.5 } else { 30.0 };
        let minutes = self.minutes.or(self.hours.map(|hours| hours * 60.0)).unwrap_or(default);
        Duration::from_secs_f64(minutes * 60.0)
    }

    /// All steps. A step that fails breaks a promise, and the next one runs all the same.
    async fn prove(&self, queue: &Queue, config: &Config, common: &Common, url: &str) -> Result<Report> {
        let mut report = Report::new();
        hide(&mut report, url);
        let folder = tempfile::tempdir().context("cannot create a directory for the ledger")?;
        queue.admin().install().await?;
        let mut server = Server::new(queue).await?;
        server.describe(&mut report).await;

        say("checking plans, logical reads and log");
        let waits = server.waits().await;
        let own = connection::schema(config).await?; // its sessions may be left within a transaction
        let plans = async { Ok(plans::check(&mut Server::new(&own).await?, &mut report, self.rows()).await?) };
        let plans: Result<()> = plans.await;
        note(&mut report, "the checks of plans complete", plans);
        say("checking which procedures wait for each other");
        let own = connection::schema(config).await?;
        let locks = locks::check(&own, &mut report).await;
        note(&mut report, "the checks of locks complete", locks);
        drop(own);
        server.report_waits(&mut report, "Waits during the checks", &waits).await;

        say("soaking");
        let (time, rate, processes) = (self.time(), self.rate, self.processes as usize);
        let plan = soak::Plan { config, common, url, folder: folder.path(), time, rate, processes };
        let soak = plan.run(&mut server, &mut report).await;
        note(&mut report, "the soak completes", soak);
        server.report_deadlocks(&mut report).await;
        Ok(report)
    }
}

/// Records a step that could not complete.
fn note(report: &mut Report, promise: &'static str, result: Result<()>) {
    if let Err(error) = result {
        let error = format!("{error:#}");
        say(&error);
        report.promise(promise, &[error], "an error ended it");
    }
}

/// Keeps the parts of the connection string out of the report.
fn hide(report: &mut Report, url: &str) {
    for pair in url.split(';') {
        let Some((key, value)) = pair.split_once('=') else { continue };
        let key = key.trim().to_lowercase().replace(' ', "");
        let value = value.trim().trim_matches(['"', '\'']);
        if ["password", "pwd", "userid", "uid", "user"].contains(&key.as_str()) {
            report.hide(value);
        }
    }
    if let Ok(driver) = DriverConfig::from_ado_string(url) {
        let address = driver.get_addr();
        report.hide(address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host));
    }
}

/// Removes the schema. If that fails, or a second signal arrives, says how to remove it.
async fn remove(queue: &Queue, stop: &mut StopSignals) -> Result<()> {
    let schema = queue.schema();
    let later = format!(
        "remove it later: DROP PROCEDURE IF EXISTS [{schema}].[prove_sink]; DROP TABLE IF EXISTS \
         [{schema}].[prove_results]; then: readpast uninstall --schema {schema}"
    );
    tokio::select! {
        removed = uninstall(queue) => if let Err(error) = removed {
            say(&format!("the schema {schema} was not removed ({error}); {later}"));
        },
        () = stop.next() => {
            return Err(failure(Exit::Interrupted, format!("the schema {schema} may still exist; {later}")));
        }
    }
    Ok(())
}

async fn uninstall(queue: &Queue) -> Result<(), Error> {
    let mut server = Server::new(queue).await?;
    let own = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION; DROP PROCEDURE IF EXISTS [$(schema)].[prove_sink];
        DROP TABLE IF EXISTS [$(schema)].[prove_results]";
    server.run(own).await?;
    drop(server);
    queue.admin().uninstall().await
}
