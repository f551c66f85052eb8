//! As the first process of a container: what has lost its parent is this process's to take leave of.
//!
//! When a program has ended, what it leaves in its group is killed, and the kernel hands that over to process 1. There
//! it stays as a zombie until somebody asks how it has ended; as many as the container may have processes, and nothing
//! more can be started. Elsewhere process 1 is an init, which does this.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};

/// How often they are looked for.
const PAUSE: Duration = Duration::from_secs(1);

/// Begins to take leave of them, where that is this process's business.
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

/// Zombies of this process that it has not started: its own programs and the guard lead their groups, and whoever has
/// started those waits for them.
fn orphans() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|process| is_orphan(*process)).filter_map(Pid::from_raw).collect()
}

fn is_orphan(process: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // `pid (name) state ppid pgrp …`, and a name may have parentheses and spaces.
    let mut fields = status.rsplit(')').next().unwrap_or_default().split_whitespace();
    let (state, parent, group) = (fields.next(), fields.next(), fields.next());
    state == Some("Z") && parent == Some("1") && group != Some(process.to_string().as_str())
}
