//! Leaves no program running when the worker is killed. The guard is a small process that waits until the worker has
//! exited, and then kills the worker's programs. If the guard itself is killed, a thread of the worker starts another
//! immediately.
//!
//! ```text
//! readpast work ──(which process groups run, on a socket)──▶ readpast guard
//!      │ killed: the kernel closes the socket                      │
//!      ▼                                                           ▼
//! its programs and what they have started ◀──SIGKILL── the groups, and all with READPAST_RUN of this run
//! ```
//!
//! The guard also searches for processes with the variable READPAST_RUN, because a process may have left its group, and
//! a program may have been started just when the worker died.

use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use readpast::crates::uuid::Uuid;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::job_variables::RUN;
use crate::exit::Exit;

/// Sent at a clean shutdown: no program is left, and processes that outlive their job are not killed.
const GOODBYE: i32 = 0;

/// Sent by the guard once it ignores the signals that ask processes to exit.
const READY: &[u8; 1] = b".";

/// If a guard has left thousands of messages unread, so that a write waits for this long, it is replaced: all jobs wait
/// for the write.
const WRITE: Duration = Duration::from_secs(1);

/// Time limit for the guard's start.
const START: Duration = Duration::from_secs(30);

/// Time limit for the guard's exit: it may have programs to kill and files to remove.
const END: Duration = Duration::from_secs(5);

/// The pause between attempts to replace a guard: the system may lack processes.
const AGAIN: Duration = Duration::from_secs(1);

/// The worker's side of its guard.
pub struct Guard {
    /// The id of this run of the worker.
    run: String,
    /// Removed if the worker is killed.
    directory: Option<PathBuf>,
    /// The control group of the programs.
    control_group: Option<PathBuf>,
    watch: Mutex<Watch>,
}

struct Watch {
    process: Child,
    socket: UnixStream,
    groups: BTreeSet<i32>,
    /// The number of the current guard, which grows with each replacement.
    number: u64,
    /// Whether the worker no longer needs a guard.
    has_ended: bool,
}

impl Guard {
    /// Starts the guard. If the worker is killed, it removes `directory`, and `control_group` with its processes.
    ///
    /// # Errors
    ///
    /// If the process or the thread cannot be started.
    pub fn start(directory: Option<&Path>, control_group: Option<&Path>) -> io::Result<Arc<Guard>> {
        let run = Uuid::new_v4().to_string();
        let (directory, control_group) = (directory.map(Path::to_owned), control_group.map(Path::to_owned));
        let (process, socket) = start_process(&run, directory.as_deref(), control_group.as_deref())?;
        let watch = Mutex::new(Watch { process, socket, groups: BTreeSet::new(), number: 1, has_ended: false });
        let guard = Arc::new(Guard { run, directory, control_group, watch });
        let watched = guard.clone();
        thread::Builder::new().name("readpast-guard".to_owned()).spawn(move || watched.replace_when_killed())?;
        Ok(guard)
    }

    /// `READPAST_RUN` of this run's programs.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The programs that are running, and what they have started, as `sleep (4711)`. Finds them only on Linux.
    pub fn left(&self) -> Vec<String> {
        let name = |process: &Pid| {
            let pid = process.as_raw_pid();
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default(); // it may have ended
            format!("{} ({pid})", name.trim_end())
        };
        marked(&OsString::from(format!("{RUN}={}", self.run))).iter().map(name).collect()
    }

    /// Kills this group when the worker dies, from now on.
    ///
    /// # Errors
    ///
    /// If the guard was killed and cannot be replaced.
    pub fn watch(&self, group: Pid) -> io::Result<()> {
        let group = group.as_raw_pid();
        let mut watch = self.lock();
        watch.groups.insert(group);
        match watch.send(group) {
            Ok(()) => Ok(()),
            Err(_) => self.replace(&mut watch),
        }
    }

    /// Records that the group has ended. Call this before waiting for the group's first process, because after that its
    /// number can be reused.
    pub fn forget(&self, group: Pid) {
        let group = group.as_raw_pid();
        let mut watch = self.lock();
        watch.groups.remove(&group);
        if watch.send(-group).is_err() {
            // The guard was killed, or does not read. If it missed this message and then saw the end of the socket, it
            // would kill a group that may be another program's by now. It is therefore killed, and the thread replaces
            // it.
            let _ = watch.process.kill();
        }
    }

    /// Ends the guard, because the worker stops. If no program is left, the guard kills nothing.
    pub fn end(&self) {
        let mut watch = self.lock();
        watch.has_ended = true;
        if watch.groups.is_empty() {
            let _ = watch.send(GOODBYE); // it may have been killed
        }
        let _ = watch.socket.shutdown(std::net::Shutdown::Write);
        let _ = watch.socket.set_read_timeout(Some(END)); // refused only for zero
        if !waits_for_end(&watch.socket) {
            tracing::warn!(after = ?END, "the guard does not exit; killing it");
            let _ = watch.process.kill();
        }
        let _ = watch.process.wait();
    }

    /// Replaces each guard that exits, until the worker needs none.
    fn replace_when_killed(&self) {
        loop {
            let watch = self.lock();
            let (number, socket) = (watch.number, watch.socket.try_clone());
            drop(watch);
            let watched = socket.map(|socket| waits_for_end(&socket));
            let mut watch = self.lock();
            if watch.has_ended {
                return;
            }
            let replaced = match watched {
                // The start of a program may have replaced it already.
                Ok(_) if watch.number == number => self.replace(&mut watch),
                other => other.map(drop),
            };
            drop(watch);
            if let Err(error) = replaced {
                tracing::error!(%error, "cannot watch or replace the guard; retrying");
                thread::sleep(AGAIN);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, watch: &mut Watch) -> io::Result<()> {
        tracing::warn!("the guard was killed or is stuck; restarting it");
        // Killed first, because it must not take the end of the socket for the worker's exit.
        let _ = watch.process.kill();
        let _ = watch.process.wait();
        let (process, socket) = start_process(&self.run, self.directory.as_deref(), self.control_group.as_deref())?;
        (watch.process, watch.socket) = (process, socket);
        watch.number += 1;
        let groups: Vec<i32> = watch.groups.iter().copied().collect();
        groups.into_iter().try_for_each(|group| watch.send(group))?;
        tracing::info!("a new guard is running");
        Ok(())
    }
}

impl Watch {
    fn send(&mut self, message: i32) -> io::Result<()> {
        self.socket.write_all(&message.to_ne_bytes())
    }
}

/// Returns true when the guard has exited, and false at the read timeout.
fn waits_for_end(mut socket: &UnixStream) -> bool {
    loop {
        match socket.read(&mut [0]) {
            Ok(0) => return true,
            Ok(_) => {} // it says nothing more
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return false,
                _ => return true, // it has left something unread
            },
        }
    }
}

/// Starts this program again in its own process group, without the terminal's Ctrl-C. Its environment is empty, so it
/// does not count as a program of an outer worker.
fn start_process(run: &str, directory: Option<&Path>, control_group: Option<&Path>) -> io::Result<(Child, UnixStream)> {
    let (mut ours, its) = UnixStream::pair()?;
    ours.set_write_timeout(Some(WRITE))?;
    ours.set_read_timeout(Some(START))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["guard", "--run", run]).env_clear().process_group(0);
    if let Some(directory) = directory {
        command.arg("--directory").arg(directory);
    }
    if let Some(control_group) = control_group {
        command.arg("--control-group").arg(control_group);
    }
    command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn()?;
    drop(command); // and with it our copy of its end of the socket
    if let Err(error) = ours.read_exact(&mut READY.clone()) {
        let _ = process.kill();
        let _ = process.wait();
        return Err(io::Error::new(error.kind(), format!("the guard did not start: {error}")));
    }
    ours.set_read_timeout(None)?; // its end may be a long time off
    Ok((process, ours))
}

/// Kill what a killed worker leaves behind. Started by `work`.
#[derive(Debug, Args)]
pub struct GuardCommand {
    /// The run whose programs are killed
    #[arg(long)]
    run: String,
    /// Deleted if the worker was killed
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Removed with its processes if the worker was killed
    #[arg(long)]
    control_group: Option<PathBuf>,
}

impl GuardCommand {
    pub async fn run(self) -> Result<Exit> {
        // `killall -9 readpast` is meant for the worker. (The name of the first thread is that of the process.)
        rustix::thread::set_name(&CString::new("rp-guard")?)?;
        let ignored = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        let _ignored = ignored.map(signal);
        // Its standard input is a socket, on which it answers.
        let mut socket = UnixStream::from(rustix::io::dup(io::stdin())?);
        socket.write_all(READY)?;
        let Some(groups) = left_groups(&mut socket) else {
            return Ok(Exit::Ok);
        };
        for group in groups {
            let _ = kill_process_group(group, Signal::KILL); // it may have ended
        }
        #[cfg(target_os = "linux")]
        if let Some(control_group) = &self.control_group {
            super::memory::remove_after(control_group);
        }
        kill_marked(&OsString::from(format!("{RUN}={}", self.run)));
        if let Some(directory) = self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
        Ok(Exit::Ok)
    }
}

/// Waits until the worker has exited. Returns the groups that are still running, or `None` after a clean shutdown.
fn left_groups(socket: &mut UnixStream) -> Option<Vec<Pid>> {
    let (mut groups, mut message) = (BTreeSet::new(), [0; 4]);
    while socket.read_exact(&mut message).is_ok() {
        match i32::from_ne_bytes(message) {
            GOODBYE => return None,
            group @ 1.. => drop(groups.insert(group)),
            group => drop(groups.remove(&-group)),
        }
    }
    Some(groups.into_iter().filter_map(Pid::from_raw).collect())
}

/// The most searches for marked processes, and the pause between them. The search is repeated, because a process may be
/// about to start others.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// Kills all processes with this variable in their environment, until none is left.
fn kill_marked(variable: &OsString) {
    let mut looks_without = 0;
    for _ in 0..LOOKS {
        let marked = marked(variable);
        for process in &marked {
            let _ = kill_process(*process, Signal::KILL); // it may have ended
        }
        // A process that is being started has the worker's environment for a moment.
        looks_without = if marked.is_empty() { looks_without + 1 } else { 0 };
        if looks_without == 2 {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the processes with this variable in their environment. Finds only those of the same user, and only on Linux.
fn marked(variable: &OsString) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let is_marked = |process: &Pid| {
        let environment = std::fs::read(format!("/proc/{}/environ", process.as_raw_pid())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable.as_encoded_bytes())
    };
    let processes = entries.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?));
    processes.filter(is_marked).collect()
}
