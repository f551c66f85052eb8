//! The delay before a failed job's next attempt.

use std::time::Duration;

use crate::config::RetryConfig;

/// Returns the delay before the attempt after number `attempt`: `base * 2^(attempt - 1)`, at most `max`, less up to a
/// quarter at random, so that jobs that failed together do not come back together.
pub(crate) fn retry_delay(policy: &RetryConfig, attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(63);
    let [base_ms, max_ms] = [policy.base, policy.max].map(|time| time.as_millis() as u64); // ten years at most
    let full_ms = base_ms.saturating_mul(1 << doublings).min(max_ms);
    let jitter_ms = fastrand::u64(0..=full_ms / 4);
    Duration::from_millis(full_ms - jitter_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryConfig = RetryConfig { base: Duration::from_secs(1), max: Duration::from_secs(60) };

    #[test]
    fn it_doubles_up_to_the_maximum_and_jitters_down_only() {
        for (attempt, full_ms) in [(1, 1_000), (2, 2_000), (3, 4_000), (6, 32_000), (7, 60_000), (200, 60_000)] {
            let delay = retry_delay(&POLICY, attempt).as_millis() as u64;
            assert!(delay <= full_ms && delay >= full_ms * 3 / 4, "attempt {attempt}: {delay} ms");
        }
    }
}
