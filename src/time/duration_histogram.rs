//! A histogram of wait or run times with fixed buckets: [`DurationHistogram`].
//!
//! A worker counts each job in one bucket and sends the counts with its heartbeat. SQL Server adds them up per worker
//! and minute (sql/328_note_history.sql), and readers add them up further. Counts can be added up; percentiles cannot.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::AddAssign;
use std::time::Duration;

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

/// Bucket bounds: 1 ms, 2 ms, and so on to 2^24 ms (4 h 40 min). The last bucket has no upper bound.
pub(crate) const BUCKETS: usize = 26;

const LAST: usize = BUCKETS - 1;

/// How long jobs waited or ran: a histogram with the bounds 1 ms, 2 ms, 4 ms, and so on to 2^24 ms (4 h 40 min). The
/// last bucket has no upper bound.
///
/// `+=` adds up histograms, and the percentiles of the sum are those of all jobs together. The JSON form is an array of
/// the non-empty buckets: `[{"below_s": 0.004, "jobs": 12}]`. `below_s` of the last bucket is null.
///
/// ```
/// use std::time::Duration;
///
/// # fn example(rows: &[readpast::admin::HistoryRow]) -> Option<Duration> {
/// let mut run = readpast::admin::DurationHistogram::default();
/// rows.iter().for_each(|row| run += &row.run);
/// run.percentile(0.95)
/// # }
/// # assert_eq!(example(&[]), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationHistogram([u64; BUCKETS]);

impl DurationHistogram {
    /// The number of jobs counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time that a `share` (0 to 1) of the jobs did not exceed: 0.5 gives the median. `None` if no job was counted.
    ///
    /// The value is interpolated within a bucket, whose bounds are a factor of two apart. For the last bucket it is the
    /// lower bound, 2^24 ms. A `share` outside 0 to 1 is clamped, and NaN counts as 0.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) * count as f64 };
        let mut before = 0;
        for (bucket, &jobs) in self.0.iter().enumerate().filter(|(_, jobs)| **jobs > 0) {
            let up_to = before + jobs;
            if rank <= up_to as f64 || up_to == count {
                let lower = lower_bound(bucket);
                let width = upper_bound(bucket).map_or(Duration::ZERO, |upper| upper - lower);
                return Some(lower + width.mul_f64((rank - before as f64) / jobs as f64));
            }
            before = up_to;
        }
        None
    }

    /// Returns each bucket's upper bound and number of jobs, shortest times first, including empty buckets. The last
    /// bucket has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        self.0.iter().enumerate().map(|(bucket, jobs)| (upper_bound(bucket), *jobs))
    }

    pub(crate) fn of(counts: [u64; BUCKETS]) -> DurationHistogram {
        DurationHistogram(counts)
    }

    pub(crate) fn since(&self, before: &DurationHistogram) -> DurationHistogram {
        DurationHistogram(std::array::from_fn(|bucket| self.0[bucket] - before.0[bucket]))
    }
}

impl AddAssign<&DurationHistogram> for DurationHistogram {
    fn add_assign(&mut self, other: &DurationHistogram) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, jobs)| *sum += jobs);
    }
}

impl Serialize for DurationHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Bucket {
            below_s: Option<f64>,
            jobs: u64,
        }
        let mut buckets = serializer.serialize_seq(None)?;
        for (below, jobs) in self.buckets().filter(|(_, jobs)| *jobs > 0) {
            buckets.serialize_element(&Bucket { below_s: below.map(|below| below.as_secs_f64()), jobs })?;
        }
        buckets.end()
    }
}

pub(crate) fn bucket(time: Duration) -> usize {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    ((u64::BITS - ms.leading_zeros()) as usize).min(LAST)
}

fn lower_bound(bucket: usize) -> Duration {
    Duration::from_millis(if bucket == 0 { 0 } else { 1 << (bucket - 1) })
}

fn upper_bound(bucket: usize) -> Option<Duration> {
    (bucket < LAST).then(|| Duration::from_millis(1 << bucket))
}

/// Encodes the times for heartbeats and `history` (sql/320_heartbeat.sql).
pub(crate) fn to_json(wait: &DurationHistogram, run: &DurationHistogram) -> String {
    let mut json = String::from("{");
    for (letter, times) in [('w', wait), ('r', run)] {
        for (bucket, jobs) in times.0.iter().enumerate().filter(|(_, jobs)| **jobs > 0) {
            let comma = if json.len() > 1 { "," } else { "" };
            let _ = write!(json, "{comma}\"{letter}{bucket}\":{jobs}");
        }
    }
    json.push('}');
    json
}

/// Decodes wait and run times from `history`. Unknown buckets are ignored.
pub(crate) fn of_json(counts: &HashMap<String, u64>) -> (DurationHistogram, DurationHistogram) {
    let times = |letter: char| {
        let jobs = |bucket: usize| counts.get(&format!("{letter}{bucket}")).copied().unwrap_or(0);
        DurationHistogram(std::array::from_fn(jobs))
    };
    (times('w'), times('r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(jobs: &[(u64, u64)]) -> DurationHistogram {
        let mut times = DurationHistogram::default();
        for (ms, count) in jobs {
            times.0[bucket(Duration::from_millis(*ms))] += count;
        }
        times
    }

    #[test]
    fn a_time_is_counted_below_the_next_power_of_two() {
        let below = |time| {
            let mut times = DurationHistogram::default();
            times.0[bucket(time)] = 1;
            times.buckets().find(|(_, jobs)| *jobs == 1).unwrap().0
        };
        let ms = Duration::from_millis;
        assert_eq!(below(Duration::ZERO), Some(ms(1)));
        assert_eq!(below(Duration::from_micros(999)), Some(ms(1)));
        assert_eq!(below(ms(1)), Some(ms(2)));
        assert_eq!(below(ms(4)), Some(ms(8)));
        assert_eq!(below(Duration::from_micros(7_999)), Some(ms(8)));
        assert_eq!(below(ms((1 << 24) - 1)), Some(ms(1 << 24)));
        assert_eq!(below(ms(1 << 24)), None);
        assert_eq!(below(Duration::MAX), None);
    }

    #[test]
    fn percentiles_lie_in_their_bucket_as_if_its_jobs_were_spread_evenly() {
        let ms = Duration::from_millis;
        assert_eq!(DurationHistogram::default().percentile(0.5), None);
        let one = times(&[(5, 10)]);
        assert_eq!(one.percentile(0.0), Some(ms(4)));
        assert_eq!(one.percentile(0.5), Some(ms(6)));
        assert_eq!(one.percentile(1.0), Some(ms(8)));
        let two = times(&[(0, 90), (100, 10)]);
        assert_eq!(two.percentile(0.45), Some(Duration::from_micros(500)));
        assert_eq!(two.percentile(0.9), Some(ms(1)));
        assert_eq!(two.percentile(0.95), Some(ms(96)));
        let long = times(&[(1 << 30, 3)]);
        assert_eq!(long.percentile(0.99), Some(ms(1 << 24)), "nothing is known but that it took as long");
    }

    #[test]
    fn a_share_that_cannot_be_is_taken_for_the_nearest_that_can() {
        let one = times(&[(5, 10)]);
        assert_eq!(one.percentile(-1.0), one.percentile(0.0));
        assert_eq!(one.percentile(7.0), one.percentile(1.0));
        assert_eq!(one.percentile(f64::NAN), one.percentile(0.0));
    }

    #[test]
    fn times_that_are_added_up_are_those_of_all_their_jobs() {
        let mut sum = times(&[(0, 1), (3, 2)]);
        sum += &times(&[(3, 5), (1 << 40, 1)]);
        assert_eq!(sum, times(&[(0, 1), (3, 7), (1 << 40, 1)]));
        assert_eq!((sum.count(), sum.since(&times(&[(3, 7)]))), (9, times(&[(0, 1), (1 << 40, 1)])));
    }

    #[test]
    fn the_text_for_sql_server_brings_them_back_and_has_room_in_its_column() {
        let (wait, run) = (times(&[(0, 3), (1 << 40, 1)]), times(&[(4, 7)]));
        let json = to_json(&wait, &run);
        assert_eq!(json, r#"{"w0":3,"w25":1,"r3":7}"#);
        assert_eq!(of_json(&serde_json::from_str(&json).unwrap()), (wait, run));
        assert_eq!(to_json(&DurationHistogram::default(), &DurationHistogram::default()), "{}");
        let most = DurationHistogram([i64::MAX as u64; BUCKETS]);
        assert!(to_json(&most, &most).len() <= 1_400, "varchar(1400) in sql/");
    }

    #[test]
    fn as_json_it_is_its_buckets() {
        let json = serde_json::to_string(&times(&[(3, 12), (1 << 40, 1)])).unwrap();
        assert_eq!(json, r#"[{"below_s":0.004,"jobs":12},{"below_s":null,"jobs":1}]"#);
    }
}
