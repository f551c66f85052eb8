//! The outcome of a job that ran out of memory.

use std::time::Duration;

use crate::config::OutOfMemory;
use crate::job::{Job, MEMORY, Needs, Outcome, bytes_in_words};

impl OutOfMemory {
    /// The outcome of a job of `queue` that failed with `error`, and would otherwise be retried after `delay`. `of_kind`
    /// is what its kind needs.
    pub(super) fn outcome(
        &self,
        job: &Job,
        of_kind: Option<&Needs>,
        queue: &str,
        delay: Duration,
        error: String,
    ) -> Outcome {
        match self {
            OutOfMemory::Grow { factor, max } => {
                let memory_of = |needs: Option<&Needs>| needs.and_then(|needs| needs.get(MEMORY));
                let Some(memory) = memory_of(job.needs()).or(memory_of(of_kind)) else {
                    return Outcome::Retry { delay, error, needs: None };
                };
                if memory >= *max {
                    let most = bytes_in_words(*max);
                    let error = format!("out of memory, with all that on_out_of_memory allows ({most}): {error}");
                    return Outcome::Dead { error };
                }
                // (The conversion saturates.)
                let grown = ((memory as f64 * factor).ceil() as u64).min(*max);
                let needs = job.needs().cloned().unwrap_or_default().memory(grown);
                // (With many tokens, another digit may be too long.)
                let needs = needs.check().is_ok().then(|| Box::new(needs));
                Outcome::Retry { delay, error, needs }
            }
            OutOfMemory::MoveTo(to) if to != queue => Outcome::Move { queue: to.clone(), error },
            OutOfMemory::MoveTo(_) | OutOfMemory::Retry => Outcome::Retry { delay, error, needs: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BoxError;
    use crate::handler::{Context, Handlers, JobError, KindOptions};
    use crate::job::{MAX_MEMORY, Needs, NewJob};

    /// The outcome of a job with these needs that runs out of memory.
    fn outcome(policy: OutOfMemory, needs: Option<Needs>) -> Outcome {
        let fail = |_: &Job, _: &Context| Err::<(), BoxError>(JobError::out_of_memory("killed").into());
        let options = KindOptions::new().on_out_of_memory(policy).retry(Duration::ZERO, Duration::ZERO);
        let handlers = Handlers::new().kind("simulate", fail).options("simulate", options);
        let job = NewJob::text("").kind("simulate");
        let job = Job::for_test(match needs {
            Some(needs) => job.needs(needs),
            None => job,
        });
        handlers.run_for_test(Context::for_test(job))
    }

    #[test]
    fn memory_grows_from_what_the_kind_needs() {
        let fail = |_: &Job, _: &Context| Err::<(), BoxError>(JobError::out_of_memory("killed").into());
        let options = KindOptions::new().on_out_of_memory(OutOfMemory::Grow { factor: 2.0, max: 100 });
        let options = options.retry(Duration::ZERO, Duration::ZERO).needs(Needs::new().memory(30).threads(2));
        let handlers = Handlers::any(fail).otherwise_options(options);
        let job = NewJob::text("").needs(Needs::new().token("gpu", 1));
        let grown = retry(Some(Needs::new().memory(60).token("gpu", 1)));
        assert_eq!(handlers.run_for_test(Context::for_test(Job::for_test(job))), grown);
    }

    fn retry(needs: Option<Needs>) -> Outcome {
        Outcome::Retry { delay: Duration::ZERO, error: "killed".to_owned(), needs: needs.map(Box::new) }
    }

    #[test]
    fn a_job_without_a_policy_is_retried() {
        assert_eq!(outcome(OutOfMemory::Retry, Some(Needs::new().memory(1))), retry(None));
    }

    #[test]
    fn memory_grows_up_to_its_most() {
        let grow = |needs| outcome(OutOfMemory::Grow { factor: 1.5, max: 100 }, needs);
        let needs = |memory| Needs::new().memory(memory).threads(4).token("gpu", 1);
        assert_eq!(grow(Some(needs(33))), retry(Some(needs(50))));
        assert_eq!(grow(Some(needs(99))), retry(Some(needs(100))));
        assert_eq!(grow(Some(Needs::new().threads(4))), retry(None), "nothing to multiply");
        assert_eq!(grow(None), retry(None));
        let error = "out of memory, with all that on_out_of_memory allows (100 bytes): killed".to_owned();
        assert_eq!(grow(Some(needs(100))), Outcome::Dead { error: error.clone() });
        assert_eq!(grow(Some(needs(101))), Outcome::Dead { error });
        let steep = OutOfMemory::Grow { factor: f64::MAX, max: MAX_MEMORY };
        assert_eq!(outcome(steep, Some(needs(2))), retry(Some(needs(MAX_MEMORY))));
    }

    #[test]
    fn a_job_is_moved_unless_it_is_there_already() {
        let moved = Outcome::Move { queue: "large".to_owned(), error: "killed".to_owned() };
        assert_eq!(outcome(OutOfMemory::MoveTo("large".to_owned()), None), moved);
        let job = Job::for_test(NewJob::text(""));
        let there =
            OutOfMemory::MoveTo("large".to_owned()).outcome(&job, None, "large", Duration::ZERO, "killed".to_owned());
        assert_eq!(there, retry(None));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let grow = |factor, max| OutOfMemory::Grow { factor, max }.check().is_err();
        assert!(
            grow(1.0, 1) && grow(f64::NAN, 1) && grow(f64::INFINITY, 1) && grow(2.0, 0) && grow(2.0, MAX_MEMORY + 1)
        );
        assert!(!grow(1.1, MAX_MEMORY));
        assert!(OutOfMemory::MoveTo(" ".to_owned()).check().is_err());
        let options = KindOptions::new().on_out_of_memory(OutOfMemory::Grow { factor: 0.5, max: 1 });
        let refused = options.check("simulate").unwrap_err().to_string();
        let expected = "on_out_of_memory of the handler of kind 'simulate' is factor 0.5; it must be a factor above 1";
        assert_eq!(refused, expected);
    }
}
