//! Adapts the number of jobs per call to timeouts.

/// The maximum number of jobs per call: halved after a timeout, because the call may be too large for the network, and
/// then increased slowly. A jump back to full size would cause the next timeout.
#[derive(Debug)]
pub(in crate::worker) struct CallSize {
    jobs: usize,
    most: usize,
}

impl CallSize {
    pub(in crate::worker) fn new(most: usize) -> CallSize {
        CallSize { jobs: most, most }
    }

    pub(in crate::worker) fn jobs(&self) -> usize {
        self.jobs
    }

    /// Records that a call with `jobs` jobs timed out.
    pub(in crate::worker) fn timed_out(&mut self, jobs: usize) {
        self.jobs = (jobs / 2).max(1);
    }

    /// Records that a call with `jobs` jobs was answered. Only a call of the maximum size proves anything about larger
    /// ones.
    pub(in crate::worker) fn answered(&mut self, jobs: usize) {
        if jobs >= self.jobs {
            self.jobs = self.most.min(self.jobs + (self.jobs / 4).max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_halved_at_once_and_grows_back_by_quarters() {
        let mut limit = CallSize::new(500);
        limit.timed_out(500);
        limit.timed_out(250);
        assert_eq!(limit.jobs(), 125);
        limit.answered(124);
        assert_eq!(limit.jobs(), 125, "fewer than allowed prove nothing");
        limit.answered(125);
        assert_eq!(limit.jobs(), 156);
        // The requested number counts, not the allowed one.
        limit.timed_out(3);
        assert_eq!(limit.jobs(), 1);
        limit.timed_out(1);
        let grown: Vec<usize> = (0..6)
            .map(|_| {
                limit.answered(limit.jobs());
                limit.jobs()
            })
            .collect();
        assert_eq!(grown, [2, 3, 4, 5, 6, 7]);
        for _ in 0..30 {
            limit.answered(limit.jobs());
        }
        assert_eq!(limit.jobs(), 500);
    }
}
