//! For systems other than Linux, on which the memory of programs is not limited.

use std::path::Path;

use anyhow::Result;
use readpast::Job;

use super::memory_means::MemoryMeans;
use crate::exit::{Exit, failure};

/// There is none.
pub enum MemoryLimits {}

impl MemoryLimits {
    /// # Errors
    ///
    /// Always.
    pub fn start(_limit: u64, _means: Option<MemoryMeans>) -> Result<MemoryLimits> {
        Err(failure(Exit::Usage, "--memory needs Linux: here, the memory of programs cannot be limited"))
    }

    pub fn groups(&self) -> Option<&Path> {
        match *self {}
    }

    pub fn of(&self, _job: &Job) -> u64 {
        match *self {}
    }

    pub fn end(&self) {
        match *self {}
    }
}

#[cfg(unix)]
mod of_processes {
    use std::io;
    use std::process::Command;

    use super::MemoryLimits;

    impl MemoryLimits {
        /// # Errors
        ///
        /// None.
        pub fn prepare(&self, _limit: u64, _command: &mut Command) -> io::Result<PreparedLimit> {
            match *self {}
        }
    }

    /// There is none.
    pub enum PreparedLimit {}

    impl PreparedLimit {
        pub fn started(self, _program: rustix::process::Pid) -> MemoryLimit {
            match self {}
        }
    }

    /// There is none.
    pub enum MemoryLimit {}

    impl MemoryLimit {
        pub fn set(&mut self, _limit: u64) -> bool {
            match *self {}
        }

        pub fn kill(&self) {
            match *self {}
        }

        pub fn exceeded(&mut self) -> Option<String> {
            match *self {}
        }
    }
}

#[cfg(unix)]
pub use of_processes::MemoryLimit;
