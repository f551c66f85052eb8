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
    /// After so many steps, a job adds what it has cost since.
    piece: u64,
}

/// How often a sample is repeated; the shortest counts, because everything else that runs can only make it longer.
const SAMPLES: usize = 30;

const SAMPLE_STEPS: u64 = 500_000;

/// The length of a piece, and the most of each running job that a reading of [`Work::cpu`] misses. Shorter pieces would
/// change what is measured: when a system call returns, the kernel may give the core to a thread that was woken.
const PIECE: Duration = Duration::from_millis(1);

/// What jobs have cost by the clocks of the threads that ran them.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

impl Work {
    /// No work at all.
    pub const NONE: Work = Work { steps: 0, piece: 0 };

    /// How much work this machine does in `length`.
    pub fn lasting(length: Duration) -> Work {
        let shortest = (0..SAMPLES)
            .map(|_| {
                let started_at = Instant::now();
                step(SAMPLE_STEPS);
                started_at.elapsed()
            })
            .min()
            .expect("there are samples");
        let steps = |time: Duration| (SAMPLE_STEPS as f64 * time.as_secs_f64() / shortest.as_secs_f64()) as u64;
        Work { steps: steps(length), piece: steps(PIECE) }
    }

    /// The CPU time of all jobs so far: what a process uses beyond it is the queue's.
    pub fn cpu() -> Duration {
        Duration::from_nanos(CPU_NS.load(Ordering::Relaxed))
    }

    /// Does it, as a job.
    pub fn run(self) {
        if self.steps == 0 {
            return;
        }
        let (mut left, mut counted) = (self.steps, usage::thread_cpu());
        while left > 0 {
            let steps = left.min(self.piece);
            step(steps);
            left -= steps;
            let now = usage::thread_cpu();
            CPU_NS.fetch_add((now - counted).as_nanos() as u64, Ordering::Relaxed);
            counted = now;
        }
    }
}

/// Each step waits for the one before it (xorshift64), touches no memory and cannot be left out.
fn step(steps: u64) {
    let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
