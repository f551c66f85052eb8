//! `readpast install`, `upgrade`, `verify` and `uninstall`: the schema.

use anyhow::Result;
use clap::Args;
use readpast::Error;
use readpast::admin::{CheckResult, Finding, QueueStats, install_script, uninstall_script};
use serde_json::json;

use crate::connection::Common;
use crate::exit::{self, Exit};
use crate::output::{Output, confirm};
use crate::texts;

/// Install the schema: tables, procedures and roles.
///
/// Does nothing if the schema is current. Upgrades an older one while workers and producers keep running.
///
/// Role: db_owner; none with --script.
#[derive(Debug, Args)]
pub struct Install {
    /// Print the script for sqlcmd or Management Studio, and run nothing
    #[arg(long)]
    script: bool,
}

/// Upgrade the schema to the version of this program.
///
/// Does the same as `install`.
///
/// Role: db_owner; none with --script.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// Print the script for sqlcmd or Management Studio, and run nothing
    #[arg(long)]
    script: bool,
}

/// Remove the schema with all queues and jobs.
///
/// Role: db_owner; none with --script.
#[derive(Debug, Args)]
pub struct Uninstall {
    /// Print the script for sqlcmd or Management Studio, and run nothing
    #[arg(long)]
    script: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Check all that a queue needs, and say how to fix failures.
///
/// The exit code is that of the first failed check.
///
/// Role: any.
#[derive(Debug, Args)]
pub struct Verify {
    /// Queue to check [default: the one in the settings]
    queue: Option<String>,
}

impl Install {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        install(self.script, common, output).await
    }
}

impl Upgrade {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        install(self.script, common, output).await
    }
}

async fn install(script: bool, common: &Common, output: Output) -> Result<Exit> {
    if script {
        output.bytes(format!("{}\n", install_script(&common.config()?.connection.schema)?).as_bytes())?;
        return Ok(Exit::Ok);
    }
    let queue = common.schema().await?;
    let version = queue.admin().install().await?;
    output.one(&json!({"schema": queue.schema(), "version": version}), || {
        format!("version {version} is installed in schema {}", queue.schema())
    })?;
    Ok(Exit::Ok)
}

impl Uninstall {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        if self.script {
            output.bytes(format!("{}\n", uninstall_script(&common.config()?.connection.schema)?).as_bytes())?;
            return Ok(Exit::Ok);
        }
        let queue = common.schema().await?;
        let jobs = match queue.admin().all_stats(None).await {
            Ok(queues) => queues.iter().map(QueueStats::unfinished).sum(),
            // The remains of an interrupted installation are removed, too.
            Err(Error::NotInstalled { .. } | Error::SchemaTooOld { .. } | Error::SchemaTooNew { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        let schema = queue.schema();
        let jobs = texts::counted(jobs, "unfinished job");
        confirm(self.yes, &format!("remove schema {schema} with {jobs}")).await?;
        queue.admin().uninstall().await?;
        output.one(&json!({"schema": schema, "removed": true}), || format!("schema {schema} is removed"))?;
        Ok(Exit::Ok)
    }
}

impl Verify {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let mut config = common.config()?;
        let is_any = self.queue.is_none() && config.queue == readpast::config::QueueConfig::default();
        if let Some(queue) = self.queue {
            config.queue.name = queue;
        }
        config.metrics.listen.clear();
        let mut findings = readpast::admin::Admin::examine(&config).await?;
        if is_any {
            // After the installation, no queue exists yet. This is no failure if the command names no queue.
            for finding in &mut findings {
                if matches!(finding.result, CheckResult::Failed(Error::UnknownQueue { .. })) {
                    finding.result = CheckResult::NotReached;
                    finding.note = Some("there is no queue yet; run `readpast queue create NAME`".to_owned());
                }
            }
        }
        output.many(&findings, "", &["check", "result", "note"], &[], |finding: &Finding| {
            let (result, remedy) = match &finding.result {
                CheckResult::Ok => ("ok", finding.note.clone().unwrap_or_default()),
                CheckResult::Failed(error) => ("failed", exit::with_hint(error)),
                _ => ("not reached", finding.note.clone().unwrap_or_default()),
            };
            vec![finding.check.to_string(), result.to_owned(), remedy]
        })?;
        let failed = findings.iter().find_map(|finding| match &finding.result {
            CheckResult::Failed(error) => Some(exit::code_of(error)),
            _ => None,
        });
        Ok(failed.unwrap_or(Exit::Ok))
    }
}
