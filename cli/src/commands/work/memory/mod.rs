//! Limits the memory of programs.
//!
//! | file | holds |
//! |---|---|
//! | `memory_limits`, `memory_means` | the choice of the way; a program's limit |
//! | `own_group`, `group_directory`, `program_groups` | control groups |
//! | `tree_watch`, `process_tree` | the watch of resident memory, where there are no control groups |
//!
//! `memory_limits_elsewhere` is for systems other than Linux.

#[cfg(target_os = "linux")]
mod group_directory;
#[cfg_attr(not(target_os = "linux"), path = "memory_limits_elsewhere.rs")]
mod memory_limits;
mod memory_means;
#[cfg(target_os = "linux")]
mod own_group;
#[cfg(target_os = "linux")]
mod process_tree;
#[cfg(target_os = "linux")]
mod program_groups;
#[cfg(target_os = "linux")]
mod tree_watch;

#[cfg(unix)]
pub use memory_limits::MemoryLimit;
pub use memory_limits::MemoryLimits;
pub use memory_means::MemoryMeans;
#[cfg(target_os = "linux")]
pub use process_tree::resident;
#[cfg(target_os = "linux")]
pub use program_groups::remove_after;
