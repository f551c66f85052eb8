//! Rules that the simulation restates because they stand beside I/O or in T-SQL. Each names the file where it is the
//! truth; [`check`] fails where that file says something else.
//!
//! What is not here is not restated but run: `worker.rs` lists the worker's own types.

use crate::world::{MS, Micros, SECOND};

/// `src/connection/idle_trust.rs`: a connection that idled for so long is made anew.
pub const MAX_IDLE: Micros = 60 * SECOND;

/// `src/worker/claim/prefetcher.rs`: when a worker that waits for jobs claims whatever the watcher says.
pub const CLAIM_ANYWAY: Micros = 300 * SECOND;

/// `src/worker/claim/watcher.rs`: how long one call waits in SQL Server.
pub const WAIT: Micros = 5 * SECOND;

/// The same file: how often a worker looks for which there is no place among those that wait.
pub const LOOK_EVERY: Micros = 10 * SECOND;

/// `sql/235_await_jobs.sql`: how many sessions wait on an own server, and how many of them for one queue.
pub const ALL_PLACES: usize = 64;
pub const PLACES: usize = ALL_PLACES.div_ceil(2);

/// The same file: the shortest delay before a look.
pub const SHORTEST_LOOK: Micros = 10 * MS;

/// The same file: the delay of a session that waits alone, and by how much each further one lengthens the delays of all.
pub const SHARE_OF_LOOKS: Micros = 16 * MS;
pub const FURTHER_SHARE: Micros = SHARE_OF_LOOKS + 4 * MS;

/// `sql/290_tend.sql`, `sql/320_heartbeat.sql`: for how long the duties are kept.
pub const DUTIES: Micros = 3 * SECOND;

/// `sql/290_tend.sql`: nobody was served for longer than this: an outage.
pub const GAP: Micros = 2 * SECOND;

/// The same file: how many leases a worker gets unasked between two heartbeats.
pub const UNSERVED: u8 = 3;

/// `src/worker/duties/maintenance.rs`: how many jobs and workers one call of promote or reap takes.
pub const MAINTENANCE_BATCH: usize = 1_000;

/// The same file.
pub const EXPIRE_EVERY: Micros = 60 * SECOND;

/// `src/worker/lease/validity.rs`: the longest pause between two tries to renew a lease.
pub const LONGEST_SLEEP: Micros = SECOND;

/// `src/worker/lease/lease_keeper.rs`: the shortest.
pub const RENEW_AGAIN: Micros = 50 * MS;

/// `src/worker/finish/finish_tries.rs`: the pauses before an acknowledgement is repeated.
pub const FINISH_AGAIN: (Micros, Micros) = (20 * MS, 5 * SECOND);

/// `src/worker/worker.rs`: how many acknowledgements are under way at once.
pub const FINISH_SESSIONS: usize = 2;

/// A file, its text, and what it must say for the rules above to be its own.
type Said = (&'static str, &'static str, String);

fn said() -> Vec<Said> {
    let idle = ("src/connection/idle_trust.rs", include_str!("../../src/connection/idle_trust.rs"));
    let prefetcher = ("src/worker/claim/prefetcher.rs", include_str!("../../src/worker/claim/prefetcher.rs"));
    let watcher = ("src/worker/claim/watcher.rs", include_str!("../../src/worker/claim/watcher.rs"));
    let maintenance = ("src/worker/duties/maintenance.rs", include_str!("../../src/worker/duties/maintenance.rs"));
    let validity = ("src/worker/lease/validity.rs", include_str!("../../src/worker/lease/validity.rs"));
    let keeper = ("src/worker/lease/lease_keeper.rs", include_str!("../../src/worker/lease/lease_keeper.rs"));
    let retries = ("src/worker/finish/finish_tries.rs", include_str!("../../src/worker/finish/finish_tries.rs"));
    let worker = ("src/worker/worker.rs", include_str!("../../src/worker/worker.rs"));
    let await_jobs = ("sql/235_await_jobs.sql", include_str!("../../sql/235_await_jobs.sql"));
    let tend = ("sql/290_tend.sql", include_str!("../../sql/290_tend.sql"));
    let heartbeat = ("sql/320_heartbeat.sql", include_str!("../../sql/320_heartbeat.sql"));
    let seconds =
        |name: &str, time: Micros| format!("const {name}: Duration = Duration::from_secs({});", time / SECOND);
    let again = format!(
        "(Duration, Duration) = (Duration::from_millis({}), Duration::from_secs({}));",
        FINISH_AGAIN.0 / MS,
        FINISH_AGAIN.1 / SECOND
    );
    let all = [
        (idle, seconds("MAX_IDLE", MAX_IDLE)),
        (prefetcher, seconds("CLAIM_ANYWAY", CLAIM_ANYWAY)),
        (prefetcher, "sleep(if watches { CLAIM_ANYWAY } else { pause })".to_string()),
        (watcher, seconds("WAIT", WAIT)),
        (watcher, seconds("LOOK_EVERY", LOOK_EVERY)),
        (watcher, "self.pause(jittered(LOOK_EVERY))".to_string()),
        (await_jobs, format!("@places int = {ALL_PLACES},")),
        (await_jobs, "SET @own = (@most_sessions + 1) / 2;".to_string()),
        (await_jobs, format!("@share_ms int = {}", SHARE_OF_LOOKS / MS)),
        (await_jobs, format!("WHEN 0 THEN @share_ms + {} ELSE 0 END;", (FURTHER_SHARE - SHARE_OF_LOOKS) / MS)),
        (await_jobs, format!("CASE WHEN @delay_ms < {0} THEN {0} ELSE @delay_ms END;", SHORTEST_LOOK / MS)),
        (watcher, "least = self.state.config.poll_min.min(self.wait);".to_string()),
        (tend, format!("DATEADD(SECOND, {}, @now)", DUTIES / SECOND)),
        (tend, format!("IF @gap_ms > {}", GAP / MS)),
        (tend, format!("unserved < {UNSERVED}\n        AND @gap_ms > lease_ms / 2 AND lease_until <")),
        (heartbeat, format!("until = DATEADD(SECOND, {}, @now)", DUTIES / SECOND)),
        (
            maintenance,
            format!("const BATCH: usize = {};", crate::report::number(MAINTENANCE_BATCH as f64).replace(',', "_")),
        ),
        (maintenance, seconds("EXPIRE_EVERY", EXPIRE_EVERY)),
        (maintenance, "self.due_at = now + jittered(self.every);".to_string()),
        (validity, seconds("LONGEST_SLEEP", LONGEST_SLEEP)),
        (keeper, format!("Pauses::new(Duration::from_millis({}), interval.min(LONGEST_SLEEP));", RENEW_AGAIN / MS)),
        (retries, again),
        (worker, format!("const FINISH_SESSIONS: usize = {FINISH_SESSIONS};")),
    ];
    all.into_iter().map(|((file, text), said)| (file, text, said)).collect()
}

/// The rules that have changed since they were restated.
pub fn check() -> Vec<String> {
    let changed = said().into_iter().filter(|(_, text, said)| !text.contains(said.as_str()));
    changed.map(|(file, _, said)| format!("{file} does not say any more: {said}")).collect()
}
