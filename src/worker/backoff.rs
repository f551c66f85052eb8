//! Growing pauses with jitter, for polling an empty queue and for repeating a failed call.

use std::time::Duration;

/// Pauses that double from `min` to `max`, each less up to a half at random: workers that started together drift apart.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    current: Duration,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max, current: min }
    }

    /// The pauses after failed calls.
    pub(crate) fn for_errors() -> Backoff {
        Backoff::new(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// The next pause: at most `max`, at least half of `min`.
    pub(crate) fn next(&mut self) -> Duration {
        let full = self.current;
        self.current = (self.current * 2).min(self.max);
        full.mul_f64(1.0 - 0.5 * fastrand::f64())
    }

    /// Starts again from `min`.
    pub(crate) fn reset(&mut self) {
        self.current = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(35));
        for full_ms in [10, 20, 35, 35] {
            let pause = backoff.next();
            assert!(
                pause <= Duration::from_millis(full_ms) && pause >= Duration::from_millis(full_ms) / 2,
                "{pause:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(10));
    }
}
