//! Counts how the runs of each kind ended and what they used, until they are reported to SQL Server.
//!
//! The counts are those of sql/091_kind_history.sql. A run costs a few additions when its finish is confirmed. Kinds come
//! from producers, so only some of them are counted by name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::job::Usage;
use crate::procedures::worker::KindCount;

/// The most kinds that are counted by name, as in an hour of kind_history.
pub(super) const MOST_NAMED: usize = 50;

/// The name of the others. No kind begins with a space.
const OTHER_KINDS: &str = " other kinds";

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
    unsent: Mutex<Vec<Vec<KindCount>>>,
}

impl KindTally {
    /// Counts runs: the kind, how the run ended, its run time, and what it used. Nothing is counted of the end if the
    /// job was snoozed or cancelled.
    pub(in crate::worker) fn add<'a>(
        &self,
        runs: impl IntoIterator<Item = (Option<&'a str>, Option<RunEnd>, Duration, Usage)>,
    ) {
        let mut counts = self.counts.lock();
        runs.into_iter().for_each(|(kind, end, run, usage)| counts.add(kind, end, run, usage));
    }

    /// Returns whether there is anything to send. New counts are only looked at when the earlier ones were sent.
    pub(in crate::worker) fn has_unsent(&self) -> bool {
        let mut unsent = self.unsent.lock();
        if unsent.is_empty() {
            let counts = std::mem::take(&mut *self.counts.lock());
            *unsent = counts.rows().chunks(BATCH).map(<[KindCount]>::to_vec).collect();
        }
        !unsent.is_empty()
    }

    /// Takes a list to send. It is lost unless it is sent or put back.
    pub(in crate::worker) fn take_unsent(&self) -> Option<Vec<KindCount>> {
        self.unsent.lock().pop()
    }

    pub(in crate::worker) fn put_back(&self, counts: Vec<KindCount>) {
        self.unsent.lock().push(counts);
    }
}

/// The counts of all kinds. First the runs without a kind, then those of the other kinds, then those of each kind with a
/// name.
struct KindCounts {
    kinds: Vec<[Buckets; MEASURES]>,
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    /// The place of the previous run: it is often the next one's, too, which then costs no hash.
    last: usize,
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
        KindCounts {
            kinds: vec![Default::default(); OTHERS + 1],
            names: vec!["".into(), OTHER_KINDS.into()],
            places: HashMap::new(),
            last: WITHOUT_KIND,
        }
    }
}

impl KindCounts {
    fn add(&mut self, kind: Option<&str>, end: Option<RunEnd>, run: Duration, usage: Usage) {
        if end.is_none() && usage == Usage::default() {
            return;
        }
        let place = self.place(kind);
        let measures = &mut self.kinds[place];
        let ran = Value::new(micros(run));
        if let Some(end) = end {
            add(&mut measures[end as usize], ran);
        }
        if let Some(cpu) = usage.cpu {
            add(&mut measures[CPU], if cpu == run { ran } else { Value::new(micros(cpu)) });
        }
        if let Some(bytes) = usage.peak_memory {
            add(&mut measures[PEAK_MEMORY], Value::new(bytes));
        }
    }

    fn place(&mut self, kind: Option<&str>) -> usize {
        let kind = name_in_history(kind);
        if kind.is_empty() {
            return WITHOUT_KIND;
        }
        if *self.names[self.last] != *kind {
            self.last = self.places.get(kind).copied().unwrap_or_else(|| self.place_of_new(kind));
        }
        self.last
    }

    fn place_of_new(&mut self, kind: &str) -> usize {
        if self.places.len() == MOST_NAMED {
            return OTHERS;
        }
        let (place, name) = (self.kinds.len(), Arc::<str>::from(kind));
        self.kinds.push(Default::default());
        self.names.push(name.clone());
        self.places.insert(name, place);
        place
    }

    fn rows(self) -> Vec<KindCount> {
        let mut rows = Vec::new();
        for (kind, measures) in self.names.iter().zip(&self.kinds) {
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

/// The kind's name in kind_history: empty without one.
pub(super) fn name_in_history(kind: Option<&str>) -> &str {
    // SQL Server ignores spaces at the end, which only kinds of adopted tables have.
    kind.map_or("", |kind| kind.trim_matches(' '))
}

fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(time.subsec_micros()))
}

/// A value, and the bucket in which it counts.
#[derive(Clone, Copy)]
struct Value {
    value: u64,
    bucket: usize,
}

impl Value {
    fn new(value: u64) -> Value {
        let value = value.min(LARGEST);
        Value { value, bucket: bucket(value) }
    }
}

fn add(buckets: &mut Buckets, Value { value, bucket }: Value) {
    if bucket >= buckets.len() {
        buckets.resize(bucket + 1, Bucket::default());
    }
    let bucket = &mut buckets[bucket];
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

    #[test]
    fn however_many_kinds_there_are_fifty_have_a_name_and_none_is_lost() {
        let tally = KindTally::default();
        let usage = Usage { cpu: None, peak_memory: Some(u64::MAX) };
        for number in 0..2_000 {
            // Nothing is counted of the first, so that it takes no name.
            tally.add([(Some(&*format!("snoozed{number}")), None, Duration::MAX, Usage::default())]);
            tally.add([(Some(&*format!("kind{number}")), Some(RunEnd::Done), Duration::MAX, usage)]);
        }
        tally.add([(None, None, Duration::ZERO, usage)]);
        let rows = rows(&tally);
        let jobs = |measure| rows.iter().filter(|row| row.measure == measure).map(|row| row.jobs).sum::<i64>();
        assert_eq!((jobs(1), jobs(5)), (2_000, 2_001));
        assert_eq!(rows.len(), 2 * (MOST_NAMED + 1) + 1);
        assert!(rows.iter().all(|row| row.largest == LARGEST as i64));
        assert_eq!(rows.iter().find(|row| &*row.kind == OTHER_KINDS).map(|row| row.jobs), Some(1_950));
        assert!(!tally.has_unsent(), "they are sent once");
    }

    /// As SQL Server sees them, so that no call has a row twice.
    #[test]
    fn spaces_around_a_kind_do_not_count() {
        let tally = KindTally::default();
        let kinds = ["a", "b", " a", "a ", " ", " other kinds"];
        tally.add(kinds.map(|kind| (Some(kind), Some(RunEnd::Done), Duration::ZERO, Usage::default())));
        let counts: Vec<_> = rows(&tally).into_iter().map(|row| (row.kind.to_string(), row.jobs)).collect();
        assert_eq!(
            counts,
            [("", 1), ("a", 3), ("b", 1), ("other kinds", 1)].map(|(kind, jobs)| (kind.to_owned(), jobs))
        );
    }

    fn rows(tally: &KindTally) -> Vec<KindCount> {
        assert!(tally.has_unsent());
        std::iter::from_fn(|| tally.take_unsent()).flatten().collect()
    }
}
