//! A queue's settings, as the form shows, reads and explains them.

use std::time::Duration;

use readpast::admin::{ClaimOrder, CompletionPolicy, Delivery, Keep, QueueOptions, QueueStats, Rate};

use super::typed::whole;
use crate::texts;

pub struct Setting {
    /// The field, which is also the word of `create_queue`.
    pub name: &'static str,
    pub label: &'static str,
    pub hint: &'static str,
    /// The words to choose from; empty: it is typed.
    pub words: &'static [&'static str],
    /// The default, as [`now`](Self::now) writes it.
    pub default: &'static str,
    /// When a change takes effect, and what it does to jobs that are there.
    pub effect: &'static str,
    pub now: fn(&QueueStats) -> String,
    pub set: fn(QueueOptions, &str) -> Result<QueueOptions, String>,
}

const BOOL: &[&str] = &["no", "yes"];

pub const ORDER: [Setting; 6] = [
    Setting {
        name: "claim_order",
        label: "Claim order",
        hint: "Within a priority: oldest first, newest first or any. To or from lifo only while the queue is empty.",
        words: &["fifo", "lifo", "any"],
        default: "fifo",
        effect: "From the next claim on.",
        now: |stats| texts::word(&stats.claim_order),
        set: |options, text| {
            Ok(options.claim_order(match text {
                "fifo" => ClaimOrder::Fifo,
                "lifo" => ClaimOrder::Lifo,
                "any" => ClaimOrder::Any,
                _ => return Err("it must be fifo, lifo or any".to_owned()),
            }))
        },
    },
    Setting {
        name: "age_after",
        label: "Rises by a priority after",
        hint: "A ready job counts as one priority higher for each such time that it has waited: 1s to a year, or none.",
        words: &[],
        default: "none",
        effect: "From the next claim on, also for jobs that wait already.",
        now: |stats| stats.age_after.map_or_else(none, texts::exact),
        set: |options, text| Ok(options.age_after(or_none(text, texts::read_duration)?)),
    },
    Setting {
        name: "group_limit",
        label: "Jobs per group",
        hint: "How many jobs of one group run at the same time: 1 to 1000.",
        words: &[],
        default: "1",
        effect: "For a group when its next job is added or ends.",
        now: |stats| stats.group_limit.to_string(),
        set: |options, text| Ok(options.group_limit(whole(text, "1 to 1000")?)),
    },
    Setting {
        name: "retry_passes",
        label: "Retries pass their turn on",
        hint: "Whether a retried job of a group lets the next one go first.",
        words: BOOL,
        default: "no",
        effect: "From the next retry on.",
        now: |stats| yes_or_no(stats.retry_passes),
        set: |options, text| Ok(options.retry_passes(is_yes(text)?)),
    },
    Setting {
        name: "halt_groups",
        label: "Dead jobs halt their group",
        hint: "Whether the jobs behind a dead job wait until it is requeued, skipped or deleted.",
        words: BOOL,
        default: "no",
        effect: "For jobs that die from now on. Groups that are halted stay so until their dead jobs are dealt with.",
        now: |stats| yes_or_no(stats.halt_groups),
        set: |options, text| Ok(options.halt_groups(is_yes(text)?)),
    },
    Setting {
        name: "fair",
        label: "Groups share the queue",
        hint: "Whether groups get shares by their weights instead of taking turns.",
        words: BOOL,
        default: "no",
        effect: "From the next claim on. Jobs of a group then run beside each other.",
        now: |stats| yes_or_no(stats.fair),
        set: |options, text| Ok(options.fair(is_yes(text)?)),
    },
];

pub const ATTEMPTS: [Setting; 3] = [
    Setting {
        name: "max_attempts",
        label: "Attempts",
        hint: "Then a job is dead, unless it has a number of its own: 1 or more.",
        words: &[],
        default: "5",
        effect: "For jobs without a number of their own.",
        now: |stats| stats.max_attempts.to_string(),
        set: |options, text| Ok(options.max_attempts(whole(text, "1 or more")?)),
    },
    Setting {
        name: "delivery",
        label: "Delivery",
        hint: "With at most once, a claim deletes the job: it never runs twice, and is lost if its worker dies.",
        words: &["at_least_once", "at_most_once"],
        default: "at_least_once",
        effect: "From the next claim on. At most once, a job is lost with its worker.",
        now: |stats| texts::word(&stats.delivery),
        set: |options, text| {
            Ok(options.delivery(match text {
                "at_least_once" => Delivery::AtLeastOnce,
                "at_most_once" => Delivery::AtMostOnce,
                _ => return Err("it must be at_least_once or at_most_once".to_owned()),
            }))
        },
    },
    Setting {
        name: "dead_queue",
        label: "Dead queue",
        hint: "Where jobs go instead of becoming dead here: the name of a queue, or none.",
        words: &[],
        default: "none",
        effect: "For jobs that die from now on. Those that are dead here stay.",
        now: |stats| stats.dead_queue.clone().unwrap_or_else(none),
        set: |options, text| Ok(options.dead_queue(or_none(text, |queue| Ok(queue.to_owned()))?)),
    },
];

pub const LIMITS: [Setting; 3] = [
    Setting {
        name: "max_running",
        label: "Claimed at once",
        hint: "Jobs that all workers together hold: 1 to 100000, or none for no limit.",
        words: &[],
        default: "none",
        effect: "From the next claim on. Jobs that are claimed are finished.",
        now: |stats| stats.max_running.map_or_else(none, |jobs| jobs.to_string()),
        set: |options, text| Ok(options.max_running(or_none(text, |text| whole(text, "1 to 100000, or none"))?)),
    },
    Setting {
        name: "rate",
        label: "Rate",
        hint: "Jobs that all workers together claim in an interval of 100ms to 1d, such as 100/60s, or none.",
        words: &[],
        default: "none",
        effect: "From the next claim on.",
        now: |stats| stats.rate.map_or_else(none, |rate| format!("{}/{}", rate.jobs, texts::exact(rate.interval))),
        set: |options, text| Ok(options.rate(or_none(text, rate)?)),
    },
    Setting {
        name: "max_depth",
        label: "Unfinished at most",
        hint: "How many unfinished jobs the queue takes: 1 or more, or none for no limit. A full queue refuses others.",
        words: &[],
        default: "none",
        effect: "From the next enqueue on. Jobs that are there stay.",
        now: |stats| stats.max_depth.map_or_else(none, |jobs| jobs.to_string()),
        set: |options, text| Ok(options.max_depth(or_none(text, |text| whole(text, "1 or more, or none"))?)),
    },
];

pub const KEEPING: [Setting; 4] = [
    Setting {
        name: "completion",
        label: "Done jobs",
        hint: "Deleted, kept in the table with their output, or moved to the archive.",
        words: &["delete", "annotate", "archive"],
        default: "delete",
        effect: "For jobs that are done from now on. Those that are kept stay where they are.",
        now: |stats| texts::word(&stats.completion),
        set: |options, text| {
            Ok(options.completion(match text {
                "delete" => CompletionPolicy::Delete,
                "annotate" => CompletionPolicy::Annotate,
                "archive" => CompletionPolicy::Archive,
                _ => return Err("it must be delete, annotate or archive".to_owned()),
            }))
        },
    },
    Setting {
        name: "keep_done",
        label: "Done jobs are kept",
        hint: "If they are kept at all: 1s to ten years, or forever.",
        words: &[],
        default: "forever",
        effect: "Workers delete older ones within about a minute, for good.",
        now: |stats| texts::keep(stats.keep_done),
        set: |options, text| Ok(options.keep_done(keep(text)?)),
    },
    Setting {
        name: "keep_dead",
        label: "Dead and cancelled jobs are kept",
        hint: "1s to ten years, or forever.",
        words: &[],
        default: "forever",
        effect: "Workers delete older ones within about a minute, for good.",
        now: |stats| texts::keep(stats.keep_dead),
        set: |options, text| Ok(options.keep_dead(keep(text)?)),
    },
    Setting {
        name: "sink",
        label: "Sink",
        hint: "Your procedure that gets the results of done jobs, such as dbo.add_up, or none.",
        words: &[],
        default: "none",
        effect: "For jobs that are done from now on. Restart the workers if the queue had none.",
        now: |stats| stats.sink.clone().unwrap_or_else(none),
        set: |options, text| {
            Ok(match or_none(text, |text| Ok(text.to_owned()))? {
                Some(procedure) => options.sink(procedure),
                None => options.without_sink(),
            })
        },
    },
];

/// All settings, with the titles of their groups.
pub const GROUPS: [(&str, &[Setting]); 4] =
    [("Order", &ORDER), ("Attempts", &ATTEMPTS), ("Limits", &LIMITS), ("Keeping", &KEEPING)];

pub fn all() -> impl Iterator<Item = &'static Setting> {
    GROUPS.into_iter().flat_map(|(_, settings)| settings)
}

fn none() -> String {
    "none".to_owned()
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn is_yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("it must be yes or no".to_owned()),
    }
}

fn or_none<T>(text: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    match text {
        "" => Err("it is empty; write none for no such setting".to_owned()),
        "none" => Ok(None),
        text => read(text).map(Some),
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || "write it as 100/60s, or none".to_owned();
    let (jobs, interval) = text.split_once('/').ok_or_else(wrong)?;
    let interval: Duration = texts::read_duration(interval).map_err(|_| wrong())?;
    Ok(Rate::new(jobs.trim().parse().map_err(|_| wrong())?, interval))
}

fn keep(text: &str) -> Result<Keep, String> {
    if text == "forever" { Ok(Keep::Forever) } else { texts::read_duration(text).map(Keep::For) }
}
