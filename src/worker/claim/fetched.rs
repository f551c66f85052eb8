//! The answer to a claim, as the prefetcher hands it on.

use std::time::Duration;

use crate::procedures::worker::{ClaimLimit, Withheld};
use crate::worker::lease::Claimed;

/// A claim that returned.
pub(super) struct Fetched {
    pub(super) jobs: Vec<Claimed>,
    pub(super) withheld: Option<Withheld>,
    /// Whether a job that must run alone is waiting.
    pub(super) alone_waits: bool,
    /// The limit of the queue that kept jobs back, if any.
    pub(super) limited: Option<ClaimLimit>,
    pub(super) took: Duration,
}

impl Fetched {
    /// How many jobs SQL Server returned, kept or not.
    pub(super) fn jobs_sent(&self) -> usize {
        // A job of an at_most_once queue has no row to be released to.
        let withheld = self.withheld.as_ref().map_or(0, |withheld| withheld.jobs.len().max(1));
        self.jobs.iter().map(Claimed::jobs).sum::<usize>() + withheld
    }

    /// Returns whether there may be more jobs to claim behind a job whose payload was withheld.
    pub(super) fn fills_beside_withheld(&self, room: usize) -> bool {
        !self.jobs.is_empty() && self.jobs.iter().map(Claimed::jobs).sum::<usize>() + 1 >= room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Fence, JobId};
    use crate::worker::state::CallSize;

    fn withheld(jobs: Vec<(JobId, Fence)>) -> Fetched {
        let withheld = Some(Withheld { bytes: 1 << 30, jobs });
        Fetched { jobs: Vec::new(), withheld, alone_waits: false, limited: None, took: Duration::ZERO }
    }

    #[test]
    fn a_claim_limit_of_one_grows_though_the_first_payload_is_withheld() {
        for jobs in [vec![(JobId(1), Fence(1))], Vec::new()] {
            let mut limit = CallSize::new(500);
            limit.timed_out(1);
            limit.answered(withheld(jobs).jobs_sent());
            assert_eq!(limit.jobs(), 2);
        }
    }

    #[test]
    fn an_answer_with_nothing_but_the_first_does_not_say_that_more_may_pass_it() {
        assert!(!withheld(vec![(JobId(1), Fence(1))]).fills_beside_withheld(1), "it would be asked for at once again");
    }
}
