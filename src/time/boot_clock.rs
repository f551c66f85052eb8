//! A clock that runs on while the machine is suspended.
//!
//! `Instant` does not, on Linux and macOS: a worker whose machine slept for an hour would take its lease for held and
//! its connections for fresh. Linux and Android have a clock for this, CLOCK_BOOTTIME. Elsewhere `Instant` is what
//! there is. On Windows it stands on QueryPerformanceCounter, which is said to count the time asleep, but that is not
//! tested here. On macOS it does not: after a suspension the lease is in doubt only when that much waking time has
//! passed, and until then SQL Server's answers alone say that it is lost.
//!
//! A container or virtual machine that is frozen from outside, with its kernel running on, loses no time by either
//! clock. A virtual machine that is paused or moved with its kernel may, by both, unless its host tells it.

use std::time::Duration;

/// Reads the clock.
#[derive(Debug, Default)]
pub(crate) struct BootClock {
    #[cfg(test)]
    ahead_ns: std::sync::atomic::AtomicU64,
}

impl BootClock {
    /// The time since a moment in the past that is the same for all clocks of the process.
    #[cfg(not(test))]
    pub(crate) fn now(&self) -> Duration {
        since_boot()
    }

    #[cfg(test)]
    pub(crate) fn now(&self) -> Duration {
        since_boot() + Duration::from_nanos(self.ahead_ns.load(std::sync::atomic::Ordering::Acquire))
    }

    /// As when the machine had been suspended for so long.
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
