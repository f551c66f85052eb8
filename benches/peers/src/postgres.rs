//! The PostgreSQL cluster that `run` has started.

use std::time::Duration;

/// Clock ticks a second in `/proc`: 100 on every Linux there is.
const TICKS_PER_SECOND: u64 = 100;

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: start this by benches/peers/run"))
}

pub fn database_url() -> String {
    setting("PEERS_DATABASE_URL")
}

/// The CPU time so far of the postmaster and all its processes; of those that have ended only what it has waited for.
pub fn server_cpu() -> Duration {
    let postmaster: u64 = setting("PEERS_POSTMASTER").parse().expect("a process id");
    let mut ticks = 0;
    for entry in std::fs::read_dir("/proc").expect("Linux").flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue; // no process, or one that has ended
        };
        // The name, in parentheses, may have spaces in it.
        let Some((id, (_, rest))) = stat.split_once(' ').and_then(|(id, rest)| Some((id, rest.rsplit_once(") ")?)))
        else {
            continue;
        };
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        if id.parse() == Ok(postmaster) {
            ticks += number(11) + number(12) + number(13) + number(14);
        } else if number(1) == postmaster {
            ticks += number(11) + number(12);
        }
    }
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}
