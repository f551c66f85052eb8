//! Jobs that are claimed in the table, but that this process does not know of, because the answer was lost.
//!
//! They are looked for at once, and again and again at growing distances, because the claim may have been under way to
//! SQL Server when its connection was given up: what the operating system has taken over for sending, it goes on
//! sending for as long as [`LAST_LOOK`].

use std::time::{Duration, Instant};

/// For how long after a lost answer the claim may still arrive at the server: TCP gives up sending what is not
/// acknowledged after some 15 minutes (Linux: `tcp_retries2`, 924.6 s by default).
const LAST_LOOK: Duration = Duration::from_secs(925);

/// When to look for jobs that a lost answer may have left claimed.
#[derive(Default)]
pub(in crate::worker) struct LostAnswers {
    next_look: Option<NextLook>,
}

struct NextLook {
    at: Instant,
    /// How long after the answer was lost.
    age: Duration,
}

impl LostAnswers {
    pub(in crate::worker) fn answer_lost(&mut self) {
        self.next_look = Some(NextLook { at: Instant::now(), age: Duration::ZERO });
    }

    /// Whether there may be any.
    pub(in crate::worker) fn are_possible(&self) -> bool {
        self.next_look.is_some()
    }

    /// Whether they are to be looked for now.
    pub(in crate::worker) fn are_due(&self) -> bool {
        self.next_look.as_ref().is_some_and(|look| Instant::now() >= look.at)
    }

    /// Returns when they are to be looked for; never, where there are none.
    pub(in crate::worker) async fn due(&self) {
        match &self.next_look {
            Some(look) => tokio::time::sleep_until(look.at.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Notes that they were looked for just now; the first distance is `command_timeout`, then it doubles.
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
