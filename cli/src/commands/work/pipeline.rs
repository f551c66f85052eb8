//! The jobs of a program that stays: those that it has got, and those that are to be sent.
//!
//! ```text
//! first job ─▶ waiting ─▶ sent, with jobs ahead while they are short ─▶ its reply
//!                 ▲                        │
//!                 └── the program ended ───┘
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use readpast::{BoxError, Context, JobError, JobId, JobRun, Output};

use super::protocol::{self, Asked};

/// A program has as many jobs ahead as are expected to take this long, by those before them.
const AHEAD: Duration = Duration::from_millis(10);

/// For how long further jobs are taken. Then the thread returns, so that other jobs and workers get it.
const TAKES_FOR: Duration = Duration::from_millis(10);

/// The most bytes of jobs without a reply, unless one job alone is larger.
const MOST_BYTES: usize = 256 << 10;

/// The longest wait for more replies after some have come, so that several are read at once.
const MOMENT: Duration = Duration::from_micros(500);

/// A wait that is shorter costs more than it saves.
const SHORTEST_MOMENT: Duration = Duration::from_micros(50);

/// A job for a program.
pub trait Task: Sized {
    fn context(&self) -> &Context;

    /// Another job that waits, if there is one.
    fn next(&self) -> Option<Self>;

    /// Adds the job's line to `line`.
    fn request(&self, asked: Asked, line: &mut Vec<u8>) -> Result<(), BoxError> {
        protocol::request(self.context(), asked, line)
    }

    fn end(self, result: Result<Output, BoxError>);
}

impl Task for JobRun<'_> {
    fn context(&self) -> &Context {
        JobRun::context(self)
    }

    fn next(&self) -> Option<Self> {
        self.next_job()
    }

    fn end(self, result: Result<Output, BoxError>) {
        JobRun::end(self, result);
    }
}

pub struct Pipeline<T> {
    /// In the order in which they were sent.
    sent: VecDeque<Sent<T>>,
    waiting: VecDeque<T>,
    begun_at: Instant,
}

/// A job that a program has got.
struct Sent<T> {
    task: T,
    bytes: usize,
    /// The end of its line in everything that was sent.
    end: u64,
}

impl<T: Task> Pipeline<T> {
    pub fn new(first: T) -> Pipeline<T> {
        Pipeline { sent: VecDeque::new(), waiting: [first].into(), begun_at: Instant::now() }
    }

    /// The context of the first job, which a program runs or is to run next.
    pub fn first(&self) -> Option<&Context> {
        let sent = self.sent.front().map(|sent| &sent.task);
        sent.or(self.waiting.front()).map(Task::context)
    }

    /// How many jobs the program has.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// Adds jobs to what is sent, until the program has `most` of them.
    pub fn fill(&mut self, input: &mut Outgoing, asked: Asked, most: usize) {
        let has_time_limit = |sent: &Sent<T>| sent.task.context().job().time_limit().is_some();
        // One write for several jobs.
        if self.sent.len() > most / 2 || self.sent.iter().any(has_time_limit) {
            return;
        }
        let mut bytes: usize = self.sent.iter().map(|sent| sent.bytes).sum();
        let takes = self.begun_at.elapsed() < TAKES_FOR;
        while self.sent.is_empty() || (self.sent.len() < most && bytes < MOST_BYTES) {
            let further = || self.sent.front().filter(|_| takes).and_then(|sent| sent.task.next());
            let Some(task) = self.waiting.pop_front().or_else(further) else { return };
            let before = input.bytes.len();
            if let Err(error) = task.request(asked, &mut input.bytes) {
                input.bytes.truncate(before);
                task.end(Err(error));
                continue;
            }
            let (length, is_limited) = (input.bytes.len() - before, task.context().job().time_limit().is_some());
            bytes += length;
            input.added += length as u64;
            self.sent.push_back(Sent { task, bytes: length, end: input.added });
            if is_limited {
                return;
            }
        }
    }

    /// The place of a job that the program has.
    pub fn place_of(&self, job_id: JobId) -> Option<usize> {
        self.sent.iter().position(|sent| sent.task.context().job().id() == job_id)
    }

    pub fn at(&self, place: usize) -> Option<&Context> {
        self.sent.get(place).map(|sent| sent.task.context())
    }

    /// Whether the first job that was sent is not written in full.
    pub fn first_is_unwritten(&self, input: &Outgoing) -> bool {
        self.sent.front().is_some_and(|sent| sent.end > input.written())
    }

    /// Makes the job at this place the first.
    pub fn move_to_front(&mut self, place: usize) {
        if let Some(sent) = self.sent.remove(place) {
            self.sent.push_front(sent);
        }
    }

    /// Takes a job with a reply. Returns it, and whether the program had got all of it.
    pub fn take(&mut self, place: usize, input: &Outgoing) -> Option<(T, bool)> {
        let sent = self.sent.remove(place)?;
        let is_written = input.written() >= sent.end;
        Some((sent.task, is_written))
    }

    /// Ends the job at this place, whose program has ended. The others that it had are to be sent again.
    pub fn end_at(&mut self, place: usize, error: BoxError) {
        let task = self.sent.remove(place).map(|sent| sent.task);
        self.send_again();
        if let Some(task) = task.or_else(|| self.waiting.pop_front()) {
            task.end(Err(error));
        }
    }

    /// The program has ended without having begun the jobs that it had.
    pub fn send_again(&mut self) {
        self.sent.drain(..).rev().for_each(|sent| self.waiting.push_front(sent.task));
    }

    /// Ends all jobs as not started. They run again, without a counted attempt.
    pub fn end_unstarted(&mut self, why: &str) {
        self.send_again();
        for task in self.waiting.drain(..) {
            task.end(Err(JobError::snooze(Duration::ZERO, format!("not started: {why}")).into()));
        }
    }
}

/// How long a program takes for a job: a moving mean, which follows longer times faster than shorter ones.
#[derive(Default)]
pub struct Pace(Option<Duration>);

impl Pace {
    /// The pace of a program whose jobs are as short as can be.
    pub fn fastest() -> Pace {
        Pace(Some(Duration::ZERO))
    }

    pub fn replied(&mut self, jobs: u32, took: Duration) {
        let each = took / jobs;
        self.0 = Some(match self.0 {
            None => each,
            Some(mean) if each > mean => (mean + each) / 2,
            Some(mean) => (3 * mean + each) / 4,
        });
    }

    /// How many jobs a program may have that has asked for `ahead`.
    pub fn most_jobs(&self, ahead: usize) -> usize {
        let Some(mean) = self.0.filter(|_| ahead > 0) else { return 1 };
        let expected = AHEAD.as_nanos() / mean.as_nanos().max(1);
        usize::try_from(expected).unwrap_or(usize::MAX).clamp(1, ahead + 1)
    }

    /// How long to wait until about half of these jobs have their replies; `None`: it is not worth it.
    pub fn moment(&self, jobs: usize) -> Option<Duration> {
        let half = self.0?.saturating_mul(u32::try_from(jobs / 2).unwrap_or(u32::MAX));
        (half >= SHORTEST_MOMENT).then_some(half.min(MOMENT))
    }
}

/// What is to be written to a program.
#[derive(Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// How many of these bytes are written.
    begin: usize,
    /// The bytes that were ever added.
    added: u64,
}

impl Outgoing {
    pub fn add(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.added += line.len() as u64;
    }

    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }

    /// Records that all but this many bytes are written.
    pub fn is_left(&mut self, left: usize) {
        self.begin = self.bytes.len() - left;
        if left == 0 {
            self.bytes.clear();
            self.begin = 0;
        }
    }

    pub fn is_written(&self) -> bool {
        self.begin == self.bytes.len()
    }

    /// The bytes that were ever written.
    fn written(&self) -> u64 {
        self.added - self.rest().len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use readpast::{Job, NewJob};

    use super::*;

    type Ends = Rc<RefCell<Vec<(i64, Option<String>)>>>;

    /// Jobs with ids from 1, of as many bytes.
    struct Numbered {
        context: Context,
        bytes: usize,
        ends: Ends,
    }

    impl Numbered {
        fn new(id: i64, bytes: usize, ends: &Ends) -> Numbered {
            let context = Context::for_test(Job::for_test(NewJob::text("")).with_id(JobId(id)));
            Numbered { context, bytes, ends: ends.clone() }
        }
    }

    impl Task for Numbered {
        fn context(&self) -> &Context {
            &self.context
        }

        fn next(&self) -> Option<Self> {
            thread_local!(static LAST: std::cell::Cell<i64> = const { std::cell::Cell::new(1) });
            LAST.set(LAST.get() + 1);
            Some(Numbered::new(LAST.get(), self.bytes, &self.ends))
        }

        fn request(&self, _: Asked, line: &mut Vec<u8>) -> Result<(), BoxError> {
            line.resize(line.len() + self.bytes, b'x');
            if self.context.job().id() == JobId(3) { Err("it has no line".into()) } else { Ok(()) }
        }

        fn end(self, result: Result<Output, BoxError>) {
            let error = result.err().map(|error| error.to_string());
            self.ends.borrow_mut().push((self.context.job().id().0, error));
        }
    }

    fn ids(jobs: &Pipeline<Numbered>) -> Vec<i64> {
        jobs.sent.iter().map(|sent| &sent.task).chain(&jobs.waiting).map(|task| task.context.job().id().0).collect()
    }

    #[test]
    fn jobs_are_sent_ahead_up_to_their_number_and_their_bytes() {
        let ends = Ends::default();
        let (mut jobs, mut input) = (Pipeline::new(Numbered::new(1, 100_000, &ends)), Outgoing::default());
        jobs.fill(&mut input, Asked::default(), 1);
        assert_eq!((ids(&jobs), input.rest().len()), (vec![1], 100_000));
        jobs.fill(&mut input, Asked::default(), 10);
        // The third has an error of its own, and two more are all that may be unread.
        assert_eq!((ids(&jobs), input.rest().len()), (vec![1, 2, 4], 300_000));
        assert_eq!(*ends.borrow(), [(3, Some("it has no line".to_owned()))]);
        input.is_left(150_000);
        assert!(!jobs.take(1, &input).unwrap().1, "half of it is written");
        assert!(jobs.take(0, &input).unwrap().1);
        jobs.begun_at -= TAKES_FOR;
        jobs.fill(&mut input, Asked::default(), 10);
        assert_eq!(ids(&jobs), [4], "the thread is to return");
    }

    #[test]
    fn a_job_with_a_time_limit_is_sent_alone() {
        let ends = Ends::default();
        let mut first = Numbered::new(1, 1, &ends);
        first.context = Context::for_test(Job::for_test(NewJob::text("").time_limit(AHEAD)));
        let mut jobs = Pipeline::new(first);
        for _ in 0..2 {
            jobs.fill(&mut Outgoing::default(), Asked::default(), 10);
            assert_eq!(jobs.sent(), 1);
        }
    }

    #[test]
    fn what_a_program_had_besides_the_job_that_ended_it_is_sent_again_in_order() {
        let ends = Ends::default();
        let mut jobs = Pipeline::new(Numbered::new(10, 1, &ends));
        jobs.waiting.extend([11, 12, 13].map(|id| Numbered::new(id, 1, &ends)));
        jobs.fill(&mut Outgoing::default(), Asked::default(), 3);
        jobs.end_at(1, "it died".into());
        assert_eq!((ids(&jobs), jobs.sent()), (vec![10, 12, 13], 0));
        jobs.end_unstarted("the worker stops");
        let ends = ends.borrow();
        assert_eq!(ends[0], (11, Some("it died".to_owned())));
        assert!(ends[1..].iter().all(|(_, error)| error.as_deref() == Some("not started: the worker stops")));
        assert_eq!(ends.len(), 4);
    }

    #[test]
    fn a_long_job_has_few_jobs_behind_it() {
        let mut pace = Pace::default();
        assert_eq!(pace.most_jobs(100), 1, "nothing is known");
        pace.replied(1, Duration::from_micros(50));
        assert_eq!((pace.most_jobs(100), pace.most_jobs(1_000), pace.most_jobs(0)), (101, 200, 1));
        pace.replied(1, Duration::from_secs(1));
        assert_eq!(pace.most_jobs(100), 1);
        (0..40).for_each(|_| pace.replied(10, Duration::from_micros(100)));
        assert_eq!(pace.most_jobs(100), 101);
        assert_eq!(pace.moment(2), None);
        assert!(pace.moment(100).unwrap() <= MOMENT);
    }
}
