//! Failed jobs, grouped by their errors.

use super::admin::Admin;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::SystemTime;

use serde::Serialize;

use crate::error::{Error, GAP, grouping_key};
use crate::handler::is_for_other_workers;
use crate::id::JobId;
use crate::job::JobState;
use crate::procedures::operator::FailedJob;
use crate::time::json_time_of;

/// The reasons why jobs of a queue have failed, from [`Admin::failures`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Failures {
    /// How many jobs were read. If it is the requested number, there may be more.
    pub looked_at: u64,
    /// The groups of similar errors, the largest first. Groups of equal size are sorted by their last failure, the
    /// latest first.
    pub groups: Vec<FailureGroup>,
}

/// Jobs with similar errors. The JSON form has the times in RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailureGroup {
    /// The common part of the errors, up to 200 characters: the first line, and the following lines as long as each
    /// line ends in a colon. Numbers (except exit codes and signals), hexadecimal ids, GUIDs and quoted parts are
    /// replaced by `…`. Empty for jobs without an error.
    pub pattern: String,
    /// The number of jobs.
    pub count: u64,
    /// When the first of these jobs failed, by SQL Server's clock.
    #[serde(serialize_with = "json_time_of")]
    pub first_at: SystemTime,
    /// When the last of these jobs failed.
    #[serde(serialize_with = "json_time_of")]
    pub last_at: SystemTime,
    /// The job that failed last.
    pub example: JobId,
    /// The first 400 characters of its error.
    pub example_error: String,
    /// The kinds of the jobs, each once, in alphabetical order; jobs without a kind add none.
    pub kinds: Vec<String>,
}

impl FailureGroup {
    /// Returns the longest literal part of the pattern.
    /// [`JobFilter::error`](crate::procedures::operator::JobFilter::error) with this text finds the jobs of the group,
    /// and perhaps other jobs. Empty if the pattern has no literal text.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::{JobFilter, JobState};
    ///
    /// for group in queue.admin().failures(10_000).await?.groups {
    ///     let like_these = JobFilter::from(JobState::Dead).error(group.search_text()).newest_first();
    ///     let page = queue.admin().list(&like_these, None, 20).await?;
    ///     println!("{} times {}; the newest: {:?}", group.count, group.pattern, page.jobs.first().map(|job| job.job_id));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn search_text(&self) -> &str {
        let parts = self.pattern.split([GAP, '\r', '\n']).map(str::trim);
        parts.max_by_key(|part| part.chars().count()).unwrap_or_default()
    }

    /// Whether the workers that claimed these jobs could not run them: they have no handler for the kind, or less than the
    /// jobs need. Such a worker postpones a job so that another one can claim it, for a day
    /// (`worker.unknown_kind_keep_ms`); then the job is dead. Whether another worker can run the job is not known.
    pub fn was_put_off_for_other_workers(&self) -> bool {
        is_for_other_workers(&self.example_error)
    }
}

pub(crate) fn group(jobs: Vec<FailedJob>) -> Failures {
    let looked_at = jobs.len() as u64;
    let mut by_pattern: HashMap<String, FailureGroup> = HashMap::new();
    for job in jobs {
        let error = job.error.unwrap_or_default();
        let pattern = grouping_key(&error);
        let group = by_pattern.entry(pattern).or_insert_with_key(|pattern| FailureGroup {
            pattern: pattern.clone(),
            count: 0,
            first_at: job.failed_at,
            last_at: job.failed_at,
            example: job.job_id,
            example_error: String::new(),
            kinds: Vec::new(),
        });
        if group.count == 0 || (job.failed_at, job.job_id) > (group.last_at, group.example) {
            (group.last_at, group.example, group.example_error) = (job.failed_at, job.job_id, error);
        }
        group.first_at = group.first_at.min(job.failed_at);
        group.count += 1;
        if let Some(kind) = job.kind
            && let Err(place) = group.kinds.binary_search(&kind)
        {
            group.kinds.insert(place, kind);
        }
    }
    let mut groups: Vec<FailureGroup> = by_pattern.into_values().collect();
    groups.sort_by_key(|group| Reverse((group.count, group.last_at, group.example)));
    Failures { looked_at, groups }
}

impl Admin<'_> {
    /// Groups the dead jobs of the queue by their errors: reads the `newest` of them, 1 to 100,000, and groups those
    /// whose errors differ only in numbers, ids and quoted parts. 10,000 is a good number: each job costs SQL Server a
    /// row, read without locks, and up to 1 KB of memory here.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// let failures = queue.admin().failures(10_000).await?;
    /// println!("of the {} jobs that died last:", failures.looked_at);
    /// for group in &failures.groups {
    ///     println!("{} {} (job {}: {})", group.count, group.pattern, group.example, group.example_error);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if `newest` is out of range; [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a
    /// producer or a worker.
    pub async fn failures(self, newest: usize) -> Result<Failures, Error> {
        Ok(group(self.session().await?.failures(self.queue.name(), JobState::Dead, newest).await?))
    }

    /// Same as [`failures`](crate::admin::Admin::failures), for jobs that wait for a retry or were snoozed with a
    /// reason: reads the `next` scheduled jobs that are due first, 1 to 100,000, and groups those that have an error.
    ///
    /// # Errors
    ///
    /// Same as [`failures`](crate::admin::Admin::failures).
    pub async fn failures_to_retry(self, next: usize) -> Result<Failures, Error> {
        Ok(group(self.session().await?.failures(self.queue.name(), JobState::Scheduled, next).await?))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(id: i64, second: u64, kind: Option<&str>, error: &str) -> FailedJob {
        FailedJob {
            job_id: JobId(id),
            kind: kind.map(str::to_owned),
            failed_at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
            error: Some(error.to_owned()),
        }
    }

    #[test]
    fn the_most_frequent_come_first_and_then_the_latest() {
        let failures = group(vec![
            failed(1, 5, None, "twice 7"),
            failed(2, 9, Some("mail"), "twice 8"),
            failed(3, 3, None, "once, early"),
            failed(4, 4, None, "once, late"),
        ]);
        let patterns: Vec<&str> = failures.groups.iter().map(|group| &group.pattern[..]).collect();
        assert_eq!(patterns, ["twice …", "once, late", "once, early"]);
        assert_eq!(failures.looked_at, 4);
    }

    #[test]
    fn a_group_has_its_times_its_kinds_and_its_newest_job_whatever_the_order() {
        let jobs = [(1, 5, Some("mail")), (4, 9, Some("bill")), (3, 9, None), (2, 1, Some("mail"))];
        for turn in 0..jobs.len() {
            let mut jobs = jobs;
            jobs.rotate_left(turn);
            let rows = jobs.map(|(id, second, kind)| failed(id, second, kind, &format!("no file {id}")));
            let groups = group(rows.into()).groups;
            let [only] = &groups[..] else { panic!("one group: {groups:?}") };
            let at = |second| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            assert_eq!((only.count, only.first_at, only.last_at), (4, at(1), at(9)));
            assert_eq!((only.example, &only.example_error[..]), (JobId(4), "no file 4"));
            assert_eq!(only.kinds, ["bill", "mail"]);
        }
    }

    #[test]
    fn the_text_to_search_for_is_the_longest_part_without_a_gap() {
        let text = |error: &str| group(vec![failed(1, 1, None, error)]).groups[0].search_text().to_owned();
        assert_eq!(text("job 7 cannot open 'x' here"), "cannot open '");
        assert_eq!(text("failed:\n  no room on 7"), "no room on");
        assert_eq!(text("7"), "");
        assert_eq!(text(""), "");
    }
}
