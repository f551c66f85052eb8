//! Growing pauses with jitter: between polls of an empty queue, tries of a failing call, and refused logins.

use std::time::Duration;

/// Pauses that double from `min` to `max`, each shortened by up to half at random, so that workers that started
/// together drift apart.
#[derive(Debug)]
pub(crate) struct Pauses {
    min: Duration,
    max: Duration,
    current: Duration,
}

impl Pauses {
    pub(crate) fn new(min: Duration, max: Duration) -> Pauses {
        Pauses { min, max, current: min }
    }

    pub(crate) fn for_errors() -> Pauses {
        Pauses::new(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// Returns the next pause: at most `max`, at least half of `min`.
    pub(crate) fn next(&mut self) -> Duration {
        let full = self.current;
        self.current = (self.current * 2).min(self.max);
        full.mul_f64(1.0 - 0.5 * fastrand::f64())
    }

    pub(crate) fn reset(&mut self) {
        self.current = self.min;
    }
}

/// An interval, up to a fifth longer or shorter, so that workers that started together drift apart.
pub(crate) fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.8 + 0.4 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest wait of a dead worker's jobs depends on this: docs/how-it-works.md, "The arithmetic of the time
    /// limits".
    #[test]
    fn an_interval_is_a_fifth_longer_at_the_most() {
        let interval = Duration::from_secs(5);
        for _ in 0..10_000 {
            let pause = jittered(interval);
            assert!((Duration::from_secs(4)..=Duration::from_secs(6)).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_maximum_and_start_again() {
        let mut pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(35));
        for full_ms in [10, 20, 35, 35] {
            let pause = pauses.next();
            assert!(
                pause <= Duration::from_millis(full_ms) && pause >= Duration::from_millis(full_ms) / 2,
                "{pause:?}"
            );
        }
        pauses.reset();
        assert!(pauses.next() <= Duration::from_millis(10));
    }
}
