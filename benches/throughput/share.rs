//! What a queue leaves of the cores to the jobs.
//!
//! The measure is how much of the cores' time is work, beside how much of it bare rayon makes work of over the same
//! jobs in memory, in the same round. What is work is told by the clocks of the threads that run the jobs: a machine's
//! speed differs by more between two runs than what is looked for. The server runs on the same cores here, so that
//! there are two shares: as it is, and with the server's CPU time given back (`wall - server CPU / cores`), which is
//! what remains where the server is another machine.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::bench::{Run, payload};
use super::cores;
use super::usage;
use super::work::Work;

/// Of one run.
pub struct Share {
    /// Of bare rayon's.
    pub as_it_is: f64,
    pub given_back: f64,
    /// The client's CPU time of a job beyond its work.
    pub overhead_us: f64,
}

impl Share {
    /// Beside what [`of_bare_rayon`] returned.
    pub fn of(run: &Run, of_bare: f64) -> Share {
        let server_free = run.wall.saturating_sub(run.server_cpu / cores() as u32);
        Share {
            as_it_is: of_cores(run, run.wall) / of_bare,
            given_back: of_cores(run, server_free) / of_bare,
            overhead_us: run.client_us_per_job() - run.work_us_per_job(),
        }
    }
}

/// How much of the time of all cores was work.
fn of_cores(run: &Run, wall: Duration) -> f64 {
    run.work_cpu.as_secs_f64() / (wall.as_secs_f64() * cores() as f64)
}

/// What bare rayon makes work of.
pub fn of_bare_rayon(work: Work, jobs: u64) -> f64 {
    let run = bare_rayon(work, jobs);
    of_cores(&run, run.wall)
}

/// The same jobs in memory, on as many threads.
pub fn bare_rayon(work: Work, jobs: u64) -> Run {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(cores()).build().expect("threads");
    let payloads: Vec<Vec<u8>> = (0..jobs).map(|_| payload()).collect();
    let (started_at, before, work_before) = (Instant::now(), usage::cpu(), Work::cpu());
    pool.install(|| payloads.par_iter().with_max_len(1).for_each(|_payload| work.run()));
    let (wall, client_cpu, work_cpu) = (started_at.elapsed(), usage::cpu() - before, Work::cpu() - work_before);
    Run { jobs: jobs as f64, wall, client_cpu, work_cpu, server_cpu: Duration::ZERO, switches: None }
}
