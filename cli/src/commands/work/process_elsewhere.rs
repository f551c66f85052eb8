//! A running program on systems without process groups and signals, with a thread per pipe. Ending it kills the program
//! alone, immediately, without its children.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use readpast::Usage;

use super::error_tail::ErrorTail;
use super::guard::Guard;
use super::memory::MemoryLimits;

/// Bytes per read.
const CHUNK: usize = 16 << 10;

/// The most reads for the remaining output.
pub const LAST_READS: usize = 128;

/// How often to check for the exit.
const LOOK_FOR_END: Duration = Duration::from_millis(10);

/// The data that a pipe's thread has read; empty at the end of the pipe.
enum Written {
    Output(Option<Vec<u8>>),
    Errors(Option<Vec<u8>>),
}

/// A running program. Dropping it kills it.
pub struct Process {
    child: Child,
    /// To the writing thread; `None`: closed.
    stdin: Option<Sender<Vec<u8>>>,
    read: Receiver<Written>,
    output_open: bool,
    errors_open: bool,
    ended: Option<ExitStatus>,
}

/// Data for a program's standard input.
pub struct Input<'a> {
    rest: &'a [u8],
    /// Standard input is closed afterwards.
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

    /// Whether the writing thread has got everything.
    pub fn is_written(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes the writing thread has not got.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn spawn(
        command: &mut Command,
        _guard: &Arc<Guard>,
        _stays: bool,
        _memory: Option<(&MemoryLimits, u64)>,
    ) -> io::Result<Process> {
        let mut child = command.spawn()?;
        let (sender, read) = channel();
        let errors = sender.clone();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || read_all(stdout, |bytes| sender.send(Written::Output(bytes)).is_ok()));
        }
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || read_all(stderr, |bytes| errors.send(Written::Errors(bytes)).is_ok()));
        }
        let stdin = child.stdin.take().map(writer);
        Ok(Process { child, stdin, read, output_open: true, errors_open: true, ended: None })
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether its standard input is open.
    pub fn takes_input(&self) -> bool {
        self.stdin.is_some()
    }

    /// Whether its standard output is closed.
    pub fn is_silent(&self) -> bool {
        !self.output_open
    }

    /// Whether standard output and standard error are closed.
    pub fn is_closed(&self) -> bool {
        !self.output_open && !self.errors_open
    }

    /// Waits at most `at_most` until the program writes or exits. Adds its data to `output` and `errors`. Returns
    /// whether it has written anything.
    ///
    /// # Errors
    ///
    /// If the system does not tell whether it has exited.
    pub fn exchange(
        &mut self,
        input: &mut Input<'_>,
        output: &mut Vec<u8>,
        errors: &mut ErrorTail,
        at_most: Duration,
    ) -> io::Result<bool> {
        self.write(input);
        if input.is_last {
            self.stdin = None;
        }
        let until = Instant::now() + at_most;
        loop {
            self.ended = self.child.try_wait()?;
            let left = until.saturating_duration_since(Instant::now());
            match self.read.recv_timeout(left.min(LOOK_FOR_END)) {
                Ok(read) => {
                    self.take(read, output, errors);
                    return Ok(true);
                }
                Err(_) if self.ended.is_some() || left.is_zero() => return Ok(false),
                Err(_) => {}
            }
        }
    }

    /// Passes everything to the writing thread.
    pub fn write(&mut self, input: &mut Input<'_>) {
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !input.rest.is_empty()) {
            let _ = stdin.send(input.rest.to_vec()); // it does not want to read (all of) it
            input.rest = &[];
        }
    }

    fn take(&mut self, read: Written, output: &mut Vec<u8>, errors: &mut ErrorTail) {
        match read {
            Written::Output(Some(bytes)) => output.extend_from_slice(&bytes),
            Written::Errors(Some(bytes)) => errors.push(&bytes),
            Written::Output(None) => self.output_open = false,
            Written::Errors(None) => self.errors_open = false,
        }
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Kills the program: there is no graceful way.
    pub fn ask_to_end(&mut self) {
        self.kill();
    }

    /// 0: unknown.
    pub fn resident(&self) -> u64 {
        0
    }

    /// Does nothing: there are no limits.
    pub fn limit_memory(&mut self, _bytes: u64) -> bool {
        true
    }

    /// `None`: there are no limits.
    pub fn out_of_memory(&mut self) -> Option<String> {
        None
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill(); // it may have ended
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, reads the remaining output, and returns the exit status. What it has used is not measured here.
    ///
    /// # Errors
    ///
    /// If the system does not return it.
    pub fn end(&mut self, output: &mut Vec<u8>, errors: &mut ErrorTail) -> io::Result<(ExitStatus, Usage)> {
        self.kill();
        let status = self.child.wait()?;
        while let Ok(read) = self.read.recv_timeout(LOOK_FOR_END) {
            self.take(read, output, errors);
        }
        Ok((status, Usage::default()))
    }

    /// The exit in words.
    pub fn in_words(&self, status: ExitStatus) -> String {
        format!("exit code {}", status.code().unwrap_or_default())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn writer(mut stdin: ChildStdin) -> Sender<Vec<u8>> {
    let (sender, parts) = channel::<Vec<u8>>();
    thread::spawn(move || {
        for part in parts {
            if stdin.write_all(&part).is_err() {
                return;
            }
        }
    });
    sender
}

fn read_all(mut pipe: impl Read, send: impl Fn(Option<Vec<u8>>) -> bool) {
    let mut buffer = [0; CHUNK];
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        if !send(Some(buffer[..length].to_vec())) {
            return;
        }
    }
    send(None);
}

/// Whether the program was ended by a signal that is sent to all processes of a service or terminal.
pub fn was_asked_to_end(_status: ExitStatus) -> bool {
    false
}
