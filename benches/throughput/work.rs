//! What a job of a given length does: a fixed number of steps, so that it costs the same in whatever runs it and
//! however busy the machine is.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::usage;

/// CPU work of a known length.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    steps: u64,
}

/// How often a sample is repeated; the shortest counts, because everything else that runs can only make it longer.
const SAMPLES: usize = 30;

const SAMPLE_STEPS: u64 = 500_000;

/// What jobs have cost by the clocks of the threads that ran them, since [`Work::start_counting`].
static JOBS: AtomicU64 = AtomicU64::new(0);
static CPU_NS: AtomicU64 = AtomicU64::new(0);

impl Work {
    /// No work at all.
    pub const NONE: Work = Work { steps: 0 };

    /// How much work this machine does in `length`.
    pub fn lasting(length: Duration) -> Work {
        let sample = Work { steps: SAMPLE_STEPS };
        let shortest = (0..SAMPLES)
            .map(|_| {
                let started_at = Instant::now();
                sample.step();
                started_at.elapsed()
            })
            .min()
            .expect("there are samples");
        Work { steps: (SAMPLE_STEPS as f64 * length.as_secs_f64() / shortest.as_secs_f64()) as u64 }
    }

    pub fn start_counting() {
        JOBS.store(0, Ordering::Relaxed);
        CPU_NS.store(0, Ordering::Relaxed);
    }

    /// The mean CPU time of the jobs counted so far, in microseconds: what a process uses beyond it is the queue's.
    pub fn cpu_us_per_job() -> f64 {
        CPU_NS.load(Ordering::Relaxed) as f64 / 1e3 / JOBS.load(Ordering::Relaxed) as f64
    }

    /// Does it, as a job.
    pub fn run(self) {
        if self.steps == 0 {
            return;
        }
        let before = usage::thread_cpu();
        self.step();
        CPU_NS.fetch_add((usage::thread_cpu() - before).as_nanos() as u64, Ordering::Relaxed);
        JOBS.fetch_add(1, Ordering::Relaxed);
    }

    /// Each step waits for the one before it (xorshift64), touches no memory and cannot be left out.
    fn step(self) {
        let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..self.steps {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}
