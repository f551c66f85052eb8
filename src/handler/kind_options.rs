//! Options for the jobs of one kind.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{OutOfMemory, RetryConfig};
use crate::error::Error;
use crate::job::{Needs, START_WITHIN};
use crate::time::TEN_YEARS;

use super::shared_limit::SharedLimit;

/// How this worker runs the jobs of one kind. For an option that is not set, the worker's configuration applies.
///
/// ```
/// use std::time::Duration;
///
/// use readpast::{Handlers, KindOptions};
///
/// let handlers = Handlers::new()
///     .kind("thumbnail", |_job, _context| Ok(()))
///     .options("thumbnail", KindOptions::new().time_limit(Duration::from_secs(60)).at_most(2));
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct KindOptions {
    pub(crate) time_limit: Option<Duration>,
    pub(crate) retry: Option<RetryConfig>,
    pub(crate) places: Option<Arc<SharedLimit>>,
    pub(crate) on_out_of_memory: Option<OutOfMemory>,
    pub(crate) needs: Option<Needs>,
    pub(crate) start_within: Option<Duration>,
}

impl KindOptions {
    /// Sets no option.
    pub fn new() -> KindOptions {
        KindOptions::default()
    }

    /// Sets the run time after which a job is cancelled, instead of `worker.job_time_limit_ms`. Up to ten years. A
    /// job's [own limit](crate::job::NewJob::time_limit) takes precedence.
    pub fn time_limit(mut self, limit: Duration) -> KindOptions {
        self.time_limit = Some(limit);
        self
    }

    /// Sets how long failed jobs of this kind wait before their next attempt, instead of `worker.retry`. The delay is
    /// `base` after the first attempt and doubles with each attempt up to `max`, which is at most ten years. Each delay
    /// is reduced by up to a quarter at random.
    pub fn retry(mut self, base: Duration, max: Duration) -> KindOptions {
        self.retry = Some(RetryConfig { base, max });
        self
    }

    /// Sets how many jobs with these options run at once: 1 or more. Default: as many as there are threads.
    ///
    /// All kinds, handlers and workers of this process that use this value or a clone of it share one limit. It can
    /// thus protect one machine from two kinds of jobs, or from the workers of two queues. Waiting jobs start in the
    /// order in which they arrived. If all threads of a worker are busy, other workers' jobs go first.
    ///
    /// ```
    /// use readpast::{Handlers, KindOptions};
    ///
    /// let licences = KindOptions::new().at_most(2);
    /// let handlers = Handlers::new()
    ///     .kind("render", |_job, _context| Ok(()))
    ///     .options("render", licences.clone())
    ///     .kind("preview", |_job, _context| Ok(()))
    ///     .options("preview", licences);
    /// ```
    ///
    /// Jobs over the limit occupy no thread. A few stay in memory. The others are postponed in SQL Server until about
    /// their turn (1 s to ten minutes), without using up an attempt. Postponed jobs may change their order.
    ///
    /// A worker postpones about a thousand jobs immediately, then 500 per second, and one more for each job that it
    /// runs. Jobs behind a long backlog wait until the backlog has been postponed. If a kind with a limit often has a
    /// long backlog, give it its own queue and a worker with as many threads as the limit. Jobs of a queue with
    /// delivery `at_most_once` cannot be postponed: all claimed jobs stay in memory, and when they reach
    /// `worker.max_in_flight`, nothing else is claimed.
    pub fn at_most(mut self, jobs: usize) -> KindOptions {
        self.places = Some(Arc::new(SharedLimit::new(jobs)));
        self
    }

    /// Sets what happens to jobs of this kind that run out of memory
    /// ([`JobError::out_of_memory`](super::job_error::JobError::out_of_memory)). Default: what the configuration file says
    /// of the kind (`[kinds.<kind>] on_out_of_memory`); without it, they are retried as after any other failure.
    ///
    /// ```
    /// use readpast::{Handlers, KindOptions, OutOfMemory};
    ///
    /// let handlers = Handlers::new()
    ///     .kind("simulate", |_job, _context| Ok(()))
    ///     .options("simulate", KindOptions::new().on_out_of_memory(OutOfMemory::Grow { factor: 2.0, max: 64 << 30 }));
    /// ```
    pub fn on_out_of_memory(mut self, then: OutOfMemory) -> KindOptions {
        self.on_out_of_memory = Some(then);
        self
    }

    /// Sets what each job with these options needs of a worker while it runs. Resource by resource, a job's
    /// [own needs](crate::job::NewJob::needs) take precedence, and these over the needs of the kind in the
    /// configuration file (`[kinds.<kind>]`). Default: one thread.
    ///
    /// ```
    /// use readpast::{Handlers, KindOptions, Needs};
    ///
    /// let handlers = Handlers::new()
    ///     .kind("render", |_job, _context| Ok(()))
    ///     .options("render", KindOptions::new().needs(Needs::new().memory(3 << 30).threads(4).token("gpu", 1)));
    /// ```
    ///
    /// A job starts when the worker has all of it free: memory and tokens of
    /// [`worker.resources`](crate::config::ResourcesConfig), and threads of its pool, which stay free for the handler's
    /// rayon calls. Meanwhile it waits without a thread, and jobs that need less pass it, up to
    /// `worker.resources.reserve_after_ms`. If it cannot be its turn within about two seconds, it is postponed in SQL
    /// Server until about its turn, like a job over [`at_most`](Self::at_most). A job that needs more than the worker
    /// has at all is postponed for another worker, like a job of a kind without a handler.
    pub fn needs(mut self, needs: Needs) -> KindOptions {
        self.needs = Some(needs);
        self
    }

    /// Lets jobs expire that a worker would start, after their first claim, so long after they were due: 1 ms to ten
    /// years. As [`NewJob::start_within`](crate::job::NewJob::start_within), but this worker decides: while no worker
    /// claims it, the job waits, and a retry or a job that was postponed may start at any time. A job's own limit
    /// applies, too.
    pub fn start_within(mut self, time: Duration) -> KindOptions {
        self.start_within = Some(time);
        self
    }

    /// Rejects invalid options of `kind`.
    pub(crate) fn check(&self, kind: &str) -> Result<(), Error> {
        if self.places.as_ref().is_some_and(|places| places.at_most() == 0) {
            let key = format!("at_most of the handler of kind '{kind}'");
            return Err(Error::Config { key, value: "0".to_owned(), allowed: "1 or more".to_owned() });
        }
        if let Some(Err(allowed)) = self.needs.as_ref().map(Needs::check) {
            let key = format!("needs of the handler of kind '{kind}'");
            return Err(Error::Config { key, value: "not possible".to_owned(), allowed });
        }
        if let Some(RetryConfig { base, max }) = self.retry
            && (base > max || max > TEN_YEARS)
        {
            let key = format!("retry of the handler of kind '{kind}'");
            let (value, allowed) = (
                format!("{} ms to {} ms", base.as_millis(), max.as_millis()),
                "base_ms at most max_ms, and max_ms at most ten years".to_owned(),
            );
            return Err(Error::Config { key, value, allowed });
        }
        if let Some(Err((value, allowed))) = self.on_out_of_memory.as_ref().map(OutOfMemory::check) {
            let key = format!("on_out_of_memory of the handler of kind '{kind}'");
            return Err(Error::Config { key, value, allowed });
        }
        if let Some(time) = self.start_within.filter(|time| !START_WITHIN.contains(time)) {
            let key = format!("start_within of the handler of kind '{kind}'");
            return Err(Error::Config { key, value: format!("{time:?}"), allowed: "1 ms to ten years".to_owned() });
        }
        let time_limit_key = || format!("time_limit of the handler of kind '{kind}'");
        if self.time_limit.is_some_and(|limit| limit.is_zero()) {
            return Err(Error::Config {
                key: time_limit_key(),
                value: "0".to_owned(),
                allowed: "longer than that".to_owned(),
            });
        }
        // Without this, the clock could not represent the deadline of a job with the longest limit.
        if let Some(limit) = self.time_limit
            && limit > TEN_YEARS
        {
            let (value, allowed) = (format!("{} s", limit.as_secs()), "at most ten years".to_owned());
            return Err(Error::Config { key: time_limit_key(), value, allowed });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_no_longer_than_the_clock_can_tell() {
        let refused = KindOptions::new().time_limit(Duration::MAX).check("resize").unwrap_err().to_string();
        assert!(refused.starts_with("time_limit of the handler of kind 'resize' is "), "{refused}");
        assert!(KindOptions::new().time_limit(TEN_YEARS).check("resize").is_ok());
    }
}
