//! The files of one control group: limit, events, processes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::own_group::Version;

/// The file of the processes of a group. A process that writes 0 to it moves itself.
const PROCESSES: &str = "cgroup.procs";

/// Searches of a group for processes that are killed one by one: a process may be about to start others.
const LOOKS: u32 = 20;

/// The pause between two attempts to remove a group whose processes are ending.
const PAUSE: Duration = Duration::from_millis(5);

/// A control group, by its directory.
#[derive(Debug)]
pub struct GroupDirectory {
    pub version: Version,
    pub path: PathBuf,
}

impl GroupDirectory {
    /// # Errors
    ///
    /// If the group cannot be made.
    pub fn make(version: Version, path: PathBuf) -> io::Result<GroupDirectory> {
        fs::create_dir(&path)?;
        Ok(GroupDirectory { version, path })
    }

    /// A file through which a process enters the group.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn entrance(&self) -> io::Result<OwnedFd> {
        Ok(self.open(PROCESSES)?.into())
    }

    /// Moves a process into the group.
    ///
    /// # Errors
    ///
    /// If it cannot be moved.
    pub fn enter(&self, process: Pid) -> io::Result<()> {
        self.write(PROCESSES, process.as_raw_pid())
    }

    /// The processes directly in this group. Processes of other namespaces of process numbers count as 0.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn processes(&self) -> io::Result<Vec<i32>> {
        processes(&self.path)
    }

    /// Lets sub-groups have limits of memory (version 2).
    ///
    /// # Errors
    ///
    /// If the memory controller is missing, or the group has processes of its own.
    pub fn limit_subgroups(&self, whether: bool) -> io::Result<()> {
        self.write("cgroup.subtree_control", if whether { "+memory" } else { "-memory" })
    }

    /// Limits the memory. `is_raise`: the new limit is above the present one.
    ///
    /// # Errors
    ///
    /// If the limit cannot be written.
    pub fn limit(&self, bytes: u64, is_raise: bool) -> io::Result<()> {
        if self.version == Version::Two {
            return self.write("memory.max", bytes);
        }
        // The limit with swap is never below that of memory.
        let limits = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
        let [first, second] = if is_raise { [limits[1], limits[0]] } else { limits };
        for file in [first, second] {
            match self.write(file, bytes) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && file == limits[1] => {}
                written => written?,
            }
        }
        Ok(())
    }

    /// Keeps the group's memory out of swap space, and lets the group end as a whole, as far as the kernel can do that.
    pub fn set_up(&self) {
        // Kernels without swap do not have these files.
        let _ = match self.version {
            Version::One => self.write("memory.swappiness", 0), // some kernels do not count swap (`swapaccount=0`)
            Version::Two => self.write("memory.swap.max", 0).and(self.write("memory.oom.group", 1)),
        };
    }

    /// The processes of the group that the kernel has killed for lack of memory, in the group or around it.
    pub fn kills(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        self.read(file).and_then(|text| count(&text, "oom_kill")).unwrap_or_default()
    }

    /// Whether the group once had no memory left below this limit of its own.
    pub fn was_full(&self, limit: u64) -> bool {
        match self.version {
            // `memory.failcnt` stays 0 in new kernels. Allocations of several pages fail a little below the limit.
            Version::One => self.peak().is_none_or(|peak| peak >= limit - limit / 16),
            Version::Two => self.read("memory.events").and_then(|text| count(&text, "oom")).is_some_and(|oom| oom > 0),
        }
    }

    /// The most memory that the group has used.
    pub fn peak(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak", // since Linux 5.19
        };
        self.read(file)?.trim().parse().ok()
    }

    /// The memory that the group uses now.
    pub fn usage(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        };
        self.read(file)?.trim().parse().ok()
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }

    fn open(&self, file: &str) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.path.join(file))
    }

    fn write(&self, file: &str, value: impl ToString) -> io::Result<()> {
        self.open(file)?.write_all(value.to_string().as_bytes())
    }
}

/// The number after a name in a file with a line for each number.
fn count(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn processes(group: &Path) -> io::Result<Vec<i32>> {
    let text = fs::read_to_string(group.join(PROCESSES))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn subgroups(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// Kills all processes of a group and its sub-groups.
pub fn kill_all(group: &Path) {
    // Since Linux 5.14, in version 2. Unlike the search below, it also finds what is being started.
    let at_once = OpenOptions::new().write(true).open(group.join("cgroup.kill"));
    if at_once.and_then(|mut file| file.write_all(b"1")).is_ok() {
        return;
    }
    subgroups(group).iter().for_each(|group| kill_all(group));
    for _ in 0..LOOKS {
        let found = processes(group).unwrap_or_default();
        if found.is_empty() {
            return;
        }
        for process in found.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(process, Signal::KILL); // it may have ended
        }
    }
}

/// Removes a group with its sub-groups. Fails while processes are ending in it.
///
/// # Errors
///
/// If the group is there afterwards.
pub fn remove(group: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    if gone(fs::remove_dir(group)).is_ok() {
        return Ok(());
    }
    subgroups(group).iter().try_for_each(|group| remove(group))?;
    gone(fs::remove_dir(group))
}

/// Kills all processes of a group and its sub-groups, and removes it. Returns whether that took effect in time.
pub fn kill_and_remove(group: &Path, at_most: Duration) -> bool {
    let until = Instant::now() + at_most;
    loop {
        kill_all(group);
        if remove(group).is_ok() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        thread::sleep(PAUSE);
    }
}
