//! The CPU time of handlers, by the CPU clock of their thread.
//!
//! Reading that clock is a system call, which a short job must not pay for. It is therefore read once per turn, and
//! again only after a run of [`MEASURED`] or longer. A shorter run counts its wall time as CPU time:
//!
//! ```text
//! turn begins          short     short          long               turn ends
//! read ────────────────■─────────■──────────────■■■■■■■■■■■■ read
//!      └─── this much CPU time, less the wall time of the short runs ─┘ = the long run's
//! ```
//!
//! So a long run is wrong by no more than a slice ([`SLICE`](super::worker_turns::SLICE)), the time in which a turn
//! starts short runs. A thread that waits in rayon may run another turn on its stack, whose CPU time does not count for
//! the outer run. What other threads do for a run, such as parts of its `par_iter`, is unknown, and so are the parts of
//! others that this thread runs while it waits.
//!
//! Systems other than Linux, Android and macOS have no such clock, or one of 15 ms.

use std::cell::Cell;
use std::time::Duration;

/// The shortest run that is measured.
pub(super) const MEASURED: Duration = Duration::from_millis(1);

/// A turn of this thread.
#[derive(Clone, Copy)]
struct Turn {
    /// The thread's CPU time at the end of the last measured run, or at the beginning of the turn.
    since: Duration,
    /// The wall time of the short runs since then.
    short: Duration,
}

thread_local! {
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
}

/// A turn that has begun. It ends when this is dropped.
pub(super) struct BegunTurn {
    outer: Option<Turn>,
    begun: Option<Duration>,
}

/// Begins a turn on this thread, perhaps inside another turn's run.
pub(super) fn begin_turn() -> BegunTurn {
    let begun = thread_cpu();
    let outer = TURN.replace(begun.map(|since| Turn { since, short: Duration::ZERO }));
    BegunTurn { outer, begun }
}

impl Drop for BegunTurn {
    fn drop(&mut self) {
        let outer = self.outer.take().map(|outer| {
            let nested = self.begun.zip(thread_cpu()).map(|(begun, now)| now.saturating_sub(begun));
            Turn { since: outer.since + nested.unwrap_or_default(), ..outer }
        });
        TURN.set(outer);
    }
}

/// The CPU time of the run that has just ended on this thread, or `None` if the system does not tell. `run`: its wall
/// time.
pub(super) fn of_run(run: Duration) -> Option<Duration> {
    let turn = TURN.get()?;
    if run < MEASURED {
        TURN.set(Some(Turn { short: turn.short + run, ..turn }));
        return Some(run);
    }
    let now = thread_cpu()?;
    TURN.set(Some(Turn { since: now, short: Duration::ZERO }));
    Some(now.saturating_sub(turn.since).saturating_sub(turn.short))
}

/// The CPU time of this thread.
#[cfg(any(target_os = "android", target_os = "linux", target_os = "macos"))]
fn thread_cpu() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(any(target_os = "android", target_os = "linux", target_os = "macos")))]
fn thread_cpu() -> Option<Duration> {
    None
}

#[cfg(test)]
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod tests {
    use super::*;

    /// Keeps this thread busy, and returns the CPU time that it has taken.
    fn burn(at_least: Duration) -> Duration {
        let begun = thread_cpu().unwrap();
        loop {
            let burnt = thread_cpu().unwrap() - begun;
            if burnt >= at_least {
                return burnt;
            }
        }
    }

    const LONG: Duration = Duration::from_millis(20);
    /// The clock is read a moment after the work has ended.
    const MOMENT: Duration = Duration::from_millis(5);

    fn is_about(cpu: Option<Duration>, burnt: Duration) -> bool {
        cpu.is_some_and(|cpu| cpu >= burnt.saturating_sub(MOMENT) && cpu <= burnt + MOMENT)
    }

    #[test]
    fn a_long_run_is_measured_without_its_waits_and_without_the_run_before_it() {
        let _turn = begin_turn();
        let first = burn(2 * LONG);
        assert!(is_about(of_run(3 * LONG), first));
        let second = burn(LONG);
        std::thread::sleep(LONG);
        let cpu = of_run(2 * LONG);
        assert!(is_about(cpu, second), "{cpu:?}");
    }

    #[test]
    fn a_short_run_counts_its_wall_time_which_the_next_long_run_does_not_count_again() {
        let _turn = begin_turn();
        let before = burn(LONG);
        let wall = MEASURED - Duration::from_micros(1);
        for _ in 0..20 {
            assert_eq!(of_run(wall), Some(wall));
        }
        let long = burn(LONG);
        let cpu = of_run(LONG);
        assert!(is_about(cpu, before + long - 20 * wall), "{cpu:?}");
    }

    #[test]
    fn a_turn_inside_of_a_run_is_not_counted_for_it() {
        let _turn = begin_turn();
        let before = burn(LONG);
        {
            let _nested = begin_turn();
            let inner = burn(2 * LONG);
            let cpu = of_run(2 * LONG);
            assert!(is_about(cpu, inner), "{cpu:?}");
            burn(LONG); // for nobody
        }
        let after = burn(LONG);
        let cpu = of_run(5 * LONG);
        assert!(is_about(cpu, before + after), "{cpu:?}");
    }

    #[test]
    fn a_panic_ends_a_turn_as_well() {
        let _turn = begin_turn();
        let nested = std::panic::catch_unwind(|| {
            let _nested = begin_turn();
            burn(LONG);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(nested.is_err());
        let cpu = of_run(LONG);
        assert!(is_about(cpu, Duration::ZERO), "{cpu:?}");
    }
}
