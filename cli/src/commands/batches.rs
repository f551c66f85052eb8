//! `readpast batches` and `readpast batch`.

use std::io::{self, IsTerminal};

use anyhow::Result;
use clap::{Args, Subcommand};
use readpast::admin::{Changed, GraphStep};
use readpast::{BatchId, BatchRow, Error, NewBatch, NewJob, Queue};
use serde_json::json;

use super::schedules::queues;
use crate::audit::{note, noted};
use crate::connection::Common;
use crate::exit::{Exit, failure, say};
use crate::job_options::JobOptions;
use crate::output::{Output, confirm};
use crate::texts;

/// List the unfinished batches with their progress, newest first.
///
/// Role: producer with a queue; operator or monitor.
#[derive(Debug, Args)]
pub struct Batches {
    /// Only batches whose follow-ups go to this queue
    queue: Option<String>,
    /// Also list completed batches
    #[arg(long)]
    all: bool,
    /// Maximum number of batches per queue
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
}

/// Create, show, seal or cancel a batch.
#[derive(Debug, Subcommand)]
pub enum BatchCommand {
    /// Create a batch; `enqueue --batch` adds jobs until it is sealed
    ///
    /// Role: producer or operator.
    Create {
        /// Queue of the follow-up
        queue: String,
        /// Display name
        #[arg(long)]
        name: Option<String>,
        /// Payload of the follow-up, enqueued when all jobs of the batch have finished
        #[arg(long, value_name = "PAYLOAD")]
        then: Option<String>,
        /// Batch to which the follow-up belongs
        #[arg(long, value_name = "NUMBER", requires = "then")]
        parent: Option<i64>,
        #[command(flatten)]
        options: Box<JobOptions>,
    },
    /// Show the progress of a batch, and the graph of its unfinished jobs if some wait for others
    ///
    /// In the graph, jobs of one kind that are equally far from its beginning share a line. A producer does not see it.
    ///
    /// Role: producer, operator or monitor.
    Show { batch: i64 },
    /// Seal a batch: no more jobs can be added, and it completes when all have finished
    ///
    /// Role: producer or operator.
    Seal { batch: i64 },
    /// Cancel the unfinished jobs of a batch and of its child batches
    ///
    /// Role: operator.
    Cancel {
        batch: i64,
        /// Reason, shown with the jobs
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        why: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

/// Batches per call.
const PAGE: usize = 500;

impl Batches {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let mut batches: Vec<BatchRow> = Vec::new();
        for queue in queues(self.queue, common).await? {
            let (mut before, mut left) = (None, self.limit);
            while left > 0 {
                let page = queue.admin().batches(!self.all, before, left.min(PAGE)).await?;
                let Some(last) = page.last() else { break };
                before = Some(last.batch_id);
                left -= page.len();
                batches.extend(page);
            }
        }
        output.many(
            &batches,
            if self.all {
                "there are no batches"
            } else {
                "there are no unfinished batches; --all includes completed ones"
            },
            &["batch", "queue", "name", "created", "jobs", "left", "done", "dead", "cancelled", "sealed", "ended"],
            &["created", "sealed", "cancelled", "queue", "ended", "name"],
            |batch: &BatchRow| {
                vec![
                    batch.batch_id.to_string(),
                    batch.queue.clone(),
                    texts::or_dash(batch.name.as_ref()),
                    texts::time(batch.created_at),
                    texts::number(batch.jobs),
                    texts::number(batch.unfinished()),
                    texts::number(batch.done),
                    texts::number(batch.dead),
                    texts::number(batch.cancelled),
                    texts::or_dash(batch.sealed_at.map(texts::time)),
                    texts::or_dash(batch.ended_at.map(texts::time)),
                ]
            },
        )?;
        if !self.all && !batches.is_empty() && !output.is_json() && io::stderr().is_terminal() {
            say("only unfinished batches are listed; --all includes completed ones");
        }
        Ok(Exit::Ok)
    }
}

impl BatchCommand {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        match self {
            BatchCommand::Create { queue, name, then, parent, options } => {
                let mut batch = NewBatch::new();
                if let Some(name) = name {
                    batch = batch.name(name);
                }
                if let Some(payload) = then {
                    batch = batch.then(options.apply(NewJob::text(payload)));
                }
                if let Some(parent) = parent {
                    batch = batch.parent(BatchId(parent));
                }
                let batch = common.queue(&queue).await?.create_batch(&batch).await?;
                output.one(&json!({"batch_id": batch}), || format!("batch {batch}"))?;
            }
            BatchCommand::Show { batch } => {
                let schema = common.schema().await?;
                let row = must_be_there(&schema, batch).await?;
                output.record(&row, || fields(&row))?;
                if !output.is_json() {
                    show_graph(&schema, row.batch_id, output).await?;
                }
            }
            BatchCommand::Seal { batch } => {
                let schema = common.schema().await?;
                must_be_there(&schema, batch).await?;
                let sealed = schema.seal_batch(BatchId(batch)).await?;
                output.one(&sealed, || {
                    let state = if sealed.ended { "all have finished" } else { "it completes when all have finished" };
                    format!("batch {batch} is sealed with {}; {state}", texts::counted(sealed.jobs, "job"))
                })?;
            }
            BatchCommand::Cancel { batch, why, yes } => {
                let schema = common.schema().await?;
                let row = must_be_there(&schema, batch).await?;
                confirm(yes, &format!("cancel batch {batch}")).await?;
                let queue = common.queue(&row.queue).await?;
                let what = json!({ "batch": batch, "why": why });
                let jobs = |cancelled: &Changed| Some(cancelled.total());
                let cancelled = noted(
                    &queue,
                    note("cancel_batch").what(what),
                    |admin| admin.cancel_batch(BatchId(batch), &why),
                    jobs,
                )
                .await?;
                let (waiting, running) = (cancelled.changed, cancelled.requested);
                output.one(&json!({"waiting": waiting, "running": running}), || {
                    format!(
                        "cancelled {}; told the workers of {}",
                        texts::counted(waiting, "job"),
                        texts::counted(running, "running job")
                    )
                })?;
            }
        }
        Ok(Exit::Ok)
    }
}

/// The batch, or an error if it does not exist.
async fn must_be_there(schema: &Queue, batch: i64) -> Result<BatchRow> {
    let row = schema.batch(BatchId(batch)).await?;
    row.ok_or_else(|| failure(Exit::NotFound, format!("there is no batch {batch}")))
}

/// The most jobs of a graph.
const GRAPH: usize = 1_000;

/// Prints the graph of a batch's unfinished jobs, if they have edges and the login may see them.
async fn show_graph(schema: &Queue, batch: BatchId, output: Output) -> Result<()> {
    let graph = match schema.admin().batch_graph(batch, GRAPH).await {
        Err(Error::PermissionDenied { .. }) => return Ok(()),
        graph => graph?,
    };
    if graph.edges.is_empty() {
        return Ok(());
    }
    let steps = graph.steps(0);
    let name = |step: &GraphStep| format!("{} {}", step.depth + 1, texts::or_dash(step.kind.as_ref()));
    output.line(if graph.is_partial { "\ngraph, the first 1,000 jobs" } else { "\ngraph" })?;
    output.many(&steps, "", &["step", "jobs", "states", "after"], &[], |step| {
        let states = step.states.iter().map(|(state, count)| {
            format!("{count} {}", state.map_or_else(|| "gone".to_owned(), |state| texts::word(&state)))
        });
        let after: Vec<String> = step.after.iter().map(|parent| name(&steps[*parent])).collect();
        vec![
            name(step),
            step.jobs.len().to_string(),
            states.collect::<Vec<_>>().join(", "),
            texts::or_dash(Some(after.join(", ")).filter(|after| !after.is_empty())),
        ]
    })
}

fn fields(batch: &BatchRow) -> Vec<(&'static str, String)> {
    vec![
        ("batch", batch.batch_id.to_string()),
        ("name", texts::or_dash(batch.name.as_ref())),
        ("queue", batch.queue.clone()),
        ("parent", texts::or_dash(batch.parent_id)),
        ("created", texts::time(batch.created_at)),
        ("sealed", texts::or_dash(batch.sealed_at.map(texts::time))),
        ("ended", texts::or_dash(batch.ended_at.map(texts::time))),
        ("jobs", texts::number(batch.jobs)),
        ("left", texts::number(batch.unfinished())),
        ("done", texts::number(batch.done)),
        ("dead", texts::number(batch.dead)),
        ("cancelled", texts::number(batch.cancelled)),
        ("follow-up", texts::or_dash(batch.follow_up_id)),
    ]
}
