//! The last hour of all queues together: what came in and went out, and the busiest kinds.

use std::time::{Duration, Instant};

use readpast::Queue;
use readpast::admin::{HistoryRow, KindRow};
use tokio::time::timeout;

use crate::chart::{self, Span, Step, Sum};

/// How many queues' kinds are read, with one call per queue; the busiest first.
const QUEUES: usize = 20;

/// Time limit for all kinds, because the next depths wait for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Kinds kept.
const KINDS: usize = 10;

#[derive(Debug, Default)]
pub struct LastHour {
    /// One step per minute; empty if there is no history.
    pub steps: Vec<Step>,
    /// The kinds with the most attempts.
    pub kinds: Vec<BusyKind>,
    /// The kinds of some queues were not read.
    pub is_partial: bool,
}

#[derive(Debug)]
pub struct BusyKind {
    pub queue: String,
    pub row: KindRow,
}

impl BusyKind {
    fn attempts(&self) -> u64 {
        self.row.done + self.row.failed + self.row.died
    }
}

impl LastHour {
    /// `rows` are the history of all queues, by queue and time.
    pub async fn read(queue: &Queue, rows: &[HistoryRow]) -> LastHour {
        let (steps, busy) = steps(rows);
        let begun = Instant::now();
        let (mut kinds, mut read) = (Vec::new(), 0);
        for name in busy.iter().take(QUEUES) {
            // The queue may just have been deleted. An error must not hide the other queues' kinds.
            let Ok(queue) = queue.named(name) else { continue };
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let Ok(rows) = timeout(left, queue.admin().kinds(Span::Hour.length())).await else { break };
            read += 1;
            let rows = rows.unwrap_or_default();
            let named = rows.into_iter().filter(|row| !row.is_other);
            kinds.extend(named.map(|row| BusyKind { queue: (*name).to_owned(), row }));
        }
        kinds.retain(|kind| kind.attempts() > 0);
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.attempts()));
        kinds.truncate(KINDS);
        LastHour { steps, kinds, is_partial: read < busy.len() }
    }
}

/// The minutes of all queues together, and the queues with attempts, the busiest first.
fn steps(rows: &[HistoryRow]) -> (Vec<Step>, Vec<&str>) {
    let Some(last) = rows.iter().map(|row| row.at).max() else { return Default::default() };
    let (length, minute) = (Span::Hour.length(), Span::Hour.step());
    let mut all: Vec<Step> = Vec::new();
    // Jobs that came in, where a queue's depth a minute before is known. Negative where a depth and the reports of workers
    // are from different times.
    let mut grown: Vec<Option<i64>> = Vec::new();
    let mut busy: Vec<(u64, &str)> = Vec::new();
    for rows in rows.chunk_by(|a, b| a.queue == b.queue) {
        // One more minute, to compare the first one with.
        let steps = chart::parts(rows, last, length + minute, minute);
        let mut before: Option<(usize, &Sum)> = None;
        let mut attempts = 0;
        if all.is_empty() {
            all = steps.iter().map(|step| Step { at: step.at, sum: Some(Sum::default()) }).collect();
            grown = vec![None; all.len()];
        }
        for (index, step) in steps.iter().enumerate() {
            // Without a report, the depth is assumed to be unchanged.
            let known = step.sum.as_ref().or(before.map(|(_, sum)| sum));
            let (Some(sum), Some(known)) = (&mut all[index].sum, known) else { continue };
            sum.depth += known.depth;
            sum.dead += known.dead;
            let Some(reported) = &step.sum else { continue };
            sum.length = minute;
            sum.done += reported.done;
            sum.failed += reported.failed;
            sum.died += reported.died;
            attempts += reported.done + reported.failed;
            if let Some((_, before)) = before.filter(|(place, _)| place + 1 == index) {
                let came = (reported.depth + reported.done + reported.died) as i64 - before.depth as i64;
                *grown[index].get_or_insert(0) += came;
            }
            before = Some((index, reported));
        }
        if attempts > 0 {
            busy.push((attempts, &rows[0].queue));
        }
    }
    for (step, grown) in all.iter_mut().zip(grown) {
        // A gap: no queue's workers have reported.
        step.sum = step.sum.take().filter(|sum| !sum.length.is_zero());
        if let Some(sum) = &mut step.sum {
            sum.enqueued = grown.map(|grown| grown.max(0).unsigned_abs());
        }
    }
    all.remove(0);
    busy.sort_by_key(|(attempts, name)| (std::cmp::Reverse(*attempts), *name));
    (all, busy.into_iter().map(|(_, name)| name).collect())
}
