//! Programs that stay: one per thread, with a line on standard input per job.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use readpast::{BoxError, Context, Job, JobError, Output, WorkerBuilder};

use super::ending::{Ending, pause};
use super::error_tail::ErrorTail;
use super::job_meter::JobMeter;
use super::process::{Input, LAST_READS, Process};
use super::protocol;
use super::runner::{Runner, ended_early, was_told_to_end};
use super::starting::is_shortage;

/// The pause before a program is started for the third time if it has not sent a valid reply. It doubles each time. The
/// second start is immediate.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The most bytes of a reply besides its output: other fields and the error's text.
const ANSWER_OVERHEAD: usize = 64 << 10;

/// Characters shown of an invalid reply.
const SHOWN: usize = 200;

/// The programs that stay, one per thread.
#[derive(Default)]
pub struct Kept {
    /// The programs by their thread.
    places: Mutex<HashMap<ThreadId, Arc<Mutex<Place>>>>,
}

/// One thread's program.
#[derive(Default)]
struct Place {
    program: Option<Talk>,
    /// Waits for the replaced program to end, if there is not enough memory to start its successor before.
    predecessor: Option<JoinHandle<()>>,
    /// Wait for other replaced programs to end.
    retiring: Vec<JoinHandle<()>>,
    /// Programs ended since the last valid reply.
    failures: u32,
}

/// A running program, and what it has written.
struct Talk {
    process: Process,
    output: Vec<u8>,
    errors: ErrorTail,
    /// Its finished jobs.
    jobs: u64,
    started_at: Instant,
}

enum Talked {
    /// The reply without its newline.
    Answered { line: Vec<u8>, has_read_all: bool },
    /// The program ended; the job has this error.
    Gone(BoxError),
    /// The program was ended because the job had to end.
    Ended(BoxError),
}

impl Kept {
    /// Runs a job on this thread's program.
    ///
    /// # Errors
    ///
    /// The job's outcome, or why there is no reply.
    pub fn run(&self, runner: &Runner, job: &Job, context: &Context) -> Result<Output, BoxError> {
        let request = protocol::request(job, context)?;
        // No other job runs on this thread meanwhile: nothing here waits for rayon.
        let place = lock(&self.places).entry(thread::current().id()).or_default().clone();
        let mut place = lock(&place);
        let Some(mut talk) = place.ready(runner, job, context)? else {
            return Err(JobError::snooze(Duration::ZERO, "not started: the worker waited to start its program").into());
        };
        talk.errors.clear();
        let (answer, has_read_all) = match talk.ask(&request, runner, context)? {
            Talked::Answered { line, has_read_all } => {
                let answer = protocol::read_answer(&line, job, runner.max_output).map_err(|wrong| {
                    let line = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
                    format!(
                        "invalid reply of the program: {wrong}: {line}\nStandard output is only for replies, one line each; \
                         print everything else to standard error"
                    )
                });
                (answer, has_read_all)
            }
            Talked::Gone(error) => {
                place.failures += 1;
                return Err(error);
            }
            Talked::Ended(error) => return Err(error),
        };
        match answer {
            Ok(result) => {
                place.failures = 0;
                // A child of the program may have been killed.
                let out_of_memory_text = result.is_err().then(|| talk.process.out_of_memory()).flatten();
                if has_read_all {
                    talk.jobs += 1;
                    place.keep(talk, runner, job);
                } else {
                    // It would read the next job as the rest of this one's line.
                    tracing::warn!(job_id = %job.id(), "a program replied before reading its job; restarting it");
                }
                match (result, out_of_memory_text) {
                    (Err(error), Some(what)) => Err(JobError::out_of_memory(format!("{what}: {error}")).into()),
                    (result, _) => Ok(result?),
                }
            }
            Err(wrong) => {
                place.failures += 1;
                Err(JobError::retry(wrong).into()) // and the program is killed, as it is dropped
            }
        }
    }

    /// Ends the program of this thread, which is about to end: a program is killed with the thread that has started it.
    pub fn leave(&self, grace: Duration) {
        let this = thread::current().id();
        let Some(place) = lock(&self.places).get(&this).cloned() else { return };
        Place::end(&mut [lock(&place)], grace);
        lock(&self.places).remove(&this);
    }

    /// Ends all programs; after `grace` the rest are killed. Call it when no more jobs run.
    pub fn end(&self, grace: Duration) {
        // The locks are held to the end, so that no thread leaves whose program is ending.
        let places: Vec<Arc<Mutex<Place>>> = lock(&self.places).values().cloned().collect();
        Place::end(&mut places.iter().map(|place| lock(place)).collect::<Vec<_>>(), grace);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a program can be started that needs as much memory as its predecessor.
fn has_room_for(bytes: u64) -> bool {
    // Where the system does not tell the one, the other is unknown, too.
    WorkerBuilder::free_memory().map_or(bytes == 0, |free| free > bytes)
}

impl Place {
    /// Ends the programs of these places; after `grace` the rest are killed.
    fn end(places: &mut [MutexGuard<'_, Place>], grace: Duration) {
        let mut left: Vec<Talk> = places.iter_mut().filter_map(|place| place.program.take()).collect();
        for talk in &mut left {
            talk.process.close_input();
        }
        let until = Instant::now() + grace;
        for talk in left {
            talk.end(until);
        }
        let ending = |place: &mut MutexGuard<'_, Place>| {
            place.predecessor.take().into_iter().chain(std::mem::take(&mut place.retiring))
        };
        for thread in places.iter_mut().flat_map(ending) {
            let _ = thread.join(); // if it panicked, the program was killed
        }
    }

    /// Returns a program that is waiting for a job, or `None` if the job may no longer start.
    fn ready(&mut self, runner: &Runner, job: &Job, context: &Context) -> Result<Option<Talk>, BoxError> {
        let memory = runner.memory_for(job);
        if let Some(mut talk) = self.program.take() {
            talk.read_all()?;
            if talk.process.has_ended() || talk.process.is_silent() {
                tracing::debug!("a program has ended between two jobs; a new one is started");
            } else if !talk.output.is_empty() {
                let said = String::from_utf8_lossy(&talk.output[..talk.output.len().min(SHOWN)]).into_owned();
                tracing::warn!(said, "a program wrote output without having a job; restarting it");
            } else if let Some(reason) = talk.is_unfit(runner, memory.map(|(_, bytes)| bytes)) {
                tracing::debug!(reason, "replacing a program");
                self.retire(talk, runner);
            } else {
                return Ok(Some(talk));
            }
        }
        if let Some(predecessor) = self.predecessor.take() {
            let _ = predecessor.join(); // if it panicked, the program was killed
        }
        if self.failures > 1 {
            let delay = FIRST_PAUSE.saturating_mul(1 << (self.failures - 2).min(20)).min(LONGEST_PAUSE);
            tracing::debug!(?delay, failures = self.failures, "waiting before the program is started again");
            if !pause(context, delay) {
                return Ok(None);
            }
        }
        let talk = runner.starting.start(&runner.program, context, || {
            let started = Talk::start(runner, job);
            if started.as_ref().is_err_and(|error| !is_shortage(error)) {
                self.failures += 1;
            }
            Ok(started?)
        })?;
        Ok(Some(talk))
    }

    /// Keeps the program of a finished job for the next one, or replaces it.
    fn keep(&mut self, mut talk: Talk, runner: &Runner, job: &Job) {
        let Some(reason) = talk.is_unfit(runner, None) else {
            self.program = Some(talk);
            return;
        };
        tracing::debug!(reason, "replacing a program");
        self.retire(talk, runner);
        if self.predecessor.is_none() {
            // If this fails, the next job starts it.
            self.program = Talk::start(runner, job).ok();
        }
    }

    /// Ends a program in order, without waiting for it.
    fn retire(&mut self, talk: Talk, runner: &Runner) {
        let (has_room, grace) = (has_room_for(talk.process.resident()), runner.grace);
        let ends = move || talk.end(Instant::now() + grace);
        // Without a thread, the program is killed, because the closure is dropped.
        let Ok(ending) = thread::Builder::new().name("readpast-retire".to_owned()).spawn(ends) else { return };
        if has_room {
            self.retiring.retain(|thread| !thread.is_finished());
            self.retiring.push(ending);
        } else {
            self.predecessor = Some(ending);
        }
    }
}

impl Talk {
    /// Starts a program, with the limit of its first job's memory.
    fn start(runner: &Runner, job: &Job) -> io::Result<Talk> {
        // A new command each time, because it enters a control group of its own.
        let mut command = runner.program.for_many_jobs(runner.guard.run());
        let process = Process::spawn(&mut command, &runner.guard, true, runner.memory_for(job))?;
        let (output, errors, started_at) = (Vec::new(), ErrorTail::default(), Instant::now());
        Ok(Talk { process, output, errors, jobs: 0, started_at })
    }

    /// Why the program is to be replaced before its next job, whose memory is to be limited to this.
    fn is_unfit(&mut self, runner: &Runner, memory: Option<u64>) -> Option<String> {
        if memory.is_some_and(|bytes| !self.process.limit_memory(bytes)) {
            return Some("it uses more memory than its next job may".to_owned());
        }
        runner.recycling.reason(self.jobs, self.started_at, &self.process)
    }

    /// Waits until the program exits, once its standard input is closed, and kills it if it does not exit in time.
    fn end(mut self, until: Instant) {
        self.process.close_input();
        while !self.process.has_ended() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() || self.read(rest).is_err() {
                tracing::warn!("a program did not exit when its standard input was closed; killing it");
                return;
            }
            self.output.clear();
        }
    }

    /// Sends a job and waits for the reply.
    fn ask(&mut self, request: &[u8], runner: &Runner, context: &Context) -> Result<Talked, BoxError> {
        let longest = 2 * runner.max_output + ANSWER_OVERHEAD;
        let (mut input, mut ending, mut searched) = (Input::part(request), Ending::new(runner.grace), 0);
        let mut meter = JobMeter::start(self.process.id());
        loop {
            let at_most = meter.until_look(ending.look(&mut self.process, context));
            self.process.exchange(&mut input, &mut self.output, &mut self.errors, at_most)?;
            self.errors.log(context);
            meter.look();
            // A reply at the last moment counts, unless it was too late already.
            if ending.why().is_none() {
                let end = self.output[searched..].iter().position(|byte| *byte == b'\n');
                if let Some(end) = end {
                    context.report_usage(meter.used());
                    let rest = self.output.split_off(searched + end + 1);
                    let mut line = std::mem::replace(&mut self.output, rest);
                    line.pop();
                    let has_read_all = input.is_written() && self.process.takes_input();
                    return Ok(Talked::Answered { line, has_read_all });
                }
                searched = self.output.len();
                if searched > longest {
                    context.report_usage(meter.used());
                    let text = format!("the program's reply is longer than {longest} bytes");
                    return Ok(Talked::Gone(JobError::retry(text).into()));
                }
            } else {
                self.output.clear();
            }
            match ending.why() {
                Some(why) if !ending.goes_on(&self.process) => {
                    context.report_usage(meter.used());
                    return Ok(Talked::Ended(ended_early(why, context, &self.errors).into()));
                }
                None if self.process.has_ended() || self.process.is_silent() => {
                    context.report_usage(meter.used());
                    return Ok(Talked::Gone(self.gone(context)?));
                }
                _ => {}
            }
        }
    }

    /// The error of a job whose program ended without a reply.
    fn gone(&mut self, context: &Context) -> Result<BoxError, BoxError> {
        if !self.process.has_ended() {
            // Its standard output is closed: it is probably about to exit.
            let until = Instant::now() + Duration::from_secs(1);
            while !self.process.has_ended() && Instant::now() < until {
                self.read(Duration::from_millis(10))?;
            }
        }
        if !self.process.has_ended() {
            return Ok(JobError::retry(self.errors.after("the program closed its standard output")).into());
        }
        let (status, _) = self.process.end(&mut self.output, &mut self.errors)?;
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
    /// Does not wait for a program that keeps writing.
    fn read_all(&mut self) -> std::io::Result<()> {
        for _ in 0..LAST_READS {
            if !self.read(Duration::ZERO)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads once what the program wrote between two jobs. Returns whether there was anything.
    fn read(&mut self, at_most: Duration) -> std::io::Result<bool> {
        self.process.exchange(&mut Input::part(&[]), &mut self.output, &mut self.errors, at_most)
    }
}
