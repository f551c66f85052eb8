//! When programs that stay (`--keep`) are replaced.

use std::time::{Duration, Instant};

use clap::Args;

use super::process::Process;
use crate::texts::{age, bytes, counted, duration, size};

/// The limits of a program that stays. It is replaced between two jobs once it has reached one.
#[derive(Debug, Clone, Default, Args)]
pub struct Recycling {
    /// With --keep: replace a program after this many jobs
    #[arg(long, value_name = "NUMBER", requires = "keep", value_parser = clap::value_parser!(u64).range(1..))]
    recycle_after_jobs: Option<u64>,
    /// With --keep: replace a program that has run this long, when it has no job
    #[arg(long, value_name = "DURATION", requires = "keep", value_parser = duration)]
    recycle_after: Option<Duration>,
    /// With --keep: replace a program whose resident memory, with that of its children, is larger after a job (Linux)
    #[arg(long, value_name = "BYTES", requires = "keep", value_parser = bytes)]
    recycle_above: Option<usize>,
}

impl Recycling {
    /// Whether the resident memory of programs must be known.
    pub fn needs_resident(&self) -> bool {
        self.recycle_above.is_some()
    }

    /// How many more jobs a program may run that has run so many.
    pub fn jobs_left(&self, jobs: u64) -> usize {
        let left = self.recycle_after_jobs.map_or(u64::MAX, |most| most.saturating_sub(jobs));
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Why a program is to be replaced, if it is.
    pub fn reason(&self, jobs: u64, started_at: Instant, process: &Process) -> Option<String> {
        if self.recycle_after_jobs.is_some_and(|most| jobs >= most) {
            return Some(format!("it has run {}", counted(jobs, "job")));
        }
        let ran = started_at.elapsed();
        if self.recycle_after.is_some_and(|longest| ran >= longest) {
            return Some(format!("it has run for {}", age(ran)));
        }
        let largest = self.recycle_above? as u64;
        let resident = process.resident();
        (resident > largest).then(|| format!("its resident memory is {}", size(resident)))
    }
}
