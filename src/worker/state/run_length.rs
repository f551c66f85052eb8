//! Decides how many jobs of a group one claim may take to run them one after the other.

use parking_lot::Mutex;

/// The longest run: as many jobs as a claim may take.
const LONGEST: u64 = 1_000;

/// How many jobs are remembered: older ones count half, and so on.
const REMEMBERED: u64 = 8_192;

/// How many jobs are taken to have gone well before the first has run.
const PRESUMED_DONE: u64 = 127;

/// The number of jobs from one that breaks its run to the next, on average. The jobs behind such a job are claimed in
/// vain, so runs should end by themselves about as often.
#[derive(Debug, Default)]
pub(in crate::worker) struct RunLength(Mutex<Ends>);

/// How the jobs of groups have ended.
#[derive(Debug, Default)]
struct Ends {
    done: u64,
    broke: u64,
    /// Whether a handler has finished its own job. There are no more runs then: it would commit before the results of the
    /// jobs before it.
    by_handlers: bool,
}

impl RunLength {
    /// Records that a job of a group has ended, and whether a run goes on after it.
    pub(in crate::worker) fn ended(&self, goes_on: bool, by_handler: bool) {
        let mut ends = self.0.lock();
        ends.by_handlers |= by_handler;
        *(if goes_on { &mut ends.done } else { &mut ends.broke }) += 1;
        if ends.done + ends.broke >= REMEMBERED {
            (ends.done, ends.broke) = (ends.done / 2, ends.broke / 2);
        }
    }

    pub(in crate::worker) fn jobs(&self) -> usize {
        let Ends { done, broke, by_handlers } = *self.0.lock();
        if by_handlers {
            return 1;
        }
        (done + PRESUMED_DONE).div_ceil(broke + 1).clamp(1, LONGEST) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_jobs_succeed_in_a_row() {
        let length = RunLength::default();
        assert_eq!(length.jobs(), 127);
        (0..2_000).for_each(|_| length.ended(true, false));
        assert_eq!(length.jobs(), 1_000);
        (0..10_000).for_each(|job| length.ended(job % 10 > 0, false));
        assert!((8..=12).contains(&length.jobs()), "{}", length.jobs());
        (0..10_000).for_each(|_| length.ended(false, false));
        assert_eq!(length.jobs(), 1);
        (0..100_000).for_each(|_| length.ended(true, false));
        assert_eq!(length.jobs(), 1_000, "failures are forgotten");
        length.ended(false, true);
        assert_eq!(length.jobs(), 1);
    }
}
