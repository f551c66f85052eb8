//! `readpast adopt`: an existing table as a queue.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use readpast::Queue;
use readpast_adopt::{Adoption, AdoptionCheck, Mapping};
use serde_json::json;

use crate::connection::{self, Common};
use crate::exit::{Exit, failure};
use crate::output::{Output, confirm};

/// Use an existing table as a queue.
///
/// A mapping says what the table's columns mean (docs/adopt.md). Without --print, --install, --check or --remove, the
/// command prints what it would do. The procedures get their own schema: --schema, or `schema` in the mapping.
///
/// Role: db_owner; for --print and --check, any login that can view the table's definition.
#[derive(Debug, Args)]
pub struct Adopt {
    /// Mapping, a TOML file; --check and --remove use the installed one
    #[arg(required_unless_present_any = ["check", "remove"], conflicts_with_all = ["check", "remove"])]
    mapping: Option<PathBuf>,
    /// Print the script for sqlcmd or Management Studio, and run nothing
    #[arg(long, conflicts_with_all = ["install", "check", "remove"])]
    print: bool,
    /// Install the adoption, or update it after a change of the mapping or of this program
    #[arg(long, conflicts_with_all = ["check", "remove"])]
    install: bool,
    /// Compare the adoption with the table; exit code 1 if they differ
    #[arg(long, conflicts_with = "remove")]
    check: bool,
    /// Restore the held rows, and remove the adoption with its schema
    #[arg(long)]
    remove: bool,
    /// With --remove, if the table is gone or has changed: restore nothing; rows deleted by a claim are lost
    #[arg(long, requires = "remove")]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "remove")]
    yes: bool,
}

impl Adopt {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let Some(path) = &self.mapping else {
            let queue = common.schema().await?;
            return if self.remove { self.remove(&queue, output).await } else { check(&queue, output).await };
        };
        let mapping = Mapping::load(path)?;
        let mut config = common.config()?;
        config.connection.schema = match (&common.schema, mapping.schema()) {
            (Some(schema), _) => schema.clone(),
            (None, Some(schema)) => schema.to_owned(),
            (None, None) => {
                let message = "the adoption needs a schema of its own; pass --schema NAME, or set schema = \"NAME\" in the mapping";
                return Err(failure(Exit::Usage, message));
            }
        };
        let queue = connection::schema(&config).await?;
        if self.install {
            let adoption = readpast_adopt::adopt(&queue, &mapping).await?;
            say(&adoption, "is adopted", output)?;
            return Ok(Exit::Ok);
        }
        let adoption = readpast_adopt::plan(&queue, &mapping).await?;
        if self.print {
            output.bytes(format!("{}\n", adoption.script()).as_bytes())?;
        } else {
            say(&adoption, "can be adopted", output)?;
        }
        Ok(Exit::Ok)
    }

    async fn remove(&self, queue: &Queue, output: Output) -> Result<Exit> {
        let table = Mapping::from_toml(&readpast_adopt::mapping(queue).await?)?.table();
        let schema = queue.schema();
        if self.force {
            confirm(self.yes, &format!("remove schema {schema} without restoring the rows of {table}")).await?;
            readpast_adopt::abandon(queue).await?;
        } else {
            confirm(self.yes, &format!("restore the held rows of {table}, and remove schema {schema}")).await?;
            readpast_adopt::remove(queue).await?;
        }
        output.one(&json!({"schema": schema, "table": table, "removed": true}), || {
            format!("table {table} is no longer adopted; schema {schema} is removed")
        })?;
        Ok(Exit::Ok)
    }
}

fn say(adoption: &Adoption, what: &str, output: Output) -> Result<()> {
    let (table, queue, schema) = (adoption.table(), adoption.queue(), adoption.schema());
    output.one(&json!({"table": table, "queue": queue, "schema": schema, "notes": adoption.notes()}), || {
        let notes: String = adoption.notes().iter().map(|note| format!("\nnote: {note}")).collect();
        format!("table {table} {what} as queue {queue} in schema {schema}{notes}")
    })
}

async fn check(queue: &Queue, output: Output) -> Result<Exit> {
    let found: AdoptionCheck = readpast_adopt::check(queue).await?;
    output.one(&found, || {
        if found.is_ok() {
            return format!("table {} has not changed since it was adopted", found.table);
        }
        let mut lines = vec![format!("table {} has changed since it was adopted:", found.table)];
        lines.extend(found.changes.iter().map(|change| format!("  {change}")));
        lines.push(match &found.refusal {
            Some(refusal) => format!("it can no longer be adopted as it is: {refusal}"),
            None => "run `readpast adopt MAPPING --install` again to accept the changes".to_owned(),
        });
        lines.join("\n")
    })?;
    Ok(if found.is_ok() { Exit::Ok } else { Exit::Failed })
}
