//! A program that runs, where there are no process groups, no signals, and no waiting for several pipes at once: a
//! thread for each pipe. Ending it ends the program alone, at once, and not what it has started.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::error_tail::ErrorTail;
use super::guard::Guard;

/// What is read at once.
const CHUNK: usize = 16 << 10;

/// How often it is looked for what a program has written, at the most, to have all that is there.
pub const LAST_READS: usize = 128;

/// How long an end can go unnoticed.
const LOOK_FOR_END: Duration = Duration::from_millis(10);

/// What a program has written to one of its pipes; nothing: that is its end.
enum Written {
    Output(Option<Vec<u8>>),
    Errors(Option<Vec<u8>>),
}

/// A program that runs. Dropping it kills it.
pub struct Process {
    child: Child,
    /// To the thread that writes; none: it is closed.
    stdin: Option<Sender<Vec<u8>>>,
    read: Receiver<Written>,
    output_open: bool,
    errors_open: bool,
    ended: Option<ExitStatus>,
}

/// What is written to a program's standard input.
pub struct Input<'a> {
    rest: &'a [u8],
    /// Its standard input is closed then.
    is_last: bool,
}

impl<'a> Input<'a> {
    /// This, and then the end.
    pub fn all(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, is_last: true }
    }

    /// This, and more later.
    pub fn part(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, is_last: false }
    }

    /// Whether nothing is left to be given to the thread that writes.
    pub fn is_written(&self) -> bool {
        self.rest.is_empty()
    }
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn spawn(command: &mut Command, _guard: &Arc<Guard>, _stays: bool) -> io::Result<Process> {
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

    /// Whether the program has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it can be written to.
    pub fn takes_input(&self) -> bool {
        self.stdin.is_some()
    }

    /// Whether nothing can come from its standard output any more.
    pub fn is_silent(&self) -> bool {
        !self.output_open
    }

    /// Whether nobody has its standard output and its standard error open.
    pub fn is_closed(&self) -> bool {
        !self.output_open && !self.errors_open
    }

    /// Waits until something was written by the program, or it has ended; for `at_most` so long. What it has written is
    /// added to `output` and `errors`. Returns whether it has written anything.
    ///
    /// # Errors
    ///
    /// When the system fails to tell whether it has ended.
    pub fn exchange(
        &mut self,
        input: &mut Input<'_>,
        output: &mut Vec<u8>,
        errors: &mut ErrorTail,
        at_most: Duration,
    ) -> io::Result<bool> {
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !input.rest.is_empty()) {
            let _ = stdin.send(input.rest.to_vec()); // it does not want to read (all of) it
            input.rest = &[];
        }
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

    fn take(&mut self, read: Written, output: &mut Vec<u8>, errors: &mut ErrorTail) {
        match read {
            Written::Output(Some(bytes)) => output.extend_from_slice(&bytes),
            Written::Errors(Some(bytes)) => errors.push(&bytes),
            Written::Output(None) => self.output_open = false,
            Written::Errors(None) => self.errors_open = false,
        }
    }

    /// Tells it that nothing more comes.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Ends it: there is no polite way.
    pub fn ask_to_end(&mut self) {
        self.kill();
    }

    /// Ends it.
    pub fn kill(&mut self) {
        let _ = self.child.kill(); // it may have ended
    }

    /// Ends it, reads what it had written, and returns how it has ended.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    pub fn end(&mut self, output: &mut Vec<u8>, errors: &mut ErrorTail) -> io::Result<ExitStatus> {
        self.kill();
        let status = self.child.wait()?;
        while let Ok(read) = self.read.recv_timeout(LOOK_FOR_END) {
            self.take(read, output, errors);
        }
        Ok(status)
    }

    /// How it has ended, in words.
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

/// Whether it was ended by what ends all processes of a service or of a terminal.
pub fn was_asked_to_end(_status: ExitStatus) -> bool {
    false
}
