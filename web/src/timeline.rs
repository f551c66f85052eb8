//! The life of a job as a bar: waits and attempts.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use readpast::admin::{FailedAttempt, JobRow, JobState};

use crate::texts::counted;
use crate::time::length;

/// The least width of a part, in percent.
const LEAST: f64 = 0.6;

/// The most parts. Of a job with more attempts, the first ones are one part.
const MOST: usize = 60;

/// The class and the meaning of each colour.
const KEYS: [(&str, &str); 6] = [
    ("ready", "waited"),
    ("scheduled", "waited for a retry"),
    ("retry", "failed"),
    ("dead", "died"),
    ("claimed", "runs"),
    ("done", "done"),
];

/// The picture, and what it says.
pub struct Timeline {
    pub svg: String,
    /// How long the job has lived, or lived until its end.
    pub total: String,
    /// How it passed that time.
    pub words: String,
    /// The colours of the picture and their meanings.
    pub keys: Vec<(&'static str, &'static str)>,
}

struct Part {
    /// The class of its colour.
    class: &'static str,
    words: String,
    length: Duration,
    /// A run is drawn high, a wait low.
    is_run: bool,
}

impl Timeline {
    /// `None` if the job has not run yet. `attempts` are sorted by time.
    pub fn new(job: &JobRow, attempts: &[FailedAttempt], now: SystemTime) -> Option<Timeline> {
        let parts = parts(job, attempts, now);
        if !parts.iter().any(|part| part.is_run) {
            return None;
        }
        let sum = |is_run| parts.iter().filter(|part| part.is_run == is_run).map(|part| part.length).sum::<Duration>();
        let (ran, waited): (Duration, Duration) = (sum(true), sum(false));
        let runs = parts.iter().filter(|part| part.is_run).count() as u64;
        let words = format!("ran {} in {}, waited {}", length(ran), counted(runs, "attempt"), length(waited));
        let keys = KEYS.into_iter().filter(|(class, _)| parts.iter().any(|part| part.class == *class)).collect();
        Some(Timeline { svg: svg(&parts), keys, total: length(ran + waited), words })
    }
}

/// Waits and runs from the job's enqueueing until its end or now.
fn parts(job: &JobRow, attempts: &[FailedAttempt], now: SystemTime) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = job.enqueued_at;
    let last = attempts.len().saturating_sub(1);
    for (index, attempt) in attempts.iter().enumerate().skip(attempts.len().saturating_sub(MOST / 2)) {
        let is_end = index == last && job.state == JobState::Dead;
        let words = format!("attempt {} failed", attempt.attempt);
        let class = if is_end { "dead" } else { "retry" };
        add(&mut parts, &mut at, attempt.failed_at, attempt.run.unwrap_or_default(), class, words);
    }
    match (job.state, job.claimed_at, job.finished_at) {
        (JobState::Claimed, Some(claimed_at), _) => {
            let run = now.duration_since(claimed_at).unwrap_or_default();
            add(&mut parts, &mut at, now, run, "claimed", "runs, or is in a worker's buffer".to_owned());
        }
        (JobState::Done | JobState::Archived, _, Some(end)) => {
            add(&mut parts, &mut at, end, job.run.unwrap_or_default(), "done", "the last attempt".to_owned());
        }
        _ => {}
    }
    parts
}

/// Adds the wait since `at`, and a run that ended at `end`.
fn add(parts: &mut Vec<Part>, at: &mut SystemTime, end: SystemTime, run: Duration, class: &'static str, words: String) {
    let lived = end.duration_since(*at).unwrap_or_default();
    let wait = lived.saturating_sub(run);
    if !wait.is_zero() {
        let class = if parts.is_empty() { "ready" } else { "scheduled" };
        parts.push(Part { class, words: "waited".to_owned(), length: wait, is_run: false });
    }
    parts.push(Part { class, words, length: run.min(lived), is_run: true });
    *at = end;
}

/// The widths are in proportion to the square roots of the lengths, so that short parts are visible.
fn svg(parts: &[Part]) -> String {
    let root = |part: &Part| part.length.as_secs_f64().sqrt();
    let sum: f64 = parts.iter().map(root).sum::<f64>().max(f64::MIN_POSITIVE);
    let free = 100.0 - LEAST * parts.len() as f64;
    let words: Vec<String> = parts.iter().map(|part| format!("{} {}", part.words, length(part.length))).collect();
    let mut svg = format!(r#"<svg class="line" role="img" aria-label="{}">"#, words.join("; "));
    let mut x = 0.0;
    for (part, words) in parts.iter().zip(words) {
        let width = LEAST + root(part) / sum * free;
        let (y, height) = if part.is_run { (0, 28) } else { (11, 6) };
        let class = part.class;
        let _ = write!(
            svg,
            r#"<rect class="{class}" x="{x:.2}%" y="{y}" width="{:.2}%" height="{height}" rx="2"><title>{words}</title></rect>"#,
            (width - 0.2).max(0.2)
        );
        if part.is_run && width > 5.0 {
            let _ = write!(svg, r#"<text x="{:.2}%" y="43">{}</text>"#, x + width / 2.0, length(part.length));
        }
        x += width;
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(class: &'static str, seconds: u64, is_run: bool) -> Part {
        Part { class, words: "x".to_owned(), length: Duration::from_secs(seconds), is_run }
    }

    #[test]
    fn short_parts_are_visible_beside_long_ones() {
        let svg = svg(&[part("ready", 1_000_000, false), part("dead", 0, true)]);
        assert!(svg.contains(r#"<rect class="dead" x="99.40%" y="0" width="0.40%""#), "{svg}");
    }

    #[test]
    fn a_run_ends_a_wait() {
        let begin = SystemTime::UNIX_EPOCH;
        let (mut parts, mut at) = (Vec::new(), begin);
        let end = |seconds| begin + Duration::from_secs(seconds);
        add(&mut parts, &mut at, end(10), Duration::from_secs(3), "retry", "attempt 1 failed".to_owned());
        // A run that began before the wait, by another clock, is cut.
        add(&mut parts, &mut at, end(12), Duration::from_secs(5), "dead", "attempt 2 failed".to_owned());
        let seen: Vec<_> = parts.iter().map(|part| (part.class, part.length.as_secs())).collect();
        assert_eq!(seen, [("ready", 7), ("retry", 3), ("dead", 2)]);
    }
}
