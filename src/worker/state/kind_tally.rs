//! Counts how the runs of each kind ended and what they used, until they are reported to SQL Server.
//!
//! The counts are those of sql/091_kind_history.sql. A run costs a few additions when its finish is confirmed. Kinds come
//! from producers, so only some of them are counted by name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::job::Usage;
use crate::procedures::worker::KindCount;

/// The most kinds that are counted by name, as in an hour of kind_history.
const MOST_NAMED: usize = 50;

/// The name of the others.
const OTHER_KINDS: &str = "other kinds";

/// The most rows that one call sends.
const BATCH: usize = 1_000;

/// Larger values count as this one: 10^15 bytes, or 31 years in microseconds.
const LARGEST: u64 = 1_000_000_000_000_000;

const MEASURES: usize = 5;
/// The first three measures are run times by [`RunEnd`].
const CPU: usize = 3;
const PEAK_MEMORY: usize = 4;

/// How a run ended that counts.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) enum RunEnd {
    Done,
    Failed,
    Died,
}

#[derive(Default)]
pub(in crate::worker) struct KindTally {
    counts: Mutex<KindCounts>,
    /// Counts that are to be sent before newer ones, in lists for one call each.
    unsent: tokio::sync::Mutex<Vec<Vec<KindCount>>>,
}

impl KindTally {
    pub(in crate::worker) fn counts(&self) -> MutexGuard<'_, KindCounts> {
        self.counts.lock()
    }

    /// The lists to send. While the guard is held, nothing else is sent. A list that is being sent must be removed
    /// before, so that it is not sent twice.
    pub(in crate::worker) async fn unsent(&self) -> tokio::sync::MutexGuard<'_, Vec<Vec<KindCount>>> {
        let mut unsent = self.unsent.lock().await;
        if unsent.is_empty() {
            let rows = std::mem::take(&mut *self.counts()).rows();
            *unsent = rows.chunks(BATCH).map(<[KindCount]>::to_vec).collect();
        }
        unsent
    }
}

/// The counts of all kinds.
pub(in crate::worker) struct KindCounts {
    /// First the runs without a kind, then those of the other kinds, then those of each kind with a place.
    kinds: Vec<[Buckets; MEASURES]>,
    places: HashMap<Arc<str>, usize>,
}

/// By [`bucket`], as far as there are values.
type Buckets = Vec<Bucket>;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    jobs: i64,
    total: f64,
    largest: u64,
}

const WITHOUT_KIND: usize = 0;
const OTHERS: usize = 1;

impl Default for KindCounts {
    fn default() -> KindCounts {
        KindCounts { kinds: vec![Default::default(); OTHERS + 1], places: HashMap::new() }
    }
}

impl KindCounts {
    /// Counts a run. `end` is `None` if the job was snoozed or cancelled.
    pub(in crate::worker) fn add(&mut self, kind: Option<&str>, end: Option<RunEnd>, run: Duration, usage: Usage) {
        let place = match kind {
            None => WITHOUT_KIND,
            Some(kind) => self.places.get(kind).copied().unwrap_or_else(|| self.place_of_new(kind)),
        };
        let measures = &mut self.kinds[place];
        if let Some(end) = end {
            add(&mut measures[end as usize], micros(run));
        }
        if let Some(cpu) = usage.cpu {
            add(&mut measures[CPU], micros(cpu));
        }
        if let Some(bytes) = usage.peak_memory {
            add(&mut measures[PEAK_MEMORY], bytes);
        }
    }

    fn place_of_new(&mut self, kind: &str) -> usize {
        if self.places.len() == MOST_NAMED {
            return OTHERS;
        }
        self.kinds.push(Default::default());
        let place = self.kinds.len() - 1;
        self.places.insert(kind.into(), place);
        place
    }

    fn rows(self) -> Vec<KindCount> {
        let mut names: Vec<Arc<str>> = vec!["".into(), OTHER_KINDS.into()];
        names.resize(self.kinds.len(), "".into());
        self.places.into_iter().for_each(|(kind, place)| names[place] = kind);
        let mut rows = Vec::new();
        for (kind, measures) in names.iter().zip(&self.kinds) {
            for (measure, buckets) in (1..).zip(measures) {
                for (bucket, Bucket { jobs, total, largest }) in
                    (0..).zip(buckets).filter(|(_, bucket)| bucket.jobs > 0)
                {
                    let (kind, largest) = (kind.clone(), *largest as i64);
                    rows.push(KindCount { kind, measure, bucket, jobs: *jobs, total: *total, largest });
                }
            }
        }
        rows
    }
}

fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(time.subsec_micros()))
}

fn add(buckets: &mut Buckets, value: u64) {
    let value = value.min(LARGEST);
    let place = bucket(value);
    if place >= buckets.len() {
        buckets.resize(place + 1, Bucket::default());
    }
    let bucket = &mut buckets[place];
    bucket.jobs += 1;
    bucket.total += value as f64;
    bucket.largest = bucket.largest.max(value);
}

/// 0 for 0, and two buckets for each power of two.
fn bucket(value: u64) -> usize {
    let power = value.checked_ilog2().map_or(0, |power| power as usize + 1);
    2 * power + usize::from(power > 1 && value >> (power - 2) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_half_a_power_of_two_and_all_fit_into_their_column() {
        let bounds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16].map(bucket);
        assert_eq!(bounds, [0, 2, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10]);
        assert!(u8::try_from(bucket(LARGEST)).is_ok());
    }

    #[tokio::test]
    async fn however_many_kinds_there_are_fifty_have_a_name_and_none_is_lost() {
        let tally = KindTally::default();
        let usage = Usage { cpu: None, peak_memory: Some(u64::MAX) };
        for number in 0..2_000 {
            tally.counts().add(Some(&format!("kind{number}")), Some(RunEnd::Done), Duration::MAX, usage);
        }
        tally.counts().add(None, None, Duration::ZERO, usage);
        let lists = tally.unsent().await.clone();
        let rows: Vec<KindCount> = lists.concat();
        let jobs = |measure| rows.iter().filter(|row| row.measure == measure).map(|row| row.jobs).sum::<i64>();
        assert_eq!((jobs(1), jobs(5)), (2_000, 2_001));
        assert_eq!(rows.len(), 2 * (MOST_NAMED + 1) + 1);
        assert!(rows.iter().all(|row| row.largest == LARGEST as i64));
        assert_eq!(rows.iter().find(|row| &*row.kind == OTHER_KINDS).map(|row| row.jobs), Some(1_950));
        assert!(tally.counts().kinds.iter().flatten().all(Vec::is_empty), "they are sent once");
    }
}
