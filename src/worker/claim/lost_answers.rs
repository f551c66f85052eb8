//! Finds jobs that are claimed in the table but unknown to this process, because the response to the claim was lost.
//!
//! The worker checks for them immediately, and then at growing intervals. The claim may still have been on its way to
//! SQL Server when its connection was dropped: the operating system keeps sending data that it has accepted, for as
//! long as [`LAST_LOOK`].

use std::time::{Duration, Instant};

/// For how long after a lost response the claim may still reach the server: TCP stops resending unacknowledged data
/// after some 15 minutes (Linux: `tcp_retries2`, 924.6 s by default).
const LAST_LOOK: Duration = Duration::from_secs(925);

/// Decides when to check for jobs that may be claimed although the response was lost.
#[derive(Default)]
pub(in crate::worker) struct LostAnswers {
    next_look: Option<NextLook>,
}

struct NextLook {
    at: Instant,
    /// How long after the lost response the next check is due.
    age: Duration,
}

impl LostAnswers {
    pub(in crate::worker) fn answer_lost(&mut self) {
        self.next_look = Some(NextLook { at: Instant::now(), age: Duration::ZERO });
    }

    /// Returns whether there may be such jobs.
    pub(in crate::worker) fn are_possible(&self) -> bool {
        self.next_look.is_some()
    }

    /// Returns whether to check for them now.
    pub(in crate::worker) fn are_due(&self) -> bool {
        self.next_look.as_ref().is_some_and(|look| Instant::now() >= look.at)
    }

    /// Completes when it is time to check for such jobs; never, if there can be none.
    pub(in crate::worker) async fn due(&self) {
        match &self.next_look {
            Some(look) => tokio::time::sleep_until(look.at.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Records a check that was just made. The first interval is `command_timeout`; each further one is twice as long.
    pub(in crate::worker) fn recovered(&mut self, command_timeout: Duration) {
        self.next_look = self.next_look.take().filter(|look| look.age < LAST_LOOK).map(|look| {
            let distance = look.age.max(command_timeout);
            NextLook { at: Instant::now() + distance, age: look.age + distance }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_answers_are_looked_for_until_no_late_claim_can_arrive() {
        let mut lost_answers = LostAnswers::default();
        assert!(!lost_answers.are_due());
        lost_answers.answer_lost();
        assert!(lost_answers.are_due());
        let mut ages = Vec::new();
        while let Some(look) = &lost_answers.next_look {
            ages.push(look.age.as_secs());
            lost_answers.recovered(Duration::from_secs(30));
            assert!(!lost_answers.are_due());
        }
        assert_eq!(ages, [0, 30, 60, 120, 240, 480, 960]);
    }
}
