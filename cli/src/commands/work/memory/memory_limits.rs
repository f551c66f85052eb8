//! The limit of the memory of programs, by the best way that this process has.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::Result;
use readpast::Job;
use rustix::process::Pid;

use super::memory_means::MemoryMeans;
use super::own_group::Version;
use super::program_groups::{ProgramGroup, ProgramGroups};
use super::tree_watch::{TreeWatch, WatchedTree};
use crate::commands::work::before_exec;
use crate::exit::{Exit, failure};
use crate::texts::size;

/// Limits the memory of programs.
pub struct MemoryLimits {
    /// For jobs that do not state their need, in bytes.
    default: u64,
    by: By,
}

enum By {
    Groups(Arc<ProgramGroups>),
    Watch(Arc<TreeWatch>),
}

impl MemoryLimits {
    /// Chooses the way, and logs which one it is. Call this before other processes are started.
    ///
    /// # Errors
    ///
    /// If the wanted way is not possible.
    pub fn start(default: u64, means: Option<MemoryMeans>) -> Result<MemoryLimits> {
        let limit = size(default);
        let because = match means {
            Some(MemoryMeans::Watch) => "--memory-by watch".to_owned(),
            _ => match ProgramGroups::make() {
                Ok(groups) => {
                    let version = if groups.version() == Version::One { 1 } else { 2 };
                    let group = groups.path().display();
                    tracing::info!(limit, version, %group, "each program has a control group, which limits its memory");
                    return Ok(MemoryLimits { default, by: By::Groups(Arc::new(groups)) });
                }
                Err(because) => because,
            },
        };
        if means == Some(MemoryMeans::ControlGroup) {
            return Err(failure(Exit::Usage, format!("programs cannot have control groups, because {because}")));
        }
        tracing::info!(
            limit,
            because,
            "the memory of programs is looked at ten times a second, because they have no control groups; see docs/work.md"
        );
        Ok(MemoryLimits { default, by: By::Watch(TreeWatch::start()?) })
    }

    /// The directory of the programs' control groups.
    pub fn groups(&self) -> Option<&Path> {
        match &self.by {
            By::Groups(groups) => Some(groups.path()),
            By::Watch(_) => None,
        }
    }

    /// The limit of a job's program: what the job states that it needs, or else the default.
    pub fn of(&self, job: &Job) -> u64 {
        job.needs().and_then(|needs| needs.get("memory")).unwrap_or(self.default)
    }

    /// Removes the control groups, with all processes in them. Call this after the guard's end, because it is in one.
    pub fn end(&self) {
        match &self.by {
            By::Groups(groups) => groups.end(),
            By::Watch(watch) => watch.end(),
        }
    }

    /// Prepares a program with this limit.
    ///
    /// # Errors
    ///
    /// If its control group cannot be made.
    pub fn prepare(&self, limit: u64, command: &mut Command) -> io::Result<PreparedLimit> {
        match &self.by {
            By::Groups(groups) => {
                let group = groups.one(limit)?;
                before_exec::enter(command, group.entrance()?);
                Ok(PreparedLimit::Group(group))
            }
            By::Watch(watch) => Ok(PreparedLimit::Watch(watch.clone(), limit)),
        }
    }
}

/// The limit of a program that has not been started.
pub enum PreparedLimit {
    Group(ProgramGroup),
    Watch(Arc<TreeWatch>, u64),
}

impl PreparedLimit {
    /// Limits the program that was started with the command. `program` is also its process group.
    pub fn started(self, program: Pid) -> MemoryLimit {
        match self {
            PreparedLimit::Group(group) => MemoryLimit::Group(group),
            PreparedLimit::Watch(watch, limit) => MemoryLimit::Watch(watch.watch(program, limit)),
        }
    }
}

/// The limit of a running program and everything that it has started. Drop it before the program is reaped. With
/// control groups, dropping it kills them all.
pub enum MemoryLimit {
    Group(ProgramGroup),
    Watch(WatchedTree),
}

impl MemoryLimit {
    /// Changes the limit. Returns false if that is not possible, for example because the program uses more.
    pub fn set(&mut self, limit: u64) -> bool {
        let set = match self {
            MemoryLimit::Group(group) if group.limit() != limit => group.set_limit(limit),
            MemoryLimit::Watch(tree) if tree.limit() != limit => tree.set_limit(limit),
            _ => Ok(()),
        };
        set.is_ok()
    }

    /// Kills the program and everything that it has started, as far as the limit can tell what that is.
    pub fn kill(&self) {
        if let MemoryLimit::Group(group) = self {
            group.kill();
        }
    }

    /// If the program, or something that it has started, was killed at the limit since the last call: the job's error.
    pub fn exceeded(&mut self) -> Option<String> {
        let (is_exceeded, limit, peak) = match self {
            MemoryLimit::Group(group) => (group.has_killed(), group.limit(), group.peak()),
            MemoryLimit::Watch(tree) => (tree.is_killed(), tree.limit(), Some(tree.peak())),
        };
        let peak = peak.map_or_else(|| "unknown".to_owned(), size);
        is_exceeded.then(|| format!("out of memory: limit {}, peak {peak}", size(limit)))
    }
}
