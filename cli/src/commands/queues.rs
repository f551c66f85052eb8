//! `readpast queues`: all queues of the schema.

use anyhow::Result;
use clap::Args;
use readpast::QueueStats;

use crate::connection::Common;
use crate::exit::Exit;
use crate::output::Output;
use crate::texts;

/// List the queues with their settings.
///
/// `readpast stats` shows what is in them.
///
/// Role: worker, operator or monitor.
#[derive(Debug, Args)]
pub struct Queues {}

impl Queues {
    pub async fn run(self, common: &Common, output: Output) -> Result<Exit> {
        let queues = common.schema().await?.all_queues().await?;
        output.many(
            &queues,
            "there is no queue; readpast queue create NAME makes one",
            &["queue", "order", "completion", "delivery", "attempts", "keep done", "keep dead", "limits", "paused"],
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
                    if queue.paused { "paused".to_owned() } else { "-".to_owned() },
                ]
            },
        )?;
        Ok(Exit::Ok)
    }
}

/// What keeps the queue's jobs from all running at once.
pub fn limits(queue: &QueueStats) -> String {
    let running = queue.max_running.map(|jobs| format!("{jobs} at once"));
    let rate = queue.rate.map(|rate| format!("{} in {}", rate.jobs, texts::exact(rate.interval)));
    let limits: Vec<String> = running.into_iter().chain(rate).collect();
    if limits.is_empty() { "-".to_owned() } else { limits.join(", ") }
}
