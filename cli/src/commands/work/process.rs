//! A running program: its process group, pipes and exit. One thread waits for all of them together.
//!
//! This is faster than tokio's processes, whose pipes and exits are served by other threads (cli/benches/work/run).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use readpast::Usage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::error_tail::ErrorTail;
use super::guard::Guard;
use super::memory::{MemoryLimit, MemoryLimits};
use super::oom_kills::oom_kills;
use super::reap::reap;

/// Bytes per read.
const CHUNK: usize = 16 << 10;

/// The most reads for the remaining output: together they read more than the pipes hold (at most 1 MiB each).
pub const LAST_READS: usize = 128;

/// How often to check for the exit, on systems without process descriptors.
const LOOK_FOR_END: Duration = Duration::from_millis(10);

/// A running program in its own process group. Dropping it kills the group.
pub struct Process {
    child: Child,
    group: Pid,
    /// A descriptor that is readable once the program has exited; `None` if not supported.
    end: Option<OwnedFd>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    guard: Arc<Guard>,
    /// `None` without one, and after the end.
    memory: Option<MemoryLimit>,
    /// The error, if the program has exceeded its limit of memory.
    out_of_memory: Option<String>,
    /// The number of OOM kills before the start.
    oom_kills: Option<u64>,
    has_ended: bool,
    is_reaped: bool,
}

/// Data for a program's standard input.
pub struct Input<'a> {
    rest: &'a [u8],
    /// Whether standard input is closed afterwards.
    is_last: bool,
}

impl<'a> Input<'a> {
    /// Data followed by the end.
    pub fn all(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, is_last: true }
    }

    /// Data with more to come.
    pub fn part(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, is_last: false }
    }

    pub fn is_written(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are not written.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

impl Process {
    /// Starts a program. `stays`: it runs many jobs, and the kernel kills it when this thread dies. `memory`: its limit
    /// in bytes.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn spawn(
        command: &mut Command,
        guard: &Arc<Guard>,
        stays: bool,
        memory: Option<(&MemoryLimits, u64)>,
    ) -> io::Result<Process> {
        // Its own group: it can be ended with its children, and does not get the terminal's Ctrl-C.
        command.process_group(0);
        #[cfg(target_os = "linux")]
        if stays {
            super::before_exec::die_with_parent(command);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = stays;
        let memory = memory.map(|(limits, bytes)| limits.prepare(bytes, command)).transpose()?;
        let oom_kills = oom_kills();
        let mut child = command.spawn()?;
        let group = Pid::from_child(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let end = end_of(group);
        let guard = guard.clone();
        let process = Process {
            child,
            group,
            end,
            stdin,
            stdout,
            stderr,
            guard,
            memory: memory.map(|prepared| prepared.started(group)),
            out_of_memory: None,
            oom_kills,
            has_ended: false,
            is_reaped: false,
        };
        process.guard.watch(group)?;
        if let Some(stdin) = &process.stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        if let Some(stderr) = &process.stderr {
            rustix::io::ioctl_fionbio(stderr, true)?;
        }
        Ok(process)
    }

    /// Whether the program has exited. (Its children may still run.)
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the program's standard input is open, as far as known.
    pub fn takes_input(&self) -> bool {
        self.stdin.is_some()
    }

    /// Whether its standard output is closed.
    pub fn is_silent(&self) -> bool {
        self.stdout.is_none()
    }

    /// Whether standard output and standard error are closed.
    pub fn is_closed(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// Waits at most `at_most` until the program reads, writes or exits. Adds its data to `output` and `errors`.
    /// Returns whether anything happened.
    ///
    /// # Errors
    ///
    /// If the system fails to wait.
    pub fn exchange(
        &mut self,
        input: &mut Input<'_>,
        output: &mut Vec<u8>,
        errors: &mut ErrorTail,
        at_most: Duration,
    ) -> io::Result<bool> {
        if input.rest.is_empty() && input.is_last {
            self.stdin = None;
        }
        let writable = self.stdin.as_ref().filter(|_| !input.rest.is_empty());
        let fds = [
            self.end.as_ref().filter(|_| !self.has_ended).map(|end| (end.as_fd(), PollFlags::IN)),
            writable.map(|stdin| (stdin.as_fd(), PollFlags::OUT)),
            self.stdout.as_ref().map(|stdout| (stdout.as_fd(), PollFlags::IN)),
            self.stderr.as_ref().map(|stderr| (stderr.as_fd(), PollFlags::IN)),
        ];
        let mut polled = Vec::with_capacity(fds.len());
        polled.extend(fds.iter().flatten().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
        let at_most = if self.end.is_none() && !self.has_ended { at_most.min(LOOK_FOR_END) } else { at_most };
        let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) as _ };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut events = polled.iter().map(|fd| !fd.revents().is_empty());
        let [end, stdin, stdout, stderr] = fds.map(|fd| fd.is_some() && events.next().unwrap_or(false));
        if stdin {
            self.write(input);
        }
        if stdout {
            read(&mut self.stdout, |bytes| output.extend_from_slice(bytes));
        }
        // What was written to standard error before the output is there by now.
        if stdout || stderr {
            let mut reads = 0..LAST_READS;
            while reads.next().is_some() && read(&mut self.stderr, |bytes| errors.push(bytes)) == CHUNK {}
        }
        if end || (self.end.is_none() && !self.has_ended) {
            // Waits without reaping the process, so that its number cannot be reused.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            self.has_ended = waitid(WaitId::Pid(self.group), options)?.is_some();
        }
        Ok(end || stdin || stdout || stderr)
    }

    /// Writes what the program takes now.
    pub fn write(&mut self, input: &mut Input<'_>) {
        let Some(stdin) = self.stdin.as_mut().filter(|_| !input.is_written()) else { return };
        match stdin.write(input.rest) {
            Ok(written) => input.rest = &input.rest[written..],
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // The program does not read its input, or not all of it.
            Err(_) => (self.stdin, input.rest) = (None, &[]),
        }
        if input.rest.is_empty() && input.is_last {
            self.stdin = None;
        }
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Asks the group to end.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the group, and everything in the control group.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        if let Some(memory) = &self.memory {
            memory.kill();
        }
    }

    /// Changes the limit of its memory. Returns false if that is not possible.
    pub fn limit_memory(&mut self, bytes: u64) -> bool {
        self.memory.as_mut().is_none_or(|memory| memory.set(bytes))
    }

    /// The job's error, if the program, or something that it has started, was killed at its limit of memory since the
    /// last call.
    pub fn out_of_memory(&mut self) -> Option<String> {
        let now = self.memory.as_mut().and_then(MemoryLimit::exceeded);
        self.out_of_memory.take().or(now)
    }

    /// The resident memory of the program and its descendants in bytes; 0 if the system does not tell it.
    pub fn resident(&self) -> u64 {
        #[cfg(target_os = "linux")]
        return super::memory::resident(self.group.as_raw_pid());
        #[cfg(not(target_os = "linux"))]
        return 0;
    }

    fn signal(&self, signal: Signal) {
        if !self.is_reaped
            && let Err(error @ rustix::io::Errno::PERM) = kill_process_group(self.group, signal)
        {
            tracing::warn!(group = self.group.as_raw_pid(), %error, "a program runs as another user and cannot be killed");
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the remaining processes of the group, reads the remaining output, and returns the exit status, with what
    /// the program has used since its start.
    ///
    /// # Errors
    ///
    /// If the system does not return them.
    pub fn end(&mut self, output: &mut Vec<u8>, errors: &mut ErrorTail) -> io::Result<(ExitStatus, Usage)> {
        self.kill();
        // Reads only what is in the pipes now: a process that left the group may keep them open and continue to write.
        for _ in 0..LAST_READS {
            let before = (output.len(), self.stdout.is_some(), self.stderr.is_some());
            let mut polled = Vec::with_capacity(2);
            polled.extend(self.stdout.as_ref().map(|stdout| PollFd::new(stdout, PollFlags::IN)));
            polled.extend(self.stderr.as_ref().map(|stderr| PollFd::new(stderr, PollFlags::IN)));
            if polled.is_empty() || poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? == 0 {
                break;
            }
            let mut events = polled.iter().map(|fd| !fd.revents().is_empty());
            let stdout = before.1 && events.next().unwrap_or(false);
            let stderr = before.2 && events.next().unwrap_or(false);
            if stdout {
                read(&mut self.stdout, |bytes| output.extend_from_slice(bytes));
            }
            if stderr {
                read(&mut self.stderr, |bytes| errors.push(bytes));
            }
        }
        self.reap()
    }

    /// The exit in words: `exit code 3`, `killed by SIGSEGV`. A SIGKILL may come from the OOM killer.
    pub fn in_words(&self, status: ExitStatus) -> String {
        with_oom(status, self.oom_kills, oom_kills())
    }

    fn reap(&mut self) -> io::Result<(ExitStatus, Usage)> {
        self.out_of_memory = self.out_of_memory();
        self.memory = None;
        self.guard.forget(self.group);
        self.is_reaped = true;
        reap(&mut self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            let _ = self.reap();
        }
    }
}

/// A descriptor that is readable when a child has exited, if supported.
fn end_of(child: Pid) -> Option<OwnedFd> {
    #[cfg(target_os = "linux")]
    return rustix::process::pidfd_open(child, rustix::process::PidfdFlags::empty()).ok();
    #[cfg(not(target_os = "linux"))]
    return None;
}

/// Reads available data, and returns its length; closes the pipe at its end.
fn read(pipe: &mut Option<impl Read>, mut take: impl FnMut(&[u8])) -> usize {
    let mut buffer = [0; CHUNK];
    let Some(open) = pipe else { return 0 };
    match open.read(&mut buffer) {
        Ok(0) => *pipe = None,
        Ok(length) => {
            take(&buffer[..length]);
            return length;
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
        Err(_) => *pipe = None,
    }
    0
}

/// Added to the exit if the OOM killer was active in this control group, or on the machine, while the program ran. It
/// may have killed another process.
const OOM: &str = ", perhaps out of memory: the OOM killer has ended processes meanwhile";

/// The exit in words, with the OOM counts at start and end.
fn with_oom(status: ExitStatus, before: Option<u64>, now: Option<u64>) -> String {
    let has_killed = before.zip(now).is_some_and(|(before, now)| now > before);
    let is_oom = has_killed && signal_of(status) == Some(Signal::KILL.as_raw());
    format!("{}{}", in_words(status), if is_oom { OOM } else { "" })
}

/// A shell or a container whose child was killed by a signal exits with this value plus the signal's number. So do
/// programs that handle a signal and then exit, as Java does.
const SIGNALS: i32 = 128;

fn in_words(status: ExitStatus) -> String {
    let core = if status.core_dumped() { " (a core was dumped)" } else { "" };
    match (status.signal(), status.code().unwrap_or_default()) {
        (Some(signal), _) => match name_of(signal) {
            Some(name) => format!("killed by {name}{core}"),
            None => format!("killed by signal {signal}{core}"),
        },
        (None, code) => match signal_of_child(code).and_then(name_of) {
            Some(name) => format!("exit code {code} (as after {name})"),
            None => format!("exit code {code}"),
        },
    }
}

/// The signal that ended a program or its child.
fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal().or_else(|| signal_of_child(status.code()?))
}

fn signal_of_child(code: i32) -> Option<i32> {
    (code > SIGNALS).then(|| code - SIGNALS)
}

fn name_of(signal: i32) -> Option<&'static str> {
    NAMED.iter().find(|(named, _)| named.as_raw() == signal).map(|(_, name)| *name)
}

/// Whether the program was ended by a signal that is sent to all processes of a service or terminal, or has the exit
/// code for such a signal.
pub fn was_asked_to_end(status: ExitStatus) -> bool {
    [Signal::TERM, Signal::INT].iter().any(|signal| signal_of(status) == Some(signal.as_raw()))
}

/// Signals that end a process.
const NAMED: [(Signal, &str); 17] = [
    (Signal::HUP, "SIGHUP"),
    (Signal::INT, "SIGINT"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::ILL, "SIGILL"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::KILL, "SIGKILL"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::USR2, "SIGUSR2"),
    (Signal::PIPE, "SIGPIPE"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::TERM, "SIGTERM"),
    (Signal::XCPU, "SIGXCPU"),
    (Signal::SYS, "SIGSYS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oom_killer_is_named_where_it_was_at_work_and_a_sigkill_was_the_end() {
        let ended = |raw, before, now| with_oom(ExitStatus::from_raw(raw), before, now);
        let killed = Signal::KILL.as_raw();
        let as_after_it = (128 + killed) << 8;
        assert_eq!(ended(killed, Some(2), Some(3)), format!("killed by SIGKILL{OOM}"));
        assert_eq!(ended(as_after_it, Some(2), Some(3)), format!("exit code 137 (as after SIGKILL){OOM}"));
        assert_eq!(ended(killed, Some(3), Some(3)), "killed by SIGKILL");
        assert_eq!(ended(killed, None, Some(3)), "killed by SIGKILL");
        assert_eq!(ended(1 << 8, Some(2), Some(3)), "exit code 1");
    }
}
