//! Programs that stay: one per thread, with a line on standard input per job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use readpast::{BoxError, Context, JobError, JobId, JobRun, WorkerBuilder};

use super::ending::pause;
use super::memory::MemoryLimits;
use super::pipeline::Pipeline;
use super::runner::Runner;
use super::starting::is_shortage;
use super::talk::{Talk, Talked, shown};

/// The pause before a program is started for the third time if it has not sent a valid reply. It doubles each time. The
/// second start is immediate.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

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
    /// The job that the last program had not read when it closed its standard input.
    unread: Option<JobId>,
}

impl Kept {
    /// Runs a job on this thread's program, and further ones if the program asks for them.
    pub fn run(&self, runner: &Runner, first: JobRun<'_>) {
        // No other job runs on this thread meanwhile: nothing here waits for rayon.
        let place = lock(&self.places).entry(thread::current().id()).or_default().clone();
        lock(&place).run(runner, first);
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

    fn run(&mut self, runner: &Runner, first: JobRun<'_>) {
        let memory = runner.memory_for(first.context().job());
        let mut jobs = Pipeline::new(first);
        while let Some(context) = jobs.first() {
            let mut talk = match self.ready(runner, memory, context) {
                Ok(Some(talk)) => talk,
                Ok(None) => return jobs.end_unstarted(0, "the worker waited to start its program"),
                Err(error) => {
                    jobs.end_at(0, error);
                    return jobs.end_unstarted(0, "the program cannot be started");
                }
            };
            talk.errors.clear();
            let replies_before = talk.jobs;
            let talked = talk.ask(&mut jobs, runner);
            if talk.jobs > replies_before {
                (self.failures, self.unread) = (0, None);
            }
            // If it is not kept, the program is killed, as it is dropped.
            match talked {
                Ok(Talked::Answered) => {
                    self.keep(talk, runner, memory);
                }
                Ok(Talked::OutOfStep(why)) => {
                    // It would read the next job as the rest of the last, or has more to write of it.
                    tracing::warn!(why, "restarting a program");
                    drop(talk);
                    jobs.send_again();
                }
                Ok(Talked::ClosedInput) => {
                    tracing::warn!("a program has closed its standard input; restarting it");
                    drop(talk);
                    self.failures += 1;
                    let job_id = jobs.first().map(|context| context.job().id());
                    if std::mem::replace(&mut self.unread, job_id) == job_id {
                        jobs.end_at(
                            0,
                            JobError::retry("the program closed its standard input without having read the job").into(),
                        );
                    } else {
                        jobs.send_again();
                    }
                }
                Ok(Talked::Wrong(wrong)) => {
                    drop(talk);
                    self.failures += 1;
                    jobs.end_at(0, JobError::retry(wrong).into());
                }
                Ok(Talked::Gone(error)) => {
                    drop(talk);
                    self.failures += 1;
                    jobs.end_at(0, error);
                }
                Ok(Talked::Ended(error)) | Err(error) => {
                    drop(talk);
                    jobs.end_at(0, error);
                }
            }
            if jobs.first().is_some_and(|context| context.is_stopping() || context.is_lease_lost()) {
                jobs.end_unstarted(0, "the program has ended, and the worker stops");
            }
            if self.failures > 1 {
                // The others need not wait with it for the next start.
                jobs.end_unstarted(1, "the program keeps failing");
            }
        }
    }

    /// Returns a program that is waiting for a job, or `None` if the job may no longer start.
    fn ready(
        &mut self,
        runner: &Runner,
        memory: Option<(&MemoryLimits, u64)>,
        context: &Context,
    ) -> Result<Option<Talk>, BoxError> {
        if let Some(mut talk) = self.program.take() {
            talk.read_all(Duration::ZERO)?;
            talk.read_asked();
            if talk.process.has_ended() || talk.process.is_silent() || !talk.process.takes_input() {
                tracing::debug!("a program has ended between two jobs; a new one is started");
            } else if !talk.output.is_empty() {
                let said = shown(&talk.output);
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
            let started = Talk::start(runner, memory);
            if started.as_ref().is_err_and(|error| !is_shortage(error)) {
                self.failures += 1;
            }
            Ok(started?)
        })?;
        Ok(Some(talk))
    }

    /// Keeps the program of a finished job for the next one, or replaces it.
    fn keep(&mut self, mut talk: Talk, runner: &Runner, memory: Option<(&MemoryLimits, u64)>) {
        let Some(reason) = talk.is_unfit(runner, None) else {
            self.program = Some(talk);
            return;
        };
        tracing::debug!(reason, "replacing a program");
        self.retire(talk, runner);
        if self.predecessor.is_none() {
            // If this fails, the next job starts it.
            self.program = Talk::start(runner, memory).ok();
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
