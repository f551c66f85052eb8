//! What a process has used so far: CPU time; context switches and resident memory where the system tells them.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of all threads of this process since its start, user and system.
pub fn cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// The same without the calling thread, which only looks at the others.
pub fn others_cpu() -> Duration {
    cpu().saturating_sub(thread_cpu())
}

/// The CPU time of the calling thread since its start.
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The resident memory of this process in bytes; `None` where there is no `/proc` (only Linux has it).
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// How often the threads of workers were taken off a core.
#[derive(Debug, Clone, Copy)]
pub struct Switches {
    /// Because they waited for something, which then woke them.
    pub voluntary: f64,
    /// For whatever reason: also because another thread was woken on that core, of this process or of another.
    pub all: f64,
}

impl Switches {
    /// Of the workers' threads that this process has now, which are told by their names; `None` where there is no
    /// `/proc`.
    pub fn now() -> Option<Switches> {
        let mut switches = Switches { voluntary: 0.0, all: 0.0 };
        for thread in std::fs::read_dir("/proc/self/task").ok()? {
            // One that ends meanwhile does not count.
            let Ok(status) = std::fs::read_to_string(thread.ok()?.path().join("status")) else { continue };
            if !status.starts_with("Name:\treadpast-") {
                continue;
            }
            let count = |name: &str| -> Option<f64> {
                status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            };
            let voluntary = count("voluntary_ctxt_switches:")?;
            switches.voluntary += voluntary;
            switches.all += voluntary + count("nonvoluntary_ctxt_switches:")?;
        }
        Some(switches)
    }

    /// Since an earlier moment, for each of so many jobs.
    pub fn since(self, before: Switches, jobs: f64) -> Switches {
        Switches { voluntary: (self.voluntary - before.voluntary) / jobs, all: (self.all - before.all) / jobs }
    }
}
