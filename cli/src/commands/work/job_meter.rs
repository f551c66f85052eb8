//! Measures what a job of a program that stays uses, by the program's files in /proc.
//!
//! The system counts the CPU time of other processes in ticks, usually of 10 ms. A job that ends within a tick is
//! therefore not measured: its wall time counts as its CPU time, and its memory is unknown. This keeps short jobs as
//! fast as they are. A longer job is measured from its first tick on, with the children that the program waits for.
//! Systems without /proc do not tell any of this.

use std::fs;
use std::time::{Duration, Instant};

use readpast::Usage;

/// How long a job runs before it is measured.
const TICK: Duration = Duration::from_millis(10);

pub struct JobMeter {
    program: u32,
    started_at: Instant,
    since_tick: Option<Reading>,
}

/// The counts of a program at the time when its job had run for a tick.
struct Reading {
    after: Duration,
    cpu: Option<Duration>,
    /// Whether the program's peak memory counts from here.
    is_peak_reset: bool,
}

impl JobMeter {
    /// Starts to measure a job of this program.
    pub fn start(program: u32, now: Instant) -> JobMeter {
        JobMeter { program, started_at: now, since_tick: None }
    }

    /// The longest wait until the next [`look`](Self::look).
    pub fn until_look(&self, at_most: Duration) -> Duration {
        match self.since_tick {
            Some(_) => at_most,
            None => at_most.min(TICK.saturating_sub(self.started_at.elapsed())),
        }
    }

    /// Reads the program's counts if the job is no longer a short one.
    pub fn look(&mut self, now: Instant) {
        if self.since_tick.is_some() {
            return;
        }
        let after = now - self.started_at;
        if after >= TICK {
            // The peak is that of the whole life of a program, unless it is set back to what is resident now
            // (https://man7.org/linux/man-pages/man5/proc_pid_clear_refs.5.html).
            let is_peak_reset = fs::write(format!("/proc/{}/clear_refs", self.program), "5").is_ok();
            self.since_tick = Some(Reading { after, cpu: cpu_of(self.program), is_peak_reset });
        }
    }

    /// What the job has used until now. Call it before the program is reaped.
    pub fn used(&self, now: Instant) -> Usage {
        let Some(before) = &self.since_tick else {
            return Usage { cpu: cfg!(target_os = "linux").then(|| now - self.started_at), peak_memory: None };
        };
        let cpu = before.cpu.zip(cpu_of(self.program)).map(|(before, now)| now.saturating_sub(before));
        let peak_memory = if before.is_peak_reset { peak_of(&self.program.to_string()) } else { None };
        Usage { cpu: cpu.map(|cpu| before.after + cpu), peak_memory }
    }
}

/// The CPU time of a process since its start, with the children that it has waited for.
fn cpu_of(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    cpu_in(&stat, ticks_per_second())
}

/// Reads utime, stime, cutime and cstime (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
fn cpu_in(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    // The second field is the file's name, which may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<u64> =
        fields.split_ascii_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    let [user, system, children, children_system] = ticks[..] else { return None };
    let ticks = user + system + children + children_system;
    Some(Duration::from_millis(ticks * 1_000 / ticks_per_second))
}

/// The peak of a process's resident memory in bytes. `None` for a process that has exited, and on systems other than
/// Linux.
pub fn peak_of(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(unix)]
fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(not(unix))]
fn ticks_per_second() -> u64 {
    100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_process_includes_its_children_and_any_file_name_is_passed_over() {
        let stat = "4711 (a) b 9 (c) S 1 4711 4711 0 -1 4194560 1 2 3 4 150 25 1000 5 20 0 1 0 99 1 2";
        assert_eq!(cpu_in(stat, 100), Some(Duration::from_millis(11_800)));
        assert_eq!(cpu_in(stat, 1_000), Some(Duration::from_millis(1_180)));
        assert_eq!(cpu_in("4711 (a) S 1 2", 100), None);
        assert_eq!(cpu_in("", 100), None);
    }
}
