//! `readpast queue`: a queue's settings.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use readpast::admin::{
    ClaimOrder, CompletionPolicy, Delivery, GroupRow, Held, Keep, NewAudit, QueueOptions, QueueStats, Rate,
};
use readpast::{Error, Queue};
use serde_json::json;

use super::queues::limits;
use super::stats::paused;
use crate::audit::{note, noted};
use crate::connection::Common;
use crate::exit::{Exit, failure};
use crate::output::{Output, confirm};
use crate::texts::{self, duration};

/// Create, change, show, pause or delete a queue.
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Create a queue
    ///
    /// Role: operator.
    Create {
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Change settings of a queue; the others keep their values
    ///
    /// Role: operator.
    Set {
        name: String,
        #[command(flatten)]
        settings: Settings,
    },
    /// Show a queue's settings and job counts
    ///
    /// Role: worker, operator or monitor.
    Show { name: String },
    /// Set the weight of a group: how many jobs it gets in each round of a fair queue
    ///
    /// Role: operator.
    Weight {
        name: String,
        /// Key of the group
        group: String,
        /// 1 to 1000; 1 is the weight of all groups that have none set
        weight: u32,
    },
    /// Show the groups of a queue that have waiting jobs, jobs with a turn, or a weight
    ///
    /// At most 1,000 waiting jobs of a group are counted. Children that wait for their parents do not count.
    ///
    /// Role: operator or monitor.
    Groups { name: String },
    /// Pause a queue: workers claim no more of its jobs, and finish those they hold
    ///
    /// Role: operator.
    Pause {
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// All queues of the schema, also those that are created later
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Why, for the audit and, with --all, for `stats`
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    /// Resume a paused queue
    ///
    /// Role: operator.
    Resume {
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Take `pause --all` back; queues that were paused individually stay paused
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Delete a queue
    ///
    /// Fails while the queue has workers, jobs, or batches whose follow-ups go to it, or while another
    /// queue's dead jobs go to it.
    ///
    /// Role: operator.
    Delete {
        name: String,
        /// Also delete its jobs, in every state and in the archive
        #[arg(long)]
        with_jobs: bool,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Queue settings")]
pub struct Settings {
    /// Order of claims within a priority [initially: fifo]
    #[arg(long)]
    order: Option<Order>,
    /// What happens to done jobs [initially: delete]
    #[arg(long)]
    completion: Option<Completion>,
    /// Delivery guarantee [initially: at_least_once]
    #[arg(long)]
    delivery: Option<DeliveryOption>,
    /// Attempts after which a job becomes dead [initially: 5]
    #[arg(long, value_name = "NUMBER")]
    max_attempts: Option<u32>,
    /// How long done jobs stay, 1s to ten years or `forever` [initially: forever]
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    keep_done: Option<Keep>,
    /// How long dead and cancelled jobs stay, 1s to ten years or `forever` [initially: forever]
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    keep_dead: Option<Keep>,
    /// Jobs of one group that run at the same time, 1 to 1000 [initially: 1]
    #[arg(long, value_name = "NUMBER")]
    group_limit: Option<u32>,
    /// Whether a retried job of a group passes its turn on [initially: false]
    #[arg(long, value_name = "BOOL")]
    retry_passes: Option<bool>,
    /// Jobs that all workers together hold, 1 to 100000 or `none` [initially: none]
    #[arg(long, value_name = "NUMBER", value_parser = limit)]
    max_running: Option<Limit<u32>>,
    /// Jobs that all workers together claim per interval of 100ms to 1d, such as `100/60s`, or `none` [initially: none]
    #[arg(long, value_name = "JOBS/DURATION", value_parser = rate)]
    rate: Option<Limit<Rate>>,
    /// Your procedure that gets the results when jobs are finished, or `none` [initially: none]
    #[arg(long, value_name = "PROCEDURE")]
    sink: Option<String>,
    /// Queue that jobs go to instead of becoming dead, or `none` [initially: none]
    #[arg(long, value_name = "QUEUE")]
    dead_queue: Option<String>,
    /// Unfinished jobs that the queue takes, 1 or more or `none` [initially: none]
    #[arg(long, value_name = "NUMBER", value_parser = limit)]
    max_depth: Option<Limit<u32>>,
    /// Time after which a ready job counts as one priority higher, 1s to a year or `none` [initially: none]
    #[arg(long, value_name = "DURATION", value_parser = age_after)]
    age_after: Option<Limit<Duration>>,
    /// Whether a dead job of a group keeps the jobs behind it waiting [initially: false]
    #[arg(long, value_name = "BOOL")]
    halt_groups: Option<bool>,
    /// Whether groups share the queue instead of taking turns [initially: false]
    #[arg(long, value_name = "BOOL")]
    fair: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
struct Limit<T>(Option<T>);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    Fifo,
    Lifo,
    Any,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Completion {
    /// deleted
    Delete,
    /// kept in the table, with times and output
    Annotate,
    /// moved to the archive
    Archive,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum DeliveryOption {
    AtLeastOnce,
    AtMostOnce,
}

/// Use a restored or copied database: its jobs run from now on.
///
/// Until then, nothing is claimed in it and no schedule fires, because its jobs may have run since in the original. First
/// cancel or delete those that must not run a second time.
///
/// Role: operator.
#[derive(Debug, Args)]
pub struct ConfirmCopy {
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

impl ConfirmCopy {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let schema = common.schema().await?;
        let holds = schema.admin().holds().await?;
        let Some(copy) = holds.iter().find(|hold| hold.held == Held::Copy) else {
            output.one(&json!({"confirmed": false}), || "no copy was found; nothing was done".to_owned())?;
            return Ok(Exit::Ok);
        };
        let original = copy.original.as_ref().map_or_else(String::new, |original| {
            let server = original.server.as_deref().unwrap_or("an unknown server");
            format!(" of database {} on {server}", original.database)
        });
        confirm(self.yes, &format!("run the jobs of this copy{original}, which may have run there since")).await?;
        noted(&schema, note("confirm_copy").of_no_queue(), |admin| admin.confirm_copy(), |()| None).await?;
        output.one(&json!({"confirmed": true}), || "the queues are no longer held as those of a copy".to_owned())?;
        Ok(Exit::Ok)
    }
}

impl QueueCommand {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        match self {
            QueueCommand::Create { name, settings } => {
                let queue = common.queue(&name).await?;
                match queue.admin().stats(None).await {
                    Ok(_) => {
                        let message = format!("queue '{name}' already exists; run `readpast queue set` to change it");
                        return Err(failure(Exit::Refused, message));
                    }
                    // Only some roles may ask for the queue. If the login is no operator, `create` fails and names the
                    // role.
                    Err(Error::UnknownQueue { .. } | Error::PermissionDenied { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                change(&queue, "create_queue", settings.options()).await?;
                show(&queue, output).await
            }
            QueueCommand::Set { name, settings } => {
                let queue = common.queue(&name).await?;
                queue.admin().stats(None).await?; // `create` would make one
                change(&queue, "set_queue", settings.options()).await?;
                show(&queue, output).await
            }
            QueueCommand::Show { name } => show(&common.queue(&name).await?, output).await,
            QueueCommand::Weight { name, group, weight } => {
                let queue = common.queue(&name).await?;
                let what = json!({ "group_key": group, "weight": weight });
                noted(
                    &queue,
                    note("set_group_weight").what(what),
                    |admin| admin.set_group_weight(&group, weight),
                    |()| None,
                )
                .await?;
                let is_fair = queue.admin().stats(Some(1)).await?.fair;
                let unused = if is_fair { "" } else { "; it has no effect until the queue is fair" };
                let words = || format!("group {group} of {name} has the weight {weight}{unused}");
                output.one(&json!({"queue": name, "group_key": group, "weight": weight}), words)?;
                Ok(Exit::Ok)
            }
            QueueCommand::Groups { name } => groups(&common.queue(&name).await?, output).await,
            QueueCommand::Pause { name: Some(name), why, .. } => {
                let queue = common.queue(&name).await?;
                let note = because(note("pause"), why.as_deref());
                noted(&queue, note, |admin| admin.pause(), |()| None).await?;
                output.one(&json!({"queue": name, "paused": true}), || format!("{name} is paused"))?;
                Ok(Exit::Ok)
            }
            QueueCommand::Resume { name: Some(name), .. } => {
                let queue = common.queue(&name).await?;
                noted(&queue, note("resume"), |admin| admin.resume(), |()| None).await?;
                output.one(&json!({"queue": name, "paused": false}), || format!("{name} is resumed"))?;
                Ok(Exit::Ok)
            }
            QueueCommand::Pause { name: None, why, .. } => {
                let schema = common.schema().await?;
                let note = because(note("pause_all").of_no_queue(), why.as_deref());
                noted(&schema, note, |admin| admin.pause_all(why.as_deref()), |()| None).await?;
                output.one(&json!({"paused": true}), || "all queues are paused".to_owned())?;
                Ok(Exit::Ok)
            }
            QueueCommand::Resume { name: None, .. } => {
                let schema = common.schema().await?;
                noted(&schema, note("resume_all").of_no_queue(), |admin| admin.resume_all(), |()| None).await?;
                output.one(&json!({"paused": false}), || "all queues are resumed".to_owned())?;
                Ok(Exit::Ok)
            }
            QueueCommand::Delete { name, with_jobs, yes } => {
                let queue = common.queue(&name).await?;
                let question = if with_jobs { " with all its jobs" } else { "" };
                confirm(yes, &format!("delete queue {name}{question}")).await?;
                let what = json!({ "with_jobs": with_jobs });
                let deleted = noted(
                    &queue,
                    note("delete_queue").what(what),
                    |admin| admin.delete(with_jobs),
                    |deleted| Some(deleted.jobs),
                )
                .await?;
                let words = || format!("{name} is deleted with {}", texts::counted(deleted.jobs, "job"));
                output.one(&json!({"queue": name, "deleted_jobs": deleted.jobs}), words)?;
                Ok(Exit::Ok)
            }
        }
    }
}

impl Settings {
    fn options(&self) -> QueueOptions {
        let mut options = QueueOptions::default();
        if let Some(order) = self.order {
            options = options.claim_order(match order {
                Order::Fifo => ClaimOrder::Fifo,
                Order::Lifo => ClaimOrder::Lifo,
                Order::Any => ClaimOrder::Any,
            });
        }
        if let Some(completion) = self.completion {
            options = options.completion(match completion {
                Completion::Delete => CompletionPolicy::Delete,
                Completion::Annotate => CompletionPolicy::Annotate,
                Completion::Archive => CompletionPolicy::Archive,
            });
        }
        if let Some(delivery) = self.delivery {
            options = options.delivery(match delivery {
                DeliveryOption::AtLeastOnce => Delivery::AtLeastOnce,
                DeliveryOption::AtMostOnce => Delivery::AtMostOnce,
            });
        }
        if let Some(max_attempts) = self.max_attempts {
            options = options.max_attempts(max_attempts);
        }
        if let Some(keep) = self.keep_done {
            options = options.keep_done(keep);
        }
        if let Some(keep) = self.keep_dead {
            options = options.keep_dead(keep);
        }
        if let Some(limit) = self.group_limit {
            options = options.group_limit(limit);
        }
        if let Some(passes) = self.retry_passes {
            options = options.retry_passes(passes);
        }
        if let Some(Limit(jobs)) = self.max_running {
            options = options.max_running(jobs);
        }
        if let Some(Limit(rate)) = self.rate {
            options = options.rate(rate);
        }
        if let Some(queue) = &self.dead_queue {
            options = options.dead_queue((queue != "none").then(|| queue.clone()));
        }
        if let Some(Limit(jobs)) = self.max_depth {
            options = options.max_depth(jobs);
        }
        if let Some(Limit(time)) = self.age_after {
            options = options.age_after(time);
        }
        if let Some(halts) = self.halt_groups {
            options = options.halt_groups(halts);
        }
        if let Some(fair) = self.fair {
            options = options.fair(fair);
        }
        match self.sink.as_deref() {
            None => options,
            Some("none") => options.without_sink(),
            Some(procedure) => options.sink(procedure),
        }
    }
}

async fn change(queue: &Queue, action: &str, options: QueueOptions) -> Result<()> {
    let what = json!({ "settings": options });
    noted(queue, note(action).what(what), |admin| admin.create(options), |_| None).await?;
    Ok(())
}

fn because(note: NewAudit, why: Option<&str>) -> NewAudit {
    match why {
        Some(why) => note.what(json!({ "why": why })),
        None => note,
    }
}

async fn show(queue: &Queue, output: Output) -> Result<Exit> {
    let stats = queue.admin().stats(None).await?;
    output.record(&stats, || fields(&stats))?;
    Ok(Exit::Ok)
}

/// Groups per call, the most that one returns.
const GROUPS: usize = 1_000;

async fn groups(queue: &Queue, output: Output) -> Result<Exit> {
    let mut groups: Vec<GroupRow> = Vec::new();
    loop {
        let page = queue.admin().groups(groups.last().map(|group| group.group_key.as_str()), GROUPS).await?;
        let is_last = page.len() < GROUPS;
        groups.extend(page);
        if is_last {
            break;
        }
    }
    let columns = ["group", "weight", "in turn", "waiting"];
    output.many(&groups, "no jobs wait in groups, and no group has a weight", &columns, &[], |group| {
        vec![group.group_key.clone(), group.weight.to_string(), group.in_turn.to_string(), texts::number(group.waiting)]
    })?;
    Ok(Exit::Ok)
}

fn fields(queue: &QueueStats) -> Vec<(&'static str, String)> {
    vec![
        ("queue", queue.queue.clone()),
        ("paused", paused(queue)),
        ("order", texts::word(&queue.claim_order)),
        ("completion", texts::word(&queue.completion)),
        ("delivery", texts::word(&queue.delivery)),
        ("max attempts", queue.max_attempts.to_string()),
        ("keep done", texts::keep(queue.keep_done)),
        ("keep dead", texts::keep(queue.keep_dead)),
        ("group limit", queue.group_limit.to_string()),
        ("retry passes", queue.retry_passes.to_string()),
        ("age after", texts::or_dash(queue.age_after.map(texts::exact))),
        ("halt groups", queue.halt_groups.to_string()),
        ("fair", queue.fair.to_string()),
        ("limits", limits(queue)),
        ("sink", texts::or_dash(queue.sink.as_ref())),
        ("dead queue", texts::or_dash(queue.dead_queue.as_ref())),
        ("workers", queue.workers.to_string()),
        ("ready", texts::number(queue.ready)),
        ("oldest ready", texts::or_dash(queue.oldest_ready.map(texts::age))),
        ("scheduled", texts::number(queue.scheduled)),
        ("waiting", texts::number(queue.waiting)),
        ("claimed", texts::number(queue.claimed)),
        ("done", texts::number(queue.done)),
        ("dead", texts::number(queue.dead)),
        ("cancelled", texts::number(queue.cancelled)),
        ("archived", texts::number(queue.archived)),
    ]
}

fn keep(text: &str) -> Result<Keep, String> {
    if text == "forever" { Ok(Keep::Forever) } else { duration(text).map(Keep::For) }
}

fn limit(text: &str) -> Result<Limit<u32>, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    text.parse().map(|jobs| Limit(Some(jobs))).map_err(|_| "it must be a number, or none".to_owned())
}

fn age_after(text: &str) -> Result<Limit<Duration>, String> {
    if text == "none" { Ok(Limit(None)) } else { duration(text).map(|time| Limit(Some(time))) }
}

fn rate(text: &str) -> Result<Limit<Rate>, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let (jobs, interval) = text.split_once('/').ok_or("it must be a rate such as 100/60s, or none")?;
    let jobs = jobs.trim().parse().map_err(|_| format!("'{jobs}' is not a number of jobs"))?;
    let interval = duration(interval.trim()).map_err(|problem| format!("the time after / is '{interval}': {problem}"));
    let interval: Duration = interval?;
    Ok(Limit(Some(Rate::new(jobs, interval))))
}
