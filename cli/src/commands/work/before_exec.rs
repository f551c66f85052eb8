//! What a program does between fork and exec: the one place of this crate with `unsafe`.
//!
//! A program for one job without a limit of its memory is started by `posix_spawn`, which runs no code between fork and
//! exec. A real fork costs more with every byte that the worker holds (cli/benches/work/run).

#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Lets the kernel kill a program when the thread that started it dies. Call this before `spawn`, on a thread that lives
/// as long as the program should.
///
/// This is for programs that stay (`--keep`). Programs for one job are killed by the guard.
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

/// Lets a program enter a control group before it runs, so that all its memory counts. `entrance` is the group's file
/// `cgroup.procs`, to which a process writes 0 for itself.
pub fn enter(command: &mut Command, entrance: OwnedFd) {
    let enter = move || match rustix::io::write(&entrance, b"0") {
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::from(error)),
    };
    // SAFETY: as above, only what is async-signal-safe may be called. The closure makes one system call, write(2), by a
    // function that does nothing else; its error is an errno in an io::Error, which allocates nothing. The descriptor is
    // open in the child, because it is closed at the exec, and stays open in the parent, because the command owns the
    // closure: the closure is called by reference and drops nothing.
    unsafe { command.pre_exec(enter) };
}
