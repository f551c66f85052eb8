//! Lets the kernel kill a program when the thread that started it dies: the one place of this crate with `unsafe`.
//!
//! This is for programs that stay (`--keep`). A program for one job is started by `posix_spawn`, which runs no code
//! between fork and exec, and is killed by the guard. A real fork would cost more with every byte that the worker holds
//! (cli/benches/work/run).

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Call this before `spawn`, on a thread that lives as long as the program should: the kernel sends the signal when
/// that thread exits.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let ask_for_signal = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request; then no signal is sent.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from(rustix::io::Errno::SRCH)) }
    };
    // SAFETY: the closure runs in the forked child, in which only what is async-signal-safe may be called, because
    // another thread may have held a lock (of the allocator, for example) at the fork. It makes two system calls,
    // prctl(2) and getppid(2), by functions that do nothing else, and compares two numbers; both kinds of error are an
    // errno in an io::Error, which allocates nothing. It owns one number: nothing is dropped, and no memory is shared.
    unsafe { command.pre_exec(ask_for_signal) };
}
