//! `readpast queues`: all queues of the schema.

use std::collections::HashMap;

use anyhow::Result;
use clap::Args;
use readpast::Error;
use readpast::admin::QueueStats;
use readpast_web::attention::{LATELY, Lately, now};

use crate::connection::Common;
use crate::exit::Exit;
use crate::output::Output;
use crate::texts;

/// List the queues with their settings.
///
/// ATTENTION shows a pause, ready jobs without a worker, jobs that died within the last 15 minutes, and late schedules.
///
/// Role: worker, operator or monitor.
#[derive(Debug, Args)]
pub struct Queues {}

impl Queues {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let schema = common.schema().await?;
        let queues = schema.admin().all_stats(None).await?;
        let mut lately = HashMap::new();
        if !output.is_json() {
            let history = or_hidden(schema.admin().all_history(LATELY).await)?;
            for QueueStats { queue, .. } in &queues {
                let schedules = schema.named(queue)?.admin().schedules().await.unwrap_or_default(); // an adopted table has none
                let history: Vec<_> = history.iter().filter(|row| row.queue == *queue).cloned().collect();
                lately.insert(queue.clone(), Lately::new(&history, &schedules, now()));
            }
        }
        output.many(
            &queues,
            "there are no queues; run `readpast queue create NAME` to create one",
            &["queue", "order", "completion", "delivery", "attempts", "keep done", "keep dead", "limits", "attention"],
            &["keep done", "keep dead", "attempts", "limits", "delivery", "order"],
            |queue: &QueueStats| {
                vec![
                    queue.queue.clone(),
                    texts::word(&queue.claim_order),
                    texts::word(&queue.completion),
                    texts::word(&queue.delivery),
                    queue.max_attempts.to_string(),
                    texts::keep(queue.keep_done),
                    texts::keep(queue.keep_dead),
                    limits(queue),
                    attention(queue, lately.get(&queue.queue).copied().unwrap_or_default()),
                ]
            },
        )?;
        Ok(Exit::Ok)
    }
}

/// An empty list if the login may not see it.
fn or_hidden<T>(listed: Result<Vec<T>, Error>) -> Result<Vec<T>, Error> {
    match listed {
        Err(Error::PermissionDenied { .. }) => Ok(Vec::new()),
        listed => listed,
    }
}

/// A pause, and what needs attention.
fn attention(queue: &QueueStats, lately: Lately) -> String {
    let paused = queue.paused.then(|| "paused".to_owned());
    let words: Vec<String> = paused.into_iter().chain(lately.words(queue)).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// The queue's limits as text.
pub fn limits(queue: &QueueStats) -> String {
    let running = queue.max_running.map(|jobs| format!("{jobs} at once"));
    let rate = queue.rate.map(|rate| format!("{} per {}", rate.jobs, texts::exact(rate.interval)));
    let depth = queue.max_depth.map(|jobs| format!("{jobs} unfinished"));
    let limits: Vec<String> = running.into_iter().chain(rate).chain(depth).collect();
    if limits.is_empty() { "-".to_owned() } else { limits.join(", ") }
}
