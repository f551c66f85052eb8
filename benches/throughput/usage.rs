//! What a process has used so far: CPU time, resident memory where the system tells it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of all threads of this process since its start, user and system.
pub fn cpu() -> Duration {
    read(ClockId::ProcessCPUTime)
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
