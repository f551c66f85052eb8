//! Finds the job whose result a sink rejects, by sending the failed call again in halves.

/// The parts in which the first jobs to be finished are sent. Empty while nothing was rejected.
#[derive(Debug, Default)]
pub(crate) struct RefusedResultSearch {
    /// How many jobs each part has; the last part is sent next.
    parts: Vec<usize>,
}

impl RefusedResultSearch {
    /// The most jobs of the next call, or `None` for all.
    pub(crate) fn next(&self) -> Option<usize> {
        self.parts.last().copied()
    }

    /// Records that a call with the first `jobs` jobs was accepted.
    pub(crate) fn accepted(&mut self, jobs: usize) {
        self.take(jobs);
    }

    /// Records that a call with the first `jobs` jobs was rejected. Returns whether the culprit is found. This is so if
    /// the call had one job, which then leaves the search.
    pub(crate) fn refused(&mut self, jobs: usize) -> bool {
        self.take(jobs);
        if jobs > 1 {
            let first = jobs / 2;
            self.parts.extend([jobs - first, first]);
        }
        jobs <= 1
    }

    fn take(&mut self, jobs: usize) {
        let Some(part) = self.parts.pop() else {
            return;
        };
        if part > jobs {
            self.parts.push(part - jobs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `jobs` and returns the culprits in the order in which they were found, and how many calls it took.
    fn found_in(jobs: usize, most: usize, is_culprit: impl Fn(usize) -> bool) -> (Vec<usize>, usize) {
        let mut left: Vec<usize> = (0..jobs).collect();
        let (mut search, mut found, mut calls) = (RefusedResultSearch::default(), Vec::new(), 0);
        while !left.is_empty() {
            let size = left.len().min(most).min(search.next().unwrap_or(usize::MAX));
            calls += 1;
            if !left[..size].iter().any(|job| is_culprit(*job)) {
                search.accepted(size);
                left.drain(..size);
            } else if search.refused(size) {
                found.push(left.remove(0));
            }
        }
        (found, calls)
    }

    #[test]
    fn one_culprit_costs_two_calls_for_each_doubling() {
        for culprit in [0, 1, 250, 498, 499] {
            let (found, calls) = found_in(500, 500, |job| job == culprit);
            assert_eq!(found, [culprit]);
            assert!(calls <= 19, "{culprit}: {calls} calls");
        }
        assert_eq!(found_in(500, 500, |_| false), (vec![], 1));
    }

    #[test]
    fn all_are_found_and_where_all_are_culprits_it_takes_less_than_two_calls_each() {
        let (found, calls) = found_in(500, 500, |_| true);
        assert_eq!((found, calls), ((0..500).collect(), 999));
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_size_of_calls_each_culprit_is_found_once(
            jobs in 0..200_usize,
            most in 1..50_usize,
            every in 1..60_usize,
        ) {
            let expected: Vec<usize> = (0..jobs).filter(|job| job % every == 0).collect();
            let (found, _) = found_in(jobs, most, |job| job % every == 0);
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
