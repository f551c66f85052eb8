//! The jobs of a program that stays: those that it has got, and those that are to be sent.
//!
//! ```text
//! first job ─▶ waiting ─▶ sent, with jobs ahead while they are short ─▶ its reply
//!                 ▲                        │
//!                 └── the program ended ───┘
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use readpast::{BoxError, Context, Job, JobError, JobId, JobRun, Output};

use super::ending::Why;
use super::error_tail::ErrorTail;
use super::protocol::{self, Asked};
use super::runner::ended_early;

/// A job is sent ahead if those before it are expected to take less than this.
const AHEAD: Duration = Duration::from_millis(10);

/// For how long further jobs are taken. Then the thread returns, and a program that is too old or too large is replaced.
/// The program runs out of jobs before that, so a shorter time would leave it idle more often.
const TAKES_FOR: Duration = Duration::from_millis(100);

/// The most bytes of jobs without a reply, unless one job alone is larger.
const MOST_BYTES: usize = 256 << 10;

/// The longest wait for more replies after some have come, so that several are read at once.
const MOMENT: Duration = Duration::from_millis(1);

/// A wait that is shorter costs more than it saves.
const SHORTEST_MOMENT: Duration = Duration::from_micros(50);

/// The most kinds whose pace is known, so that a look is short.
const MOST_KINDS: usize = 50;

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
    /// How long it is expected to take.
    expected: Duration,
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
    pub fn fill(&mut self, input: &mut Outgoing, asked: Asked, most: usize, pace: &Pace) {
        let mut expected: Duration = self.sent.iter().map(|sent| sent.expected).sum();
        // One write for several jobs.
        if self.sent.len() > most / 2 || expected > AHEAD / 2 {
            return;
        }
        let mut bytes: usize = self.sent.iter().map(|sent| sent.bytes).sum();
        let takes = self.begun_at.elapsed() < TAKES_FOR;
        while self.sent.is_empty() || (self.sent.len() < most && bytes < MOST_BYTES && expected < AHEAD) {
            let further = || self.sent.front().filter(|_| takes).and_then(|sent| sent.task.next());
            let Some(task) = self.waiting.pop_front().or_else(further) else { return };
            let (context, before) = (task.context(), input.bytes.len());
            let request = if context.is_cancelled() {
                Err(ended_early(Why::of(context), context, &ErrorTail::default()).into())
            } else {
                task.request(asked, &mut input.bytes)
            };
            if let Err(error) = request {
                input.bytes.truncate(before);
                task.end(Err(error));
                continue;
            }
            let (length, takes) = (input.bytes.len() - before, pace.expected(context.job()));
            bytes += length;
            expected += takes;
            input.added += length as u64;
            self.sent.push_back(Sent { task, bytes: length, expected: takes, end: input.added });
        }
    }

    /// How long to wait until about half of the jobs have their replies; `None`: it is not worth it.
    pub fn moment(&self, pace: &Pace) -> Option<Duration> {
        let half: Duration = self.sent.iter().take(self.sent.len() / 2).map(|sent| sent.expected).sum();
        (half >= SHORTEST_MOMENT).then_some(half.min(pace.longest_moment))
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

    /// Ends all but the first `kept` jobs as not started. They run again, without a counted attempt.
    pub fn end_unstarted(&mut self, kept: usize, why: &str) {
        self.send_again();
        for task in self.waiting.drain(kept.min(self.waiting.len())..) {
            task.end(Err(JobError::snooze(Duration::ZERO, format!("not started: {why}")).into()));
        }
    }
}

/// How long a program takes for the jobs of each kind.
pub struct Pace {
    kinds: Vec<KindPace>,
    /// The longest wait for more replies. It is learnt apart: the times of the kinds include that in which the program had
    /// no job, which hides a wait that was too long.
    longest_moment: Duration,
}

struct KindPace {
    kind: Option<String>,
    /// A moving mean, which follows longer times faster than shorter ones.
    mean: Option<Duration>,
    /// Replies since the means were last changed.
    replies: u32,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { kinds: Vec::new(), longest_moment: MOMENT }
    }
}

impl Pace {
    /// The pace of a program whose jobs of this kind are as short as can be.
    pub fn fastest(kind: Option<&str>) -> Pace {
        let kinds = vec![KindPace { kind: kind.map(str::to_owned), mean: Some(Duration::ZERO), replies: 0 }];
        Pace { kinds, ..Pace::default() }
    }

    /// Learns from a wait for more replies. `is_idle`: then the program had none of its jobs left.
    pub fn waited(&mut self, is_idle: bool) {
        self.longest_moment = if is_idle {
            (self.longest_moment / 2).max(SHORTEST_MOMENT)
        } else {
            (self.longest_moment * 5 / 4).min(MOMENT)
        };
    }

    /// How long a job is expected to take. Nothing is sent behind a job of which that is not known, or whose time limit
    /// would include the wait.
    fn expected(&self, job: &Job) -> Duration {
        let of_kind = self.kinds.iter().find(|pace| pace.kind.as_deref() == job.kind()).and_then(|pace| pace.mean);
        of_kind.filter(|_| job.time_limit().is_none()).unwrap_or(AHEAD)
    }

    /// Counts a reply to a job of this kind.
    pub fn replied(&mut self, kind: Option<&str>) {
        if let Some(pace) = self.kinds.iter_mut().find(|pace| pace.kind.as_deref() == kind) {
            pace.replies += 1;
        } else {
            if self.kinds.len() == MOST_KINDS {
                self.kinds.remove(0);
            }
            self.kinds.push(KindPace { kind: kind.map(str::to_owned), mean: None, replies: 1 });
        }
    }

    /// Divides the time that the counted replies took in total among their kinds, by what they took before.
    pub fn took(&mut self, total: Duration) {
        let replies: u32 = self.kinds.iter().map(|pace| pace.replies).sum();
        let each = total / replies.max(1);
        let before = |pace: &KindPace| pace.mean.unwrap_or(each).max(Duration::from_nanos(1)).as_secs_f64();
        let expected: f64 = self.kinds.iter().map(|pace| f64::from(pace.replies) * before(pace)).sum();
        for pace in self.kinds.iter_mut().filter(|pace| pace.replies > 0) {
            let each = total.mul_f64(before(pace) / expected);
            pace.replies = 0;
            pace.mean = Some(match pace.mean {
                None => each,
                Some(mean) if each > mean => (mean + each) / 2,
                Some(mean) => (3 * mean + each) / 4,
            });
        }
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

    use readpast::NewJob;

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
        jobs.fill(&mut input, Asked::default(), 1, &Pace::fastest(None));
        assert_eq!((ids(&jobs), input.rest().len()), (vec![1], 100_000));
        jobs.fill(&mut input, Asked::default(), 10, &Pace::fastest(None));
        // The third has an error of its own, and two more are all that may be unread.
        assert_eq!((ids(&jobs), input.rest().len()), (vec![1, 2, 4], 300_000));
        assert_eq!(*ends.borrow(), [(3, Some("it has no line".to_owned()))]);
        input.is_left(150_000);
        assert!(!jobs.take(1, &input).unwrap().1, "half of it is written");
        assert!(jobs.take(0, &input).unwrap().1);
        jobs.begun_at -= TAKES_FOR;
        jobs.fill(&mut input, Asked::default(), 10, &Pace::fastest(None));
        assert_eq!(ids(&jobs), [4], "the thread is to return");
    }

    #[test]
    fn a_job_with_a_time_limit_is_sent_alone() {
        let ends = Ends::default();
        let mut first = Numbered::new(1, 1, &ends);
        first.context = Context::for_test(Job::for_test(NewJob::text("").time_limit(AHEAD)));
        let mut jobs = Pipeline::new(first);
        for _ in 0..2 {
            jobs.fill(&mut Outgoing::default(), Asked::default(), 10, &Pace::fastest(None));
            assert_eq!(jobs.sent(), 1);
        }
    }

    #[test]
    fn what_a_program_had_besides_the_job_that_ended_it_is_sent_again_in_order() {
        let ends = Ends::default();
        let mut jobs = Pipeline::new(Numbered::new(10, 1, &ends));
        jobs.waiting.extend([11, 12, 13].map(|id| Numbered::new(id, 1, &ends)));
        jobs.fill(&mut Outgoing::default(), Asked::default(), 3, &Pace::fastest(None));
        jobs.end_at(1, "it died".into());
        assert_eq!((ids(&jobs), jobs.sent()), (vec![10, 12, 13], 0));
        jobs.end_unstarted(1, "it dies");
        assert_eq!(ids(&jobs), [10]);
        jobs.end_unstarted(0, "the worker stops");
        jobs.end_unstarted(1, "none is left");
        let expected = [(11, "it died"), (12, "not started: it dies"), (13, "not started: it dies")];
        let expected = expected.into_iter().chain([(10, "not started: the worker stops")]);
        assert!(ends.borrow().iter().cloned().eq(expected.map(|(id, error)| (id, Some(error.to_owned())))), "{ends:?}");
    }

    #[test]
    fn a_job_that_was_taken_away_is_not_sent() {
        let ends = Ends::default();
        let [first, mut second, third] = [10, 11, 12].map(|id| Numbered::new(id, 1, &ends));
        second.context = second.context.cancelled();
        let mut jobs = Pipeline::new(first);
        jobs.waiting.extend([second, third]);
        jobs.fill(&mut Outgoing::default(), Asked::default(), 2, &Pace::fastest(None));
        assert_eq!((ids(&jobs), jobs.sent()), (vec![10, 12], 2));
        let lost = "ended because the worker has lost its lease".to_owned();
        assert_eq!(*ends.borrow(), [(11, Some(lost))]);
    }

    /// The pace after replies of such kinds came together after this many milliseconds.
    fn pace(replies: &[(&[&str], u64)]) -> Pace {
        let mut pace = Pace::default();
        for (kinds, milliseconds) in replies {
            kinds.iter().for_each(|kind| pace.replied(Some(kind)));
            pace.took(Duration::from_millis(*milliseconds));
        }
        pace
    }

    fn of_kind(kind: &str) -> Job {
        Job::for_test(NewJob::text("").kind(kind))
    }

    #[test]
    fn a_kind_follows_longer_times_faster_than_shorter_ones() {
        let expected = |replies: &[(&[&str], u64)]| pace(replies).expected(&of_kind("a")).as_micros();
        assert_eq!(expected(&[]), AHEAD.as_micros(), "nothing is known");
        assert_eq!(expected(&[(&["a"; 4], 4)]), 1_000);
        assert_eq!(expected(&[(&["a"], 1), (&["a"], 3)]), 2_000);
        assert_eq!(expected(&[(&["a"], 3), (&["a"], 1)]), 2_500);
        let limited = Job::for_test(NewJob::text("").kind("a").time_limit(AHEAD));
        assert_eq!(pace(&[(&["a"], 1)]).expected(&limited), AHEAD);
    }

    #[test]
    fn replies_that_come_together_share_their_time_by_what_their_kinds_took_before() {
        let pace = pace(&[(&["short"; 10], 1), (&["long"], 100), (&["short", "short", "long"], 101)]);
        let expected = |kind| pace.expected(&of_kind(kind)).as_micros();
        assert!((100..110).contains(&expected("short")), "{}", expected("short"));
        assert!((100_000..101_000).contains(&expected("long")), "{}", expected("long"));
    }

    #[test]
    fn only_the_pace_of_some_kinds_is_known() {
        let mut pace = Pace::default();
        for kind in 0..2 * MOST_KINDS {
            pace.replied(Some(&kind.to_string()));
            pace.took(Duration::ZERO);
        }
        assert_eq!(pace.kinds.len(), MOST_KINDS);
        let [oldest, next] = [MOST_KINDS - 1, MOST_KINDS].map(|kind| pace.expected(&of_kind(&kind.to_string())));
        assert_eq!((oldest, next), (AHEAD, Duration::ZERO), "the oldest ones are forgotten");
    }

    #[test]
    fn nothing_is_sent_behind_a_job_of_a_long_or_unknown_kind() {
        let ends = Ends::default();
        let sent = |kinds: &[&str]| {
            let numbered = |(id, kind): (i64, &&str)| {
                let mut numbered = Numbered::new(id, 1, &ends);
                numbered.context = Context::for_test(of_kind(kind).with_id(JobId(id)));
                numbered
            };
            let mut waiting = (10..).zip(kinds).map(numbered);
            let mut jobs = Pipeline::new(waiting.next().unwrap());
            jobs.waiting.extend(waiting);
            let pace = pace(&[(&["short"], 1), (&["long"], 20)]);
            // A second time nothing changes.
            (0..2).for_each(|_| jobs.fill(&mut Outgoing::default(), Asked::default(), kinds.len(), &pace));
            jobs.sent()
        };
        assert_eq!(sent(&["short"; 100]), 10);
        assert_eq!(sent(&["short", "short", "long", "short", "short", "short"]), 3);
        assert_eq!(sent(&["short", "short", "new", "short", "short", "short"]), 3);
        assert_eq!(sent(&["long", "short"]), 1);
        assert_eq!(sent(&["new", "short"]), 1);
    }

    #[test]
    fn replies_are_awaited_for_half_of_the_jobs() {
        let ends = Ends::default();
        let mut jobs = Pipeline::new(Numbered::new(10, 1, &ends));
        jobs.waiting.extend((11..20).map(|id| Numbered::new(id, 1, &ends)));
        let mut pace = Pace::default();
        (0..10).for_each(|_| pace.replied(None));
        pace.took(10 * SHORTEST_MOMENT);
        assert_eq!(jobs.moment(&pace), None);
        jobs.fill(&mut Outgoing::default(), Asked::default(), 10, &pace);
        assert_eq!((jobs.sent(), jobs.moment(&pace)), (10, Some(5 * SHORTEST_MOMENT)));
        jobs.sent.truncate(1);
        assert_eq!(jobs.moment(&pace), None, "one job's reply is awaited as it comes");
    }

    #[test]
    fn a_wait_in_which_the_program_became_idle_is_shorter_next_time() {
        let ends = Ends::default();
        let mut jobs = Pipeline::new(Numbered::new(10, 1, &ends));
        jobs.waiting.extend((11..20).map(|id| Numbered::new(id, 1, &ends)));
        let mut pace = Pace::default();
        pace.replied(None);
        pace.took(MOMENT / 2);
        jobs.fill(&mut Outgoing::default(), Asked::default(), 10, &pace);
        assert_eq!(jobs.moment(&pace), Some(MOMENT));
        pace.waited(true);
        assert_eq!(jobs.moment(&pace), Some(MOMENT / 2));
        pace.waited(false);
        assert_eq!(jobs.moment(&pace), Some(MOMENT / 8 * 5));
        (0..10).for_each(|_| pace.waited(false));
        assert_eq!(jobs.moment(&pace), Some(MOMENT));
        (0..10).for_each(|_| pace.waited(true));
        assert_eq!(jobs.moment(&pace), Some(SHORTEST_MOMENT));
    }
}
