//! A running program that stays: a line to it for each job, and lines from it with notes and the reply.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use readpast::Output;
use readpast::{BoxError, Context, Job, JobError};

use super::ending::Ending;
use super::error_tail::ErrorTail;
use super::job_meter::JobMeter;
use super::process::{Input, LAST_READS, Process};
use super::protocol::{self, Asked, Meaning, STOP, Said};
use super::runner::{Runner, ended_early, was_told_to_end};

/// The most bytes of a reply besides its output: other fields and the error's text.
const ANSWER_OVERHEAD: usize = 64 << 10;

/// Bytes shown of an invalid reply.
const SHOWN: usize = 200;

/// A running program, and what it has written.
pub struct Talk {
    pub process: Process,
    pub output: Vec<u8>,
    pub errors: ErrorTail,
    /// Its finished jobs.
    pub jobs: u64,
    /// `None`: it has not asked for anything yet.
    asked: Option<Asked>,
    started_at: Instant,
}

pub enum Talked {
    Answered {
        result: Result<Output, JobError>,
        has_read_all: bool,
    },
    /// The program wrote something invalid; the error says what.
    Wrong(String),
    /// The program ended; the job has this error.
    Gone(BoxError),
    /// The program was ended because the job had to end.
    Ended(BoxError),
}

impl Talk {
    /// Starts a program, with the limit of its first job's memory.
    pub fn start(runner: &Runner, job: &Job) -> io::Result<Talk> {
        // A new command each time, because it enters a control group of its own.
        let mut command = runner.program.for_many_jobs(runner.guard.run());
        let process = Process::spawn(&mut command, &runner.guard, true, runner.memory_for(job))?;
        let (output, errors, started_at) = (Vec::new(), ErrorTail::default(), Instant::now());
        Ok(Talk { process, output, errors, jobs: 0, asked: None, started_at })
    }

    /// What the program has asked for until now.
    pub fn asked(&self) -> Asked {
        self.asked.unwrap_or_default()
    }

    /// Reads the line with which a program asks for more, if the output is just that.
    pub fn read_asked(&mut self) {
        if self.jobs > 0 || self.asked.is_some() || self.output.last() != Some(&b'\n') {
            return;
        }
        let said = Said::read(&self.output[..self.output.len() - 1]);
        if let Ok(Some(asked)) = said.and_then(|said| said.asked()) {
            self.asked = Some(asked);
            self.output.clear();
        }
    }

    /// Why the program is to be replaced before its next job, whose memory is to be limited to this.
    pub fn is_unfit(&mut self, runner: &Runner, memory: Option<u64>) -> Option<String> {
        if memory.is_some_and(|bytes| !self.process.limit_memory(bytes)) {
            return Some("it uses more memory than its next job may".to_owned());
        }
        runner.recycling.reason(self.jobs, self.started_at, &self.process)
    }

    /// Closes the program's standard input and waits until it exits. Returns false if it does not exit in time.
    pub fn close(&mut self, until: Instant) -> bool {
        self.process.close_input();
        while !self.process.has_ended() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() || self.read(rest).is_err() {
                return false;
            }
            self.output.truncate(SHOWN);
        }
        true
    }

    /// The same, and kills a program that does not exit in time.
    pub fn end(mut self, until: Instant) {
        if !self.close(until) {
            tracing::warn!("a program did not exit when its standard input was closed; killing it");
        }
    }

    /// Sends a job, takes its notes, and waits for the reply.
    pub fn ask(&mut self, request: &[u8], runner: &Runner, context: &Context) -> Result<Talked, BoxError> {
        let longest = 2 * runner.max_output + ANSWER_OVERHEAD;
        let (mut input, mut ending, mut lines) = (Input::part(request), Ending::new(runner.grace), Lines::default());
        let (mut meter, mut is_told, mut last_reads) = (JobMeter::start(self.process.id()), false, LAST_READS);
        loop {
            // Not after the exchange: a reply that has just come would find the line unwritten.
            if self.asked().stop && !is_told && input.is_written() && context.is_stopping() {
                (input, is_told) = (Input::part(STOP), true);
            }
            let at_most = meter.until_look(ending.look(&mut self.process, context));
            let has_come = self.process.exchange(&mut input, &mut self.output, &mut self.errors, at_most)?;
            self.errors.log(context);
            meter.look();
            // A reply at the last moment counts, unless it was too late already.
            if ending.why().is_none() {
                while let Some((said, line, bytes)) = lines.next(&self.output, longest) {
                    let asked = self.asked;
                    let meaning = said.and_then(|said| match said.asked()? {
                        Some(_) if asked.is_some() || self.jobs > 0 => {
                            Err("only its first line can have protocol".to_owned())
                        }
                        Some(asked) => {
                            self.asked = Some(asked);
                            Ok(Meaning::Note)
                        }
                        None => said.about(bytes, context, runner.max_output),
                    });
                    match meaning {
                        Ok(Meaning::Note) => {}
                        Ok(Meaning::Reply(result)) => {
                            context.report_usage(meter.used());
                            lines.remove_read(&mut self.output);
                            let has_read_all = input.is_written() && self.process.takes_input();
                            return Ok(Talked::Answered { result, has_read_all });
                        }
                        Err(wrong) => {
                            context.report_usage(meter.used());
                            return Ok(Talked::Wrong(protocol::invalid(&wrong, line)));
                        }
                    }
                }
                lines.remove_read(&mut self.output);
            } else {
                self.output.clear();
            }
            match ending.why() {
                Some(why) if !ending.goes_on(&self.process) => {
                    context.report_usage(meter.used());
                    return Ok(Talked::Ended(ended_early(why, context, &self.errors).into()));
                }
                // The rest of its reply may still be in the pipe. (What its children write may have no end.)
                None if self.process.has_ended() && !self.process.is_silent() && has_come && last_reads > 0 => {
                    last_reads -= 1;
                }
                None if self.process.has_ended() || self.process.is_silent() => {
                    context.report_usage(meter.used());
                    return Ok(Talked::Gone(self.gone(context)?));
                }
                _ => {}
            }
        }
    }

    /// The exit status of a program that has exited or closed its standard output. `None`: it is still running a second
    /// later.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        // With its standard output closed, it is probably about to exit.
        let until = Instant::now() + Duration::from_secs(1);
        while !self.process.has_ended() && Instant::now() < until {
            self.read(Duration::from_millis(10))?;
        }
        if !self.process.has_ended() {
            return Ok(None);
        }
        Ok(Some(self.process.end(&mut self.output, &mut self.errors)?.0))
    }

    /// The error of a job whose program ended without a reply.
    fn gone(&mut self, context: &Context) -> Result<BoxError, BoxError> {
        let Some(status) = self.exit_status()? else {
            return Ok(JobError::retry(self.errors.after("the program closed its standard output")).into());
        };
        self.errors.log(context);
        if let Some(what) = self.process.out_of_memory() {
            return Ok(JobError::out_of_memory(self.errors.after(&what)).into());
        }
        let text = self.errors.after(&format!("{} without a reply", self.process.in_words(status)));
        if was_told_to_end(status, context) {
            return Ok(JobError::snooze(Duration::ZERO, text).into());
        }
        Ok(JobError::retry(text).into())
    }

    /// Reads everything that the program wrote between two jobs, so that none of it counts as a reply to the next job.
    /// Ends when nothing comes for this long, and does not wait for a program that keeps writing.
    pub fn read_all(&mut self, pause: Duration) -> io::Result<()> {
        for _ in 0..LAST_READS {
            if !self.read(pause)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads once what the program wrote between two jobs. Returns whether there was anything.
    pub fn read(&mut self, at_most: Duration) -> io::Result<bool> {
        self.process.exchange(&mut Input::part(&[]), &mut self.output, &mut self.errors, at_most)
    }
}

/// The lines in a program's output, with the bytes after them.
#[derive(Default)]
struct Lines {
    /// Bytes of the output that were read.
    read: usize,
    /// Bytes of the output in which no line ends.
    searched: usize,
    /// The line whose bytes have not all come.
    unfinished: Option<(Said, usize)>,
}

/// A line and the bytes after it.
type Line<'a> = (Result<Said, String>, &'a [u8], &'a [u8]);

impl Lines {
    /// The next line that is complete with its bytes, or one that is too long.
    fn next<'a>(&mut self, output: &'a [u8], longest: usize) -> Option<Line<'a>> {
        let (said, end) = match self.unfinished.take() {
            Some(unfinished) => unfinished,
            None => {
                let Some(end) = output[self.searched..].iter().position(|byte| *byte == b'\n') else {
                    self.searched = output.len();
                    let line = &output[self.read..];
                    return (line.len() > longest)
                        .then(|| (Err(format!("it is longer than {longest} bytes")), line, &[][..]));
                };
                let end = self.searched + end;
                match Said::read(&output[self.read..end]) {
                    Ok(said) => (said, end),
                    Err(wrong) => return Some((Err(wrong), &output[self.read..end], &[])),
                }
            }
        };
        let (line, begin, length) = (&output[self.read..end], end + 1, said.bytes_after());
        if length > longest {
            // An output that is too large is dead, however large it is: it would be as large again. Its bytes are read
            // as something that nobody has asked for.
            let too_long = || format!("more than {longest} bytes are to follow it");
            let said = if said.is_output() { Ok(said) } else { Err(too_long()) };
            return Some((said, line, &[]));
        }
        let Some(bytes) = output.get(begin..begin + length) else {
            self.unfinished = Some((said, end));
            return None;
        };
        (self.read, self.searched) = (begin + length, begin + length);
        Some((Ok(said), line, bytes))
    }

    /// Removes what was read from the output.
    fn remove_read(&mut self, output: &mut Vec<u8>) {
        output.drain(..self.read);
        self.searched -= self.read;
        if let Some((_, end)) = &mut self.unfinished {
            *end -= self.read;
        }
        self.read = 0;
    }
}

/// The beginning of what a program wrote.
pub fn shown(written: &[u8]) -> String {
    String::from_utf8_lossy(&written[..written.len().min(SHOWN)]).into_owned()
}
