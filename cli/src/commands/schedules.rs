//! `readpast schedules` and `readpast schedule`.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use readpast::admin::{Schedule, ScheduleRow};
use readpast::{NewJob, Queue};
use serde::Serialize;
use serde_json::json;

use crate::audit::{note, noted};
use crate::connection::Common;
use crate::exit::{Exit, failure};
use crate::job_options::JobOptions;
use crate::output::{Output, confirm};
use crate::texts::{self, duration, nearest};

/// List the schedules with their next times.
///
/// NEXT is the time at which a new schedule was set until a worker has calculated its next time.
///
/// Role: operator or monitor.
#[derive(Debug, Args)]
pub struct Schedules {
    /// Only schedules of this queue
    queue: Option<String>,
}

/// Set, pause, run or delete a schedule.
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Create or replace a schedule; a paused one stays paused
    ///
    /// Role: operator.
    Set {
        queue: String,
        name: String,
        /// Minute, hour, day of month, month, day of week; with six fields, the second first
        cron: String,
        /// Payload of its jobs
        #[arg(default_value = "", hide_default_value = true)]
        payload: String,
        /// Time zone of CRON
        #[arg(long, default_value = "UTC", value_name = "NAME")]
        time_zone: String,
        /// How many of the latest missed times to make up for
        #[arg(long, default_value_t = 1, value_name = "NUMBER")]
        make_up: u32,
        /// Maximum random delay of each job
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        jitter: Option<Duration>,
        /// Deduplication key of its jobs: no job is added while the last one is unfinished
        #[arg(long)]
        key: Option<String>,
        #[command(flatten)]
        options: Box<JobOptions>,
    },
    /// Pause a schedule: it skips its times
    ///
    /// Role: operator.
    Pause { queue: String, name: String },
    /// Resume a paused schedule at its next time
    ///
    /// Role: operator.
    Resume { queue: String, name: String },
    /// Enqueue a schedule's job now, in addition to its times
    ///
    /// Role: operator.
    Run { queue: String, name: String },
    /// Delete a schedule, but not the jobs that it enqueued
    ///
    /// Role: operator.
    Delete {
        queue: String,
        name: String,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

/// A schedule with its queue.
#[derive(Serialize)]
struct Listed {
    queue: String,
    #[serde(flatten)]
    schedule: ScheduleRow,
}

impl Schedules {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let mut listed = Vec::new();
        for queue in queues(self.queue, common).await? {
            let schedules = queue.admin().schedules().await?;
            listed.extend(schedules.into_iter().map(|schedule| Listed { queue: queue.name().to_owned(), schedule }));
        }
        output.many(
            &listed,
            "there are no schedules",
            &["queue", "schedule", "times", "zone", "next", "last", "job", "kind", "paused", "error"],
            &["kind", "last", "zone", "times", "paused"],
            |Listed { queue, schedule }| {
                vec![
                    queue.clone(),
                    schedule.name.clone(),
                    schedule.cron.clone(),
                    schedule.time_zone.clone(),
                    texts::time(schedule.next_at),
                    texts::or_dash(schedule.last_at.map(texts::time)),
                    texts::or_dash(schedule.last_job_state),
                    texts::or_dash(schedule.kind.as_ref()),
                    if schedule.paused { "paused".to_owned() } else { "-".to_owned() },
                    schedule.error.clone().unwrap_or_default(),
                ]
            },
        )?;
        Ok(Exit::Ok)
    }
}

pub async fn queues(name: Option<String>, common: &Common) -> Result<Vec<Queue>> {
    let names = match name {
        Some(name) => vec![name],
        None => common.schema().await?.admin().all_stats(None).await?.into_iter().map(|queue| queue.queue).collect(),
    };
    let mut queues = Vec::new();
    for name in names {
        queues.push(common.queue(&name).await?);
    }
    Ok(queues)
}

/// The queue, if it has this schedule.
async fn of(common: &Common, queue: &str, schedule: &str) -> Result<Queue> {
    let queue = common.queue(queue).await?;
    let schedules = queue.admin().schedules().await?;
    if schedules.iter().all(|listed| listed.name != schedule) {
        let near = nearest(schedule, schedules.iter().map(|listed| listed.name.as_str()));
        let near = near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        return Err(failure(Exit::NotFound, format!("{} has no schedule '{schedule}'{near}", queue.name())));
    }
    Ok(queue)
}

impl ScheduleCommand {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        match self {
            ScheduleCommand::Set { queue, name, cron, payload, time_zone, make_up, jitter, key, options } => {
                let mut job = options.apply(NewJob::text(payload));
                if let Some(key) = key {
                    job = job.dedup_key(key);
                }
                let schedule = Schedule::new(&name, &cron, job).time_zone(time_zone).make_up(make_up);
                let schedule = schedule.jitter(jitter.unwrap_or_default());
                let queue = common.queue(&queue).await?;
                let what = json!({ "schedule": name, "cron": cron });
                let is_new =
                    noted(&queue, note("set_schedule").what(what), |admin| admin.set_schedule(&schedule), |_| None)
                        .await?;
                let words = || if is_new { format!("{name} is set") } else { format!("{name} is changed") };
                output.one(&json!({"schedule": name, "new": is_new}), words)?;
            }
            ScheduleCommand::Pause { queue, name } => {
                let queue = of(common, &queue, &name).await?;
                let what = json!({ "schedule": name });
                noted(&queue, note("pause_schedule").what(what), |admin| admin.pause_schedule(&name), |()| None)
                    .await?;
                output.one(&json!({"schedule": name, "paused": true}), || format!("{name} is paused"))?;
            }
            ScheduleCommand::Resume { queue, name } => {
                let queue = of(common, &queue, &name).await?;
                let what = json!({ "schedule": name });
                noted(&queue, note("resume_schedule").what(what), |admin| admin.resume_schedule(&name), |()| None)
                    .await?;
                output.one(&json!({"schedule": name, "paused": false}), || format!("{name} is resumed"))?;
            }
            ScheduleCommand::Run { queue, name } => {
                let queue = of(common, &queue, &name).await?;
                let what = json!({ "schedule": name });
                let enqueued =
                    noted(&queue, note("run_schedule").what(what), |admin| admin.run_schedule_now(&name), |_| None)
                        .await?;
                output.one(&enqueued, || format!("job {}", enqueued.job_id))?;
            }
            ScheduleCommand::Delete { queue, name, yes } => {
                let queue = of(common, &queue, &name).await?;
                confirm(yes, &format!("delete schedule {name} of {}", queue.name())).await?;
                let what = json!({ "schedule": name });
                noted(&queue, note("delete_schedule").what(what), |admin| admin.delete_schedule(&name), |_| None)
                    .await?;
                output.one(&json!({"schedule": name, "deleted": true}), || format!("{name} is deleted"))?;
            }
        }
        Ok(Exit::Ok)
    }
}
