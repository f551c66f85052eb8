//! What a job of a given length does: a fixed number of steps, so that it costs the same whoever runs it and however busy the machine is.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// CPU work of a known length.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    steps: u64,
}

/// How often a sample is repeated; the shortest counts, because everything else that runs can only make it longer.
const SAMPLES: usize = 30;

const SAMPLE_STEPS: u64 = 500_000;

impl Work {
    /// No work at all.
    pub const NONE: Work = Work { steps: 0 };

    /// How much work this machine does in `length`.
    pub fn lasting(length: Duration) -> Work {
        let sample = Work { steps: SAMPLE_STEPS };
        let shortest = (0..SAMPLES)
            .map(|_| {
                let started_at = Instant::now();
                sample.run();
                started_at.elapsed()
            })
            .min()
            .expect("there are samples");
        Work { steps: (SAMPLE_STEPS as f64 * length.as_secs_f64() / shortest.as_secs_f64()) as u64 }
    }

    /// Does it. Each step waits for the one before it (xorshift64), touches no memory and cannot be left out.
    pub fn run(self) {
        let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
        for _ in 0..self.steps {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}
