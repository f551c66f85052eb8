//! A running program that stays: a line to it for each job, and lines from it with notes and the reply.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use readpast::{BoxError, Context, JobError, Output};

use super::ending::Ending;
use super::error_tail::ErrorTail;
use super::job_meter::JobMeter;
use super::memory::MemoryLimits;
use super::pipeline::{Outgoing, Pace, Pipeline, Task};
use super::process::{Input, LAST_READS, Process};
use super::protocol::{self, Asked, Asks, Meaning, STOP, Said};
use super::runner::{Runner, ended_early, was_told_to_end};

/// The most bytes of a reply besides its output: other fields and the error's text.
const ANSWER_OVERHEAD: usize = 64 << 10;

/// How long a job waits for a worker that speaks the protocol of its program.
const OTHER_PROTOCOL_SNOOZE: Duration = Duration::from_secs(60);

/// How long to wait for a program that has closed its standard input without having read its jobs.
const CLOSED: Duration = Duration::from_secs(1);

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
    pub pace: Pace,
    started_at: Instant,
}

/// How a conversation about jobs ended. An error is that of the first job.
pub enum Talked {
    /// Each job that was sent has its reply.
    Answered,
    /// The program is not to get another job; says why.
    OutOfStep(&'static str),
    /// The program has closed its standard input before it had read its jobs.
    ClosedInput,
    /// The program wrote something invalid; the error says what.
    Wrong(String),
    /// The program ended.
    Gone(BoxError),
    /// The program was ended because the job had to end.
    Ended(BoxError),
}

/// What a line of a program means.
enum Heard {
    Asked(Asked),
    /// The program speaks another protocol; says which.
    OtherProtocol(String),
    Note,
    /// With the place of the job.
    Reply(usize, Result<Output, JobError>),
}

impl Talk {
    /// Starts a program, with the limit of its first job's memory.
    pub fn start(runner: &Runner, memory: Option<(&MemoryLimits, u64)>) -> io::Result<Talk> {
        // A new command each time, because it enters a control group of its own.
        let mut command = runner.program.for_many_jobs(runner.guard.run());
        let process = Process::spawn(&mut command, &runner.guard, true, memory)?;
        let (output, errors, started_at) = (Vec::new(), ErrorTail::default(), Instant::now());
        Ok(Talk { process, output, errors, jobs: 0, asked: None, pace: Pace::default(), started_at })
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
        if let Ok(Asks::More(asked)) = said.and_then(|said| said.asks()) {
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

    /// Sends jobs, takes their notes, and waits for the replies, with which it ends the jobs.
    ///
    /// # Errors
    ///
    /// If the system fails. The first job has this error.
    pub fn ask(&mut self, jobs: &mut Pipeline<impl Task>, runner: &Runner) -> Result<Talked, BoxError> {
        let longest = 2 * runner.max_output + ANSWER_OVERHEAD;
        let (mut input, mut ending, mut lines) = (Outgoing::default(), Ending::new(runner.grace), Lines::default());
        let mut read_at = Instant::now();
        let (mut meter, mut is_told) = (JobMeter::start(self.process.id(), read_at), false);
        let (mut last_reads, mut closed_at) = (LAST_READS, None);
        loop {
            if ending.why().is_none() {
                let most = (self.asked().ahead + 1).min(runner.recycling.jobs_left(self.jobs));
                jobs.fill(&mut input, self.asked(), most, &self.pace);
            }
            let Some(context) = jobs.at(0) else { return Ok(Talked::Answered) };
            if self.asked().stop && !is_told && context.is_stopping() {
                input.add(STOP);
                is_told = true;
            }
            self.write(&mut input);
            let at_most = meter.until_look(ending.look(&mut self.process, context));
            // Not if a reply is read in part: its rest may be long.
            let waits = input.is_written() && ending.why().is_none() && self.output.is_empty();
            let moment = jobs.moment(&self.pace).filter(|_| waits);
            if let Some(moment) = moment {
                std::thread::sleep(moment);
            }
            let of_earlier_jobs = self.errors.pushed();
            let mut rest = Input::part(input.rest());
            let has_come = self.process.exchange(&mut rest, &mut self.output, &mut self.errors, at_most)?;
            let left = rest.left();
            self.is_left(&mut input, left);
            self.errors.log(context);
            // One look at the clock for all replies.
            let now = Instant::now();
            meter.look(now);
            // A reply at the last moment counts, unless it was too late already. The other jobs' replies count all the same.
            let is_ending = ending.why().is_some();
            let (mut has_replied, mut out_of_step, mut wrong, mut is_next) = (false, None, None, false);
            while jobs.sent() > 0
                && !lines.is_cut
                && let Some((said, line, bytes)) = lines.next(&self.output, longest)
            {
                let (may_ask, is_line) = (self.asked.is_none() && self.jobs == 0, said.is_ok());
                match heard(said, bytes, may_ask, jobs, runner.max_output, is_ending || wrong.is_some()) {
                    Ok(Heard::Asked(asked)) => self.asked = Some(asked),
                    Ok(Heard::OtherProtocol(what)) => {
                        return Ok(Talked::Gone(JobError::snooze(OTHER_PROTOCOL_SNOOZE, what).into()));
                    }
                    Ok(Heard::Note) => {}
                    Ok(Heard::Reply(place, result)) => {
                        let Some((task, has_read_all)) = jobs.take(place, &input) else { continue };
                        task.context().report_usage(meter.used(now));
                        meter = JobMeter::start(self.process.id(), now);
                        if !has_read_all {
                            out_of_step = Some("it replied before it had read its job");
                        } else if lines.is_cut {
                            out_of_step = Some("its output was too large");
                        }
                        // A child of the program may have been killed.
                        let out_of_memory = result.is_err().then(|| self.process.out_of_memory()).flatten();
                        self.jobs += 1;
                        self.pace.replied(task.context().job().kind());
                        has_replied = true;
                        is_next |= place == 0;
                        task.end(match (result, out_of_memory) {
                            (Err(error), Some(what)) => Err(JobError::out_of_memory(format!("{what}: {error}")).into()),
                            (result, _) => result.map_err(BoxError::from),
                        });
                    }
                    Err(_) if is_ending || wrong.is_some() => {}
                    Err((place, what)) => {
                        jobs.at(place).into_iter().for_each(|context| context.report_usage(meter.used(now)));
                        wrong = Some(protocol::invalid(&what, line));
                        // From here on, it is the first.
                        jobs.move_to_front(place);
                    }
                }
                if !is_line {
                    break; // nobody knows where the next line begins
                }
            }
            lines.remove_read(&mut self.output);
            if let Some(wrong) = wrong {
                return Ok(Talked::Wrong(wrong));
            }
            if has_replied {
                closed_at = None;
                self.pace.took(now - read_at);
                if moment.is_some() {
                    self.pace.waited(jobs.sent() == 0);
                }
                read_at = now;
                if is_next {
                    self.errors.drop_until(of_earlier_jobs);
                }
                match out_of_step {
                    Some(why) => return Ok(Talked::OutOfStep(why)),
                    None if jobs.sent() == 0 => return Ok(Talked::Answered),
                    None => {}
                }
            }
            if is_ending && self.output.len() > longest {
                // What it writes besides may have no end.
                self.output.clear();
                lines = Lines::default();
            }
            let Some(context) = jobs.at(0) else { return Ok(Talked::Answered) };
            match ending.why() {
                Some(why) if !ending.goes_on(&self.process) => {
                    context.report_usage(meter.used(now));
                    return Ok(Talked::Ended(ended_early(why, context, &self.errors).into()));
                }
                // The rest of its reply may still be in the pipe. (What its children write may have no end.)
                None if self.process.has_ended() && !self.process.is_silent() && has_come && last_reads > 0 => {
                    last_reads -= 1;
                }
                None if self.process.has_ended() || self.process.is_silent() => {
                    context.report_usage(meter.used(now));
                    return Ok(Talked::Gone(self.gone(context)?));
                }
                // It may be about to exit, or have replied to a part of a job.
                None if !self.process.takes_input()
                    && jobs.first_is_unwritten(&input)
                    && closed_at.get_or_insert_with(Instant::now).elapsed() >= CLOSED =>
                {
                    return Ok(Talked::ClosedInput);
                }
                _ => {}
            }
        }
    }

    /// Writes what the program takes now.
    fn write(&mut self, input: &mut Outgoing) {
        let mut rest = Input::part(input.rest());
        self.process.write(&mut rest);
        let left = rest.left();
        self.is_left(input, left);
    }

    /// Records that all but this many bytes are written, unless the program has closed its standard input.
    fn is_left(&self, input: &mut Outgoing, left: usize) {
        if self.process.takes_input() {
            input.is_left(left);
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

/// What a line means, with the bytes after it. `is_first_over`: nothing counts any more of the first job.
/// If it is wrong, returns the place of the job that it is about, and why.
fn heard(
    said: Result<Said, String>,
    bytes: &[u8],
    may_ask: bool,
    jobs: &Pipeline<impl Task>,
    max_output: usize,
    is_first_over: bool,
) -> Result<Heard, (usize, String)> {
    let of_first = |wrong| (0, wrong);
    let said = said.map_err(of_first)?;
    match said.asks().map_err(of_first)? {
        Asks::OtherProtocol(what) => return Ok(Heard::OtherProtocol(what)),
        Asks::More(_) if !may_ask => return Err(of_first("only its first line can have protocol".to_owned())),
        Asks::More(asked) => return Ok(Heard::Asked(asked)),
        Asks::Nothing => {}
    }
    let place = match said.job_id() {
        Some(job_id) if jobs.sent() > 1 => jobs.place_of(job_id).ok_or_else(|| {
            of_first(format!("it is for job {job_id}, but the program has {} other jobs", jobs.sent()))
        })?,
        _ => 0,
    };
    let Some(context) = jobs.at(place).filter(|_| place > 0 || !is_first_over) else { return Ok(Heard::Note) };
    match said.about(bytes, context, max_output) {
        Ok(Meaning::Note) => Ok(Heard::Note),
        Ok(Meaning::Reply(result)) => Ok(Heard::Reply(place, result)),
        Err(wrong) => Err((place, wrong)),
    }
}

/// The lines in a program's output, with the bytes after them.
#[derive(Default)]
struct Lines {
    /// Whether the bytes after the last line are too many to be read.
    is_cut: bool,
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
            // A job whose output is too large is dead, however large it is: the output would be as large again.
            self.is_cut = true;
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
