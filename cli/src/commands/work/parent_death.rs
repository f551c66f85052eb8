//! Has the kernel kill a program when the thread that has started it dies: the one place of this crate with `unsafe`.
//!
//! For programs that stay (`--keep`). Those that run for one job do without: they are started by `posix_spawn`, where
//! nothing can be done between the fork and the program, and a real fork costs more with every byte that the worker
//! holds (cli/benches/work/run). The guard kills those.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// To be called before `spawn`, on a thread that lives as long as the process: the signal is tied to the thread.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let ask_for_signal = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before it was asked for; then nobody sends the signal.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from(rustix::io::Errno::SRCH)) }
    };
    // SAFETY: the closure runs in the forked child, in which only what is async-signal-safe may be called, because
    // another thread may have held a lock (of the allocator, for example) at the fork. It makes two system calls,
    // prctl(2) and getppid(2), by functions that do nothing else, and compares two numbers; both kinds of error are an
    // errno in an io::Error, which allocates nothing. It owns one number: nothing is dropped, and no memory is shared.
    unsafe { command.pre_exec(ask_for_signal) };
}
