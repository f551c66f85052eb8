//! Reaps leftover processes as the first process of a container.
//!
//! When a program has exited, the remaining processes of its group are killed, and process 1 inherits them. They stay
//! zombies until process 1 waits for them. Without that, zombies would fill the container up to its process limit.
//! Outside of containers, process 1 is an init, which does this.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};

/// How often to search for orphans.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts reaping, if this is process 1.
pub fn adopt() {
    if getpid() == Pid::INIT {
        thread::spawn(|| {
            loop {
                thread::sleep(PAUSE);
                for orphan in orphans() {
                    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                    let _ = waitid(WaitId::Pid(orphan), options); // nobody wants to know
                }
            }
        });
    }
}

/// Zombie children that this process has not started. Its own programs and the guard are leaders of their groups, and
/// other code waits for them.
fn orphans() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|process| is_orphan(*process)).filter_map(Pid::from_raw).collect()
}

fn is_orphan(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // `pid (name) state ppid pgrp …`; a name may have parentheses and spaces.
    let mut fields = status.rsplit(')').next().unwrap_or_default().split_whitespace();
    let (state, parent, group) = (fields.next(), fields.next(), fields.next());
    state == Some("Z") && parent == Some("1") && group != Some(process.to_string().as_str())
}
