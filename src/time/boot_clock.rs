//! A clock that keeps running while the machine is suspended.
//!
//! On Linux and macOS, `Instant` stops during a suspension. A worker whose machine slept for an hour would still trust
//! its lease and its idle connections. Linux and Android have CLOCK_BOOTTIME for this purpose; other systems use
//! `Instant`. On Windows, `Instant` is based on QueryPerformanceCounter, which is said to count suspended time
//! (untested). On macOS, this clock misses the time of a suspension. Until enough waking time has passed to doubt the
//! lease, the worker learns only from SQL Server that it lost the lease.
//!
//! If a container or virtual machine is frozen from outside while its kernel keeps running, CLOCK_BOOTTIME and
//! `Instant` keep counting. If a virtual machine is paused or moved together with its kernel, both may miss that time,
//! unless the host corrects the clock.

use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct BootClock {
    #[cfg(test)]
    ahead_ns: std::sync::atomic::AtomicU64,
}

impl BootClock {
    /// Returns the time since a fixed moment in the past, the same for all clocks of the process.
    #[cfg(not(test))]
    pub(crate) fn now(&self) -> Duration {
        since_boot()
    }

    #[cfg(test)]
    pub(crate) fn now(&self) -> Duration {
        since_boot() + Duration::from_nanos(self.ahead_ns.load(std::sync::atomic::Ordering::Acquire))
    }

    #[cfg(test)]
    pub(crate) fn shift(&self, by: Duration) {
        self.ahead_ns.fetch_add(by.as_nanos() as u64, std::sync::atomic::Ordering::AcqRel);
    }
}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
fn since_boot() -> Duration {
    static FIRST_LOOK: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    FIRST_LOOK.elapsed()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn it_runs_as_fast_as_the_monotonic_clock_while_the_machine_is_awake() {
        let clock = BootClock::default();
        let (before, instant) = (clock.now(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (passed, awake) = (clock.now() - before, instant.elapsed());
        assert!(passed >= Duration::from_millis(20) && passed.abs_diff(awake) < Duration::from_secs(1), "{passed:?}");
        assert_eq!(BootClock::default().now().as_secs().abs_diff(clock.now().as_secs()) / 2, 0, "one for the process");
    }
}
