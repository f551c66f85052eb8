//! A control group for each program.
//!
//! ```text
//! the group in which the worker was started
//! ├── readpast-worker     the worker itself (only version 2, in which a group with limited sub-groups has no processes)
//! └── readpast-<id>       one per worker; locked while it runs
//!     ├── 1               a program and everything that it has started
//!     └── 2
//! ```

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use readpast::crates::uuid::Uuid;
use rustix::fs::{FlockOperation, flock};
use rustix::process::getpid;

use super::group_directory::{GroupDirectory, kill_all, kill_and_remove, remove};
use super::own_group::{OwnGroup, Version};

/// The name of all groups that a worker makes begins like this.
const PREFIX: &str = "readpast-";

/// The group of the worker itself.
const WORKER: &str = "readpast-worker";

/// How long to wait for killed processes at the end.
const END: Duration = Duration::from_secs(2);

/// The groups of this worker's programs.
pub struct ProgramGroups {
    group: GroupDirectory,
    /// Tells other workers that this one is running.
    _lock: OwnedFd,
    /// The group that this worker has left for one below.
    left: Option<GroupDirectory>,
    /// The number of the next program's group.
    next: AtomicU64,
    /// Groups whose processes were killed and have not ended yet.
    ending: Mutex<Vec<GroupDirectory>>,
}

impl ProgramGroups {
    /// Makes the group of all programs, and removes groups that killed workers have left.
    ///
    /// # Errors
    ///
    /// Why this process cannot limit memory by groups, in words that follow "because".
    pub fn make() -> Result<ProgramGroups, String> {
        let OwnGroup { version, directory } = OwnGroup::find()?;
        let own = GroupDirectory { version, path: directory };
        let cannot = |error: io::Error| format!("no group can be made in {}: {error}", own.path.display());
        // One worker after the other: another one that starts now would remove this one's group before it is locked.
        let _starting = lock(&own.path, FlockOperation::LockExclusive).map_err(cannot)?;
        remove_left(&own.path);
        let moved = match version {
            Version::One => false,
            Version::Two => let_subgroups_be_limited(&own)?,
        };
        let path = own.path.join(format!("{PREFIX}{}", Uuid::new_v4().simple()));
        let group = GroupDirectory::make(version, path).map_err(cannot)?;
        let lock = lock(&group.path, FlockOperation::NonBlockingLockExclusive).map_err(cannot)?;
        if version == Version::Two {
            group.limit_subgroups(true).map_err(cannot)?;
        }
        let left = moved.then_some(own);
        let groups = ProgramGroups { group, _lock: lock, left, next: AtomicU64::new(1), ending: Mutex::default() };
        Ok(groups)
    }

    pub fn path(&self) -> &Path {
        &self.group.path
    }

    pub fn version(&self) -> Version {
        self.group.version
    }

    /// A group with this limit for one program.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn one(self: &Arc<Self>, limit: u64) -> io::Result<ProgramGroup> {
        let number = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let directory = GroupDirectory::make(self.version(), self.path().join(number))?;
        let group = ProgramGroup { groups: self.clone(), directory: Some(directory), limit, told: 0 };
        let directory = group.directory();
        directory.limit(limit, false)?;
        directory.set_up();
        Ok(group)
    }

    /// Removes a group whose processes were killed, or later, if they have not ended yet.
    fn remove(&self, group: GroupDirectory) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.retain(|group| remove(&group.path).is_err());
        if remove(&group.path).is_err() {
            ending.push(group);
        }
    }
}

impl ProgramGroups {
    /// Kills all programs and removes their groups. Can be called twice.
    pub fn end(&self) {
        if !kill_and_remove(self.path(), END) {
            tracing::warn!(group = %self.path().display(), "killed programs have not exited; their control group is left");
        }
        if let Some(left) = &self.left {
            go_back(left);
        }
    }
}

impl Drop for ProgramGroups {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes the group of a killed worker's programs, with all processes in it. Called by its guard, which is in the same
/// group as the worker was.
pub fn remove_after(programs: &Path) {
    kill_and_remove(programs, END);
    if let Some(own) = programs.parent().filter(|own| own.join(WORKER).exists()) {
        go_back(&GroupDirectory { version: Version::Two, path: own.to_owned() });
    }
}

/// Goes back to the group in which the worker was started, so that nothing is left. This fails while other groups with
/// limits are there.
fn go_back(own: &GroupDirectory) {
    if own.limit_subgroups(false).and_then(|()| own.enter(getpid())).is_ok() {
        let _ = fs::remove_dir(own.path.join(WORKER));
    }
}

/// The group of one program and of everything that it has started. Dropping it kills them and removes the group.
pub struct ProgramGroup {
    groups: Arc<ProgramGroups>,
    /// `None` only after the drop.
    directory: Option<GroupDirectory>,
    limit: u64,
    /// The killed processes that were reported.
    told: u64,
}

impl ProgramGroup {
    fn directory(&self) -> &GroupDirectory {
        self.directory.as_ref().expect("taken only by the drop")
    }

    /// A file through which a process enters the group.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn entrance(&self) -> io::Result<OwnedFd> {
        self.directory().entrance()
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Changes the limit.
    ///
    /// # Errors
    ///
    /// If it cannot be changed, for example because the group uses more.
    pub fn set_limit(&mut self, limit: u64) -> io::Result<()> {
        // Version 2 would kill processes.
        if limit < self.limit && self.directory().usage().is_none_or(|usage| usage > limit) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.directory().limit(limit, limit > self.limit)?;
        self.limit = limit;
        Ok(())
    }

    /// Whether processes were killed since the last call because the group has reached its limit. They may also have
    /// been killed because memory ran out around the group.
    pub fn has_killed(&mut self) -> bool {
        let kills = self.directory().kills();
        let has_killed = kills > std::mem::replace(&mut self.told, kills);
        has_killed && self.directory().was_full(self.limit)
    }

    /// The most memory that the group has used.
    pub fn peak(&self) -> Option<u64> {
        self.directory().peak()
    }

    /// Kills all processes.
    pub fn kill(&self) {
        kill_all(&self.directory().path);
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.take() {
            kill_all(&directory.path);
            self.groups.remove(directory);
        }
    }
}

fn lock(group: &Path, how: FlockOperation) -> io::Result<OwnedFd> {
    let directory = OwnedFd::from(File::open(group)?);
    flock(&directory, how)?;
    Ok(directory)
}

/// Removes the groups of workers that were killed with their guards.
fn remove_left(own: &Path) {
    let entries = fs::read_dir(own).into_iter().flatten().flatten();
    for entry in entries {
        let is_of_programs =
            entry.file_name() != WORKER && entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let path = entry.path();
        if is_of_programs && lock(&path, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let is_removed = kill_and_remove(&path, END);
            tracing::info!(group = %path.display(), is_removed, "a killed worker has left programs or their control group");
        }
    }
}

/// Lets the sub-groups of the worker's own group have limits. Returns whether the worker had to move into a sub-group of
/// its own ("no internal processes" in the kernel's documentation).
fn let_subgroups_be_limited(own: &GroupDirectory) -> Result<bool, String> {
    let at = own.path.display();
    let controllers = fs::read_to_string(own.path.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|controller| controller == "memory") {
        return Err(format!("the control group {at} does not have the memory controller"));
    }
    let Err(error) = own.limit_subgroups(true) else { return Ok(false) };
    if error.raw_os_error() != Some(rustix::io::Errno::BUSY.raw_os_error()) {
        return Err(format!("the control group {at} is not delegated to this process: {error}"));
    }
    let cannot = |error: io::Error| format!("no group can be made in {at}: {error}");
    // The guard is started later.
    if own.processes().map_err(cannot)? != [getpid().as_raw_pid()] {
        return Err(format!("other processes are in the control group {at}"));
    }
    let path = own.path.join(WORKER);
    let worker = match GroupDirectory::make(own.version, path.clone()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => GroupDirectory { version: own.version, path },
        made => made.map_err(cannot)?,
    };
    worker.enter(getpid()).map_err(cannot)?;
    own.limit_subgroups(true).map_err(cannot)?;
    Ok(true)
}
