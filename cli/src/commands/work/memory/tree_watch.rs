//! Ends programs whose resident memory is above their limit, where control groups cannot do it.
//!
//! A thread looks at all processes of the machine ten times a second while programs run. A program can therefore exceed
//! its limit for a moment. Memory that processes share counts for each of them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::process_tree::{Running, resident, tree};

/// How often to look.
const LOOK: Duration = Duration::from_millis(100);

/// The watched programs.
#[derive(Default)]
pub struct TreeWatch {
    programs: Mutex<Programs>,
    /// Signalled when a program is added or the watch ends.
    changed: Condvar,
}

#[derive(Default)]
struct Programs {
    /// By process group.
    running: HashMap<i32, Watched>,
    has_ended: bool,
}

#[derive(Default)]
struct Watched {
    limit: u64,
    peak: u64,
    is_killed: bool,
    /// The processes seen so far.
    known: HashSet<(i32, u64)>,
}

/// A watched program, until dropped.
pub struct WatchedTree {
    watch: Arc<TreeWatch>,
    group: Pid,
}

impl TreeWatch {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start() -> io::Result<Arc<TreeWatch>> {
        let watch = Arc::new(TreeWatch::default());
        let watching = watch.clone();
        thread::Builder::new().name("readpast-memory".to_owned()).spawn(move || watching.keep_looking())?;
        Ok(watch)
    }

    /// Watches a process group and all descendants of its processes.
    pub fn watch(self: &Arc<Self>, group: Pid, limit: u64) -> WatchedTree {
        self.lock().running.insert(group.as_raw_pid(), Watched { limit, ..Watched::default() });
        self.changed.notify_one();
        WatchedTree { watch: self.clone(), group }
    }

    /// Ends the thread.
    pub fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_one();
    }

    fn keep_looking(&self) {
        loop {
            let mut programs = self.lock();
            while programs.running.is_empty() && !programs.has_ended {
                programs = self.changed.wait(programs).unwrap_or_else(PoisonError::into_inner);
            }
            if programs.has_ended {
                return;
            }
            let all = Running::all();
            // Under the lock: a program that has been reaped is no longer watched, so its number is not another's.
            programs.running.iter_mut().for_each(|(group, watched)| watched.look(*group, &all));
            drop(programs);
            thread::sleep(LOOK);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn look(&mut self, group: i32, all: &[Running]) {
        let found = tree(all, group, &self.known);
        self.known = found.iter().map(|one| (one.id, one.started_at)).collect();
        let resident = found.iter().map(|one| one.resident).sum();
        self.peak = self.peak.max(resident);
        if resident <= self.limit {
            return;
        }
        self.is_killed = true;
        // They may have ended meanwhile.
        if let Some(group) = Pid::from_raw(group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        for process in found.iter().filter_map(|one| Pid::from_raw(one.id)) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

impl WatchedTree {
    fn with<T>(&self, look: impl FnOnce(&mut Watched) -> T) -> T {
        look(self.watch.lock().running.entry(self.group.as_raw_pid()).or_default())
    }

    pub fn limit(&self) -> u64 {
        self.with(|watched| watched.limit)
    }

    /// Changes the limit.
    ///
    /// # Errors
    ///
    /// If the program may use more.
    pub fn set_limit(&self, limit: u64) -> io::Result<()> {
        let program = self.group.as_raw_pid();
        self.with(|watched| {
            if limit < watched.limit {
                // It may have grown since the last look.
                watched.peak = watched.peak.max(resident(program));
                if watched.peak > limit {
                    return Err(io::ErrorKind::ResourceBusy.into());
                }
            }
            watched.limit = limit;
            Ok(())
        })
    }

    /// The most resident memory that was seen.
    pub fn peak(&self) -> u64 {
        self.with(|watched| watched.peak)
    }

    /// Whether the program was killed at its limit.
    pub fn is_killed(&self) -> bool {
        self.with(|watched| watched.is_killed)
    }
}

impl Drop for WatchedTree {
    fn drop(&mut self) {
        self.watch.lock().running.remove(&self.group.as_raw_pid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tree_over_its_limit_is_killed() {
        use std::io::Read;
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};

        let mut children = [0, u64::MAX].map(|limit| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = shell.process_group(0).spawn().unwrap();
            // A program that has only just been started may have no resident memory yet.
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            (child, limit)
        });
        let all = Running::all();
        for (child, limit) in &mut children {
            let mut watched = Watched { limit: *limit, ..Watched::default() };
            watched.look(child.id() as i32, &all);
            assert_eq!(watched.is_killed, *limit == 0);
            assert!(watched.peak > 0);
        }
        let [(killed, _), (other, _)] = &mut children;
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.wait().unwrap()), Some(9));
        assert_eq!(other.try_wait().unwrap(), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
