//! `work`, killed without warning: nothing is left running, and no job is lost.

use std::time::Duration;

use readpast::NewJob;
use readpast::admin::JobState;
use rustix::process::Signal;

use crate::worker_process::{Process, WorkFixture, WorkerProcess, wait_for};

/// Starts two in its group, one of them without its environment, and one that has left the group; and goes on itself.
const PROGRAM: &str = "
    sh -c 'echo $$ > grandchild; while :; do sleep 0.05; done' &
    env -i /bin/sh -c 'echo $$ > cleared; while :; do sleep 0.05; done' &
    setsid sh -c 'echo $$ > left_group; while :; do sleep 0.05; done' &
    echo $$ > child
    while :; do sleep 0.05; done";

const PROCESSES: [&str; 4] = ["child", "grandchild", "cleared", "left_group"];

fn all_end(processes: &[Process]) {
    for process in processes {
        process.wait_for_end();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_nothing_running_and_loses_no_job() {
    let work = WorkFixture::new("killed").await;
    let job = work.enqueue(NewJob::text("").max_attempts(1)).await;
    let worker = work.start(&["--shell", PROGRAM]);
    let processes = PROCESSES.map(|name| work.process_of(name));
    let guard = worker.guard();
    worker.signal(Signal::KILL);
    assert_eq!(worker.end().code, -1);
    all_end(&processes);
    guard.wait_for_end();
    work.drain(&["--", "true"]).ok();
    assert_eq!(work.row(job).await.state, JobState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_with_its_whole_group_leaves_nothing_running() {
    let work = WorkFixture::new("killed_group").await;
    work.enqueue(NewJob::text("")).await;
    let mut command = work.command(&["--shell", PROGRAM]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0); // as a shell does, whose `kill -9 %1` this is
    let worker = WorkerProcess::start(command);
    let processes = PROCESSES.map(|name| work.process_of(name));
    rustix::process::kill_process_group(worker.process().0, Signal::KILL).unwrap();
    all_end(&processes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_no_file_with_a_payload() {
    let work = WorkFixture::new("killed_file").await;
    work.enqueue(NewJob::text("secret")).await;
    let worker = work.start(&["--", "sh", "-c", "echo $1 > file; while :; do sleep 0.05; done", "sh", "{payload}"]);
    let file = std::path::PathBuf::from(work.line_of("file"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "secret");
    let guard = worker.guard();
    worker.signal(Signal::KILL);
    guard.wait_for_end();
    assert!(!file.parent().unwrap().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_no_program_that_stays() {
    let work = WorkFixture::new("killed_kept").await;
    let job = work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--threads", "1", "--keep", "--", "sh", "-c", PROGRAM]);
    let processes = PROCESSES.map(|name| work.process_of(name));
    let guard = worker.guard();
    worker.signal(Signal::KILL);
    all_end(&processes);
    guard.wait_for_end();
    work.drain(&["--", "true"]).ok();
    assert_eq!(work.row(job).await.state, JobState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_kills_a_program_that_stays_even_without_the_guard() {
    let work = WorkFixture::new("no_guard").await;
    work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--threads", "1", "--keep", "--", "sh", "-c", "echo $$ > child; exec sleep 1000"]);
    let child = work.process_of("child");
    worker.guard().signal(Signal::KILL);
    worker.signal(Signal::KILL);
    child.wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_was_killed_is_replaced() {
    let work = WorkFixture::new("new_guard").await;
    work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--threads", "1", "--shell", PROGRAM]);
    let processes = PROCESSES.map(|name| work.process_of(name));
    for replaced in 1..=2 {
        let guard = worker.guard();
        guard.signal(Signal::KILL);
        guard.wait_for_end();
        // Though no program is started meanwhile.
        wait_for("a new guard", || worker.logged().matches("a new guard is running").count() == replaced);
    }
    worker.signal(Signal::KILL);
    all_end(&processes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_hangs_does_not_hold_up_the_end() {
    let work = WorkFixture::new("hung_guard").await;
    let job = work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--", "true"]);
    work.queue.wait(job, Duration::from_secs(30)).await.unwrap();
    let guard = worker.guard();
    guard.signal(Signal::STOP);
    worker.signal(Signal::TERM);
    worker.process().wait_for_end();
    assert!(worker.end().stderr.contains("the guard does not exit; killing it"));
    guard.wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_s_pipes_are_not_kept_open_by_others() {
    let work = WorkFixture::new("pipes").await;
    // The first waits for the end of its standard input while the second, started later, still runs.
    let first = work.enqueue(NewJob::text("x").kind("first")).await;
    let script = "case $READPAST_KIND in
        first) while [ ! -e second ]; do sleep 0.01; done; cat; echo > first;;
        *) echo > second; while [ ! -e first ]; do sleep 0.01; done;;
    esac";
    work.enqueue(NewJob::text("y").kind("other")).await;
    work.drain(&["--threads", "2", "--shell", script]).ok();
    assert_eq!(work.output(first).await, "x");
}
