//! Reading jobs.

use super::admin::Admin;
use std::slice;

use crate::error::Error;
use crate::id::{BatchId, JobId};
use crate::job::JobState;
use crate::procedures::operator::{
    FailedAttempt, IDS, IdPage, JobCursor, JobEdges, JobFilter, JobGraph, JobLog, JobPage, JobProgress, JobRow,
    Listing, ROWS,
};

impl Admin<'_> {
    /// Returns the queue that a job is in, or was in before it was archived, or `None` if the schema has no such job.
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// [`Error::PermissionDenied`] for a worker.
    pub async fn queue_of(self, job_id: JobId) -> Result<Option<String>, Error> {
        self.session().await?.find_job(job_id).await
    }

    /// Returns up to `max` jobs that match `filter`. Never blocks: locked jobs are left out. For the next page, pass
    /// [`JobPage::next`] as `after`.
    ///
    /// Ready jobs are in claim order, scheduled jobs by due time, claimed jobs by id, all others by the time they
    /// finished ([`JobFilter::newest_first`]: latest first). A page costs SQL Server only its own rows, at any depth.
    /// If the filter has no state, SQL Server reads up to 10,000 rows for a page, and the page may be short or empty
    /// although there is a next one. A page ends before its payloads and outputs exceed 64 MiB; a larger job has a page
    /// of its own. A job whose state changes between two pages can be missed or returned twice.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue) -> Result<(), readpast::Error> {
    /// use readpast::admin::{JobFilter, JobState};
    ///
    /// let filter = JobFilter::from(JobState::Dead).kind("resize");
    /// let mut after = None;
    /// loop {
    ///     let page = queue.admin().list(&filter, after.as_ref(), 100).await?;
    ///     for job in &page.jobs {
    ///         println!("{} {}", job.job_id, job.error.as_deref().unwrap_or_default());
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     after = Some(next);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer; [`Error::Refused`] if `after` comes from a
    /// list of another state, or if a condition does not exist for the filter's state ([`JobFilter::newest_first`],
    /// [`JobFilter::worker`]).
    pub async fn list(self, filter: &JobFilter, after: Option<&JobCursor>, max: usize) -> Result<JobPage, Error> {
        let (jobs, next) = self.page(&ROWS, filter, after, max).await?;
        Ok(JobPage { jobs, next })
    }

    /// Same as [`list`](crate::admin::Admin::list), but returns only the ids.
    ///
    /// # Errors
    ///
    /// Same as [`list`](crate::admin::Admin::list).
    pub async fn list_ids(self, filter: &JobFilter, after: Option<&JobCursor>, max: usize) -> Result<IdPage, Error> {
        let (jobs, next) = self.page(&IDS, filter, after, max).await?;
        Ok(IdPage { jobs, next })
    }

    async fn page<T>(
        self,
        shown: &Listing<T>,
        filter: &JobFilter,
        after: Option<&JobCursor>,
        max: usize,
    ) -> Result<(Vec<T>, Option<JobCursor>), Error> {
        let states = filter.state.as_ref().map_or(JobState::ALL, slice::from_ref);
        let (begin, mut place) = match after {
            None => (0, None),
            Some(JobCursor { state, after }) => {
                let begin = states.iter().position(|listed| listed == state).ok_or_else(|| Error::Refused {
                    message: format!("a page of {} jobs cannot start from a cursor of {} jobs", states[0], state),
                })?;
                (begin, after.clone())
            }
        };
        let mut session = self.session().await?;
        let mut page = (Vec::new(), None);
        for (index, state) in states.iter().enumerate().skip(begin) {
            let (jobs, next) =
                session.peek(self.queue.name(), *state, filter, place.take().as_ref(), max, shown).await?;
            let next_state = states.get(index + 1).map(|state| JobCursor { state: *state, after: None });
            let is_last = jobs.is_empty() && next.is_none();
            page = (jobs, next.map(|place| JobCursor { state: *state, after: Some(place) }).or(next_state));
            if !is_last {
                break; // otherwise this state has no more jobs
            }
        }
        Ok(page)
    }

    /// Returns one job in any state, archived ones included, or `None` if the queue does not have it or it is locked.
    /// Never blocks.
    ///
    /// With `cut_at`, only this many bytes of payload and output are read; [`JobRow::payload_bytes`] and
    /// [`JobRow::output_bytes`] are the full sizes.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn job(self, job_id: JobId, cut_at: Option<usize>) -> Result<Option<JobRow>, Error> {
        self.session().await?.peek_one(self.queue.name(), job_id, cut_at).await
    }

    /// Returns the jobs that a job waits for ([`NewJob::after`](crate::NewJob::after)) and the jobs that wait for it: up to
    /// `max` of each, 1 to 1,000; there may be more if there are as many. Edges are kept as long as the waiting job. Never
    /// blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if `max` is out of range; [`Error::PermissionDenied`] for a producer.
    pub async fn edges(self, job_id: JobId, max: usize) -> Result<JobEdges, Error> {
        self.session().await?.edges(job_id, max).await
    }

    /// Returns the graph of a job: the jobs that it waits for, those that wait for it, and so on, in both directions, up to
    /// `max` jobs (1 to 1,000), the nearest ones. Jobs whose rows are gone are included as long as others waited for them.
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if `max` is out of range; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn graph(self, job_id: JobId, max: usize) -> Result<JobGraph, Error> {
        self.session().await?.graph(Some(job_id), None, max).await
    }

    /// Same as [`graph`](crate::admin::Admin::graph), for the unfinished jobs of a batch and all jobs that are connected
    /// with them.
    ///
    /// # Errors
    ///
    /// As [`graph`](crate::admin::Admin::graph).
    pub async fn batch_graph(self, batch: BatchId, max: usize) -> Result<JobGraph, Error> {
        self.session().await?.graph(None, Some(batch), max).await
    }

    /// Returns the progress that running or finished jobs have reported
    /// ([`Context::progress`](crate::handler::Context::progress)), in no particular order. Jobs that have reported
    /// nothing are left out. Never blocks. Progress appears here about a second after a job reports it.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn progress_of(self, jobs: &[JobId]) -> Result<Vec<JobProgress>, Error> {
        self.session().await?.progress_of(self.queue.name(), jobs).await
    }

    /// Returns the failed attempts of a job, the oldest first, each with its worker, error and run time. The newest 20
    /// are kept as long as the job: with [`CompletionPolicy::Delete`](crate::admin::CompletionPolicy::Delete) they are
    /// deleted when the job is done. A queue with [`Delivery::AtMostOnce`](crate::admin::Delivery::AtMostOnce) keeps
    /// none. Never blocks: an attempt that is being finished at the moment is left out.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// for attempt in queue.admin().attempts(job_id).await? {
    ///     println!("{} on {}: {}", attempt.attempt, attempt.worker, attempt.error.unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::PermissionDenied`] for a producer.
    pub async fn attempts(self, job_id: JobId) -> Result<Vec<FailedAttempt>, Error> {
        self.session().await?.attempts(self.queue.name(), job_id).await
    }

    /// Returns the logs of a job's newest attempts, up to `max` (1 to 20), the newest first. Which attempts have one is up
    /// to the worker's `keep_log`; for a running attempt, it contains what its worker has reported so far, about once a second
    /// ([`JobLog::since`] shows how to follow it). Reads without locks.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`]; [`Error::Refused`] for another `max`; [`Error::PermissionDenied`] for a producer.
    pub async fn logs(self, job_id: JobId, max: usize) -> Result<Vec<JobLog>, Error> {
        self.session().await?.job_logs(self.queue.name(), job_id, max).await
    }
}
