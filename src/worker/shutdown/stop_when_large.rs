//! Stops a worker whose process has become too large, so that whatever supervises it starts a new one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::worker::state::WorkerState;

/// How often to look. The first look is after this time, so that each process runs jobs, even if its limit is too low.
const INTERVAL: Duration = Duration::from_secs(1);

/// Stops the worker gracefully when the resident memory of this process is above `worker.recycle_above`.
pub(in crate::worker) async fn stop_when_large(state: Arc<WorkerState>) {
    let limit = state.config.recycle_above;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let resident = resident().unwrap_or_default();
        if resident > limit {
            state.is_recycled.store(true, Ordering::Relaxed);
            state.stop.stop();
            // Last, because the subscriber may panic.
            tracing::warn!(
                resident,
                limit,
                "the worker is stopping because its process is larger than worker.recycle_above"
            );
            return;
        }
    }
}

/// The resident memory of this process in bytes; `None` if the system does not tell it. (proc_pid_status(5))
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn the_resident_memory_is_known() {
        let held = vec![1_u8; 64 << 20];
        assert!(super::resident().unwrap() > std::hint::black_box(held).len() as u64);
    }
}
