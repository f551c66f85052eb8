//! `work --keep` with programs that ask for jobs ahead of their replies.

use std::time::Duration;

use readpast::admin::{JobChange, JobState};
use readpast::{JobId, NewJob};
use rustix::process::Signal;

use crate::worker_process::{WorkFixture, has, wait_for};

/// Reads all jobs that have come, and passes them to `handle(jobs)`. Notes how many they were at most.
const PROGRAM: &str = "
import json, os, select, signal, sys, time
def say(line): os.write(1, json.dumps(line).encode() + b'\\n')
def ok(job, text=''): say({'job_id': job['job_id'], 'output_text': text})
say({'protocol': 1, 'ahead': 50})
pending, most = b'', 0
while True:
    while b'\\n' not in pending or select.select([0], [], [], 0)[0]:
        data = os.read(0, 1 << 16)
        if not data: sys.exit(0)
        pending += data
    *lines, pending = pending.split(b'\\n')
    jobs = [json.loads(line) for line in lines]
    if len(jobs) > most:
        most = len(jobs)
        open('most', 'a').write(f'{most}\\n')
    handle(jobs)
";

/// The arguments that keep a program with this `handle(jobs)` on one thread.
fn program(handle: &str) -> Vec<String> {
    let program = format!("def handle(jobs):\n{handle}\n{PROGRAM}").replace('{', "{{");
    ["--keep", "--threads", "1", "--", "python3", "-c", &program].map(str::to_owned).to_vec()
}

/// The most jobs that a program had at the same time.
fn most(work: &WorkFixture) -> usize {
    let most = std::fs::read_to_string(work.path("most")).unwrap();
    most.lines().map(|line| line.parse().unwrap()).max().unwrap()
}

async fn enqueue(work: &WorkFixture, texts: impl Iterator<Item = String>) -> Vec<JobId> {
    let jobs: Vec<_> = texts.map(NewJob::text).collect();
    work.queue.enqueue_many(&jobs).await.unwrap().into_iter().map(|enqueued| enqueued.job_id).collect()
}

fn numbers(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| number.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_come_in_any_order_with_notes_of_any_job() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("any_order").await;
    let jobs = enqueue(&work, numbers(500)).await;
    let handle = "
    for job in jobs: say({'job_id': job['job_id'], 'progress': 0.5})
    for job in reversed(jobs): ok(job, job['payload_text'] + '!')";
    let run = work.drain(&program(handle));
    assert!(run.stdout.starts_with("500 done, 0 retried"), "{run:?}");
    for (number, job) in jobs.into_iter().enumerate().step_by(50) {
        assert_eq!(work.output(job).await, format!("{number}!"));
    }
    let most = most(&work);
    assert!((2..=51).contains(&most), "{most}");
}

/// The first attempt of one job in the middle does this. It costs no other job an attempt.
async fn costs_one_job(test_name: &str, misdeed: &str, error: &str) {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new(test_name).await;
    let mut texts: Vec<_> = numbers(400).collect();
    "bad".clone_into(&mut texts[300]);
    let jobs = enqueue(&work, texts.into_iter()).await;
    let handle = format!(
        "
    for job in jobs:
        if job['payload_text'] == 'bad' and job['fence'] == 1:
            {misdeed}
        ok(job)"
    );
    let run = work.drain(&program(&handle));
    assert!(run.stdout.starts_with("400 done, 1 retried"), "{run:?}");
    let attempts = work.queue.admin().attempts(jobs[300]).await.unwrap();
    assert!(attempts.len() == 1 && attempts[0].error.as_deref().unwrap().contains(error), "{attempts:?}");
    assert!(most(&work) > 1);
    for place in [0, 250, 299, 301, 310, 399] {
        let row = work.row(jobs[place]).await;
        assert_eq!((row.attempt, row.error), (1, None), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_dies_costs_only_the_job_that_it_was_running() {
    let dies = "print('last words', file=sys.stderr); os._exit(3)";
    costs_one_job("ahead_dies", dies, "exit code 3 without a reply: last words").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_reply_costs_only_its_job() {
    let wrong = "say({'job_id': job['job_id'], 'error': 'x', 'output_text': 'y'}); time.sleep(1000)";
    costs_one_job("ahead_wrong", wrong, "it has both an error and an output").await;
}

/// What a program has replied to at once with a wrong line counts.
#[tokio::test(flavor = "multi_thread")]
async fn replies_around_a_wrong_one_count() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("ahead_around").await;
    let mut texts: Vec<_> = numbers(400).collect();
    "bad".clone_into(&mut texts[300]);
    enqueue(&work, texts.into_iter()).await;
    let handle = "
    lines = []
    for job in jobs:
        reply = {'job_id': job['job_id'], 'output_text': str(job['fence'])}
        if job['payload_text'] == 'bad' and job['fence'] == 1: reply['error'] = 'both'
        open('runs', 'a').write(f'{job[\"payload_text\"]}\\n')
        lines.append(json.dumps(reply) + '\\n')
    os.write(1, ''.join(lines).encode())";
    let run = work.drain(&program(handle));
    assert!(run.stdout.starts_with("400 done, 1 retried"), "{run:?}");
    let runs = std::fs::read_to_string(work.path("runs")).unwrap();
    assert_eq!(runs.lines().count(), 401, "only the job with the wrong reply runs twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_for_a_job_that_the_program_does_not_have_costs_the_oldest() {
    costs_one_job("ahead_other", "say({'job_id': 999}); time.sleep(1000)", "it is for job 999, but").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_ends_its_program_and_no_other_job() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("ahead_cancel").await;
    let mut texts: Vec<_> = numbers(100).collect();
    texts.extend(["long".to_owned()].into_iter().chain(numbers(20)));
    let jobs = enqueue(&work, texts.into_iter()).await;
    let handle = "
    for job in jobs:
        if job['payload_text'] == 'long':
            open('long', 'w').close()
            time.sleep(1000)
        ok(job)";
    let worker = work.start(&program(handle));
    wait_for("the long job runs", || std::path::Path::new(&work.path("long")).exists());
    let cancel = JobChange::Cancel { why: String::new() };
    work.queue.admin().change(&cancel, jobs[100]).await.unwrap();
    for job in &jobs[101..] {
        work.queue.wait(*job, Duration::from_secs(60)).await.unwrap();
        assert_eq!(work.row(*job).await.attempt, 1);
    }
    worker.signal(Signal::TERM);
    worker.end().ok();
    assert_eq!(work.row(jobs[100]).await.state, JobState::Cancelled);
}

/// A cancelled job may still be running when the program replies to the jobs behind it.
#[tokio::test(flavor = "multi_thread")]
async fn replies_behind_a_cancelled_job_count() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("ahead_behind").await;
    let mut texts: Vec<_> = numbers(100).collect();
    texts.extend(["long", "next", "last"].map(str::to_owned));
    let jobs = enqueue(&work, texts.into_iter()).await;
    let handle = "
    for job in jobs:
        text = job['payload_text']
        if text == 'long':
            open('long', 'w').close()
            def goes_on(*_): raise InterruptedError
            signal.signal(signal.SIGTERM, goes_on)
            try: time.sleep(1000)
            except InterruptedError: continue
        ok(job, str(os.getpid()))
        if text == 'last': sys.exit(0)";
    let worker = work.start(&program(handle));
    wait_for("the long job runs", || std::path::Path::new(&work.path("long")).exists());
    let cancel = JobChange::Cancel { why: String::new() };
    work.queue.admin().change(&cancel, jobs[100]).await.unwrap();
    work.queue.wait(jobs[102], Duration::from_secs(60)).await.unwrap();
    let first = work.output(jobs[0]).await;
    assert_eq!([work.output(jobs[101]).await, work.output(jobs[102]).await], [first.clone(), first]);
    worker.signal(Signal::TERM);
    worker.end().ok();
    assert_eq!(work.row(jobs[100]).await.state, JobState::Cancelled);
}

/// What a program had is not kept through the growing pauses before it is started again.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_behind_a_program_that_keeps_dying_are_handed_back() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("ahead_loop").await;
    let mut texts: Vec<_> = numbers(400).collect();
    texts[300..302].fill("bad".to_owned());
    let jobs = enqueue(&work, texts.into_iter()).await;
    let handle = "
    for job in jobs:
        if job['payload_text'] == 'bad' and job['attempt'] == 1: os._exit(3)
        ok(job, f\"{job['attempt']} {job['fence']}\")";
    let run = work.drain(&program(handle));
    assert!(run.stdout.starts_with("400 done, 2 retried"), "{run:?}");
    // The first of them has waited for the next start of the program.
    assert_eq!([work.output(jobs[299]).await, work.output(jobs[302]).await], ["1 1", "1 1"]);
    assert_eq!(work.output(jobs[303]).await, "1 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_costs_no_attempt() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("ahead_stop").await;
    let jobs = enqueue(&work, numbers(3_000)).await;
    let handle = "
    for job in jobs:
        open('runs', 'a').write('x\\n')
        time.sleep(0.001)
        ok(job)";
    let worker = work.start(&program(handle));
    let runs = || std::fs::read_to_string(work.path("runs")).unwrap_or_default().lines().count();
    wait_for("some jobs run", || runs() > 200);
    worker.signal(Signal::TERM);
    worker.end().ok();
    let before = runs();
    assert!(before < 3_000, "{before}");
    work.drain(&program(handle)).ok();
    assert_eq!(runs(), 3_000, "each job has run once");
    for job in jobs.into_iter().step_by(300) {
        let row = work.row(job).await;
        assert_eq!((row.state, row.attempt), (JobState::Done, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_no_more_jobs_than_until_it_is_replaced() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("ahead_recycled").await;
    let jobs = enqueue(&work, numbers(300)).await;
    let arguments = program("    for job in jobs: ok(job, str(os.getpid()))");
    work.drain(&[vec!["--recycle-after-jobs".to_owned(), "100".to_owned()], arguments].concat()).ok();
    let mut of_program = std::collections::HashMap::<String, usize>::new();
    for job in jobs {
        *of_program.entry(work.output(job).await).or_default() += 1;
    }
    assert!(of_program.len() == 3 && of_program.values().all(|jobs| *jobs == 100), "{of_program:?}");
    assert!(most(&work) > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_a_time_limit_are_sent_alone() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("ahead_limit").await;
    enqueue(&work, numbers(100)).await;
    let arguments = program("    for job in jobs: ok(job)");
    let run = work.drain(&[vec!["--time-limit".to_owned(), "60s".to_owned()], arguments].concat());
    assert!(run.stdout.starts_with("100 done"), "{run:?}");
    assert_eq!(most(&work), 1);
}
