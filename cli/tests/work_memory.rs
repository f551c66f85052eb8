//! `work --memory`: a program that takes too much is ended with everything it has started, and its job says so.

use std::path::PathBuf;
use std::time::Duration;

use readpast::admin::{JobState, QueueOptions};
use readpast::{Needs, NewJob};
use rustix::process::Signal;

use crate::worker_process::{WorkFixture, WorkerProcess, has, skip, wait_for};

/// The control group of this process, if it can make groups below it that limit memory.
fn own_group() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = |line: &str| {
        let mut fields = line.splitn(3, ':');
        match (fields.next()?, fields.next()?, fields.next()?) {
            (_, "memory", path) => Some(format!("/sys/fs/cgroup/memory{path}")),
            ("0", "", path) => Some(format!("/sys/fs/cgroup{path}")),
            _ => None,
        }
    };
    let found = groups.lines().filter_map(path).map(PathBuf::from);
    let try_out = |group: &PathBuf| {
        let inner = group.join(format!("test-{}", readpast::crates::uuid::Uuid::new_v4().simple()));
        let can_limit = std::fs::create_dir(&inner).is_ok()
            && ["memory.limit_in_bytes", "memory.max"].iter().any(|file| inner.join(file).exists());
        let _ = std::fs::remove_dir(inner);
        can_limit
    };
    found.into_iter().find(try_out)
}

/// The same; where there is none, the test says so and counts nothing.
pub fn own_group_or_skip() -> Option<PathBuf> {
    let group = own_group();
    if group.is_none() {
        skip("this process cannot make control groups that limit memory");
    }
    group
}

/// The control group that a worker has logged.
fn logged_group(worker: &WorkerProcess) -> PathBuf {
    let mut path = None;
    wait_for("the control group in the log", || {
        let log = worker.logged();
        path = log.split("group=").nth(1).and_then(|rest| rest.split_whitespace().next()).map(PathBuf::from);
        path.is_some()
    });
    path.unwrap()
}

/// Allocates without end if the job is greedy, and otherwise goes on until a file is there.
const GREEDY: &str = "
    [ \"$READPAST_KIND\" = greedy ] && exec tail /dev/zero
    echo $$ > neighbour
    while [ ! -e over ]; do sleep 0.02; done
    echo fine";

async fn a_greedy_program_ends_alone(name: &str, way: &str) -> String {
    let work = WorkFixture::new(name).await;
    let neighbour = work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--threads", "2", "--memory", "48MiB", "--memory-by", way, "--shell", GREEDY]);
    work.process_of("neighbour");
    let greedy = work.enqueue(NewJob::text("").kind("greedy").max_attempts(1)).await;
    work.queue.wait(greedy, Duration::from_secs(60)).await.unwrap();
    let row = work.row(greedy).await;
    assert_eq!(row.state, JobState::Dead, "{row:?}");
    std::fs::write(work.path("over"), "").unwrap();
    work.queue.wait(neighbour, Duration::from_secs(60)).await.unwrap();
    assert_eq!(work.output(neighbour).await, "fine\n");
    worker.signal(Signal::TERM);
    worker.end().ok();
    row.error.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_over_its_limit_ends_alone_in_a_control_group() {
    if own_group_or_skip().is_none() {
        return;
    }
    let error = a_greedy_program_ends_alone("greedy_group", "control-group").await;
    assert_eq!(error, "out of memory: limit 48 MiB, peak 48 MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_over_its_limit_ends_alone_when_it_is_watched() {
    let error = a_greedy_program_ends_alone("greedy_watch", "watch").await;
    assert!(error.starts_with("out of memory: limit 48 MiB, peak "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_because_its_child_was_killed_says_so() {
    if own_group_or_skip().is_none() {
        return;
    }
    let work = WorkFixture::new("greedy_child").await;
    let arguments = ["--memory", "48MiB", "--memory-by", "control-group", "--shell"];
    let failing = "tail /dev/zero; echo last words >&2; exit 3";
    let failed = work.run_one(NewJob::text(""), &[&arguments[..], &[failing]].concat()).await;
    let error = failed.error.unwrap();
    assert!(error.starts_with("out of memory: limit 48 MiB, peak 48 MiB"), "{error}");
}

/// The size of a string in Python that a job's payload asks for, in a program that stays.
const KEPT: &str = "
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    held = 'x' * (int(job['payload_text']) << 20)
    print(json.dumps({'job_id': job['job_id'], 'output_text': str(len(held) >> 20)}), flush=True)
";

async fn a_kept_program_costs_its_job_only(name: &str, way: &str) {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new(name).await;
    let mut jobs = Vec::new();
    for mebibytes in ["1", "4000", "2"] {
        jobs.push(work.enqueue(NewJob::text(mebibytes).max_attempts(1)).await);
    }
    let program = KEPT.replace('{', "{{");
    let arguments =
        ["--threads", "1", "--memory", "100MiB", "--memory-by", way, "--keep", "--", "python3", "-c", &program];
    work.drain(&arguments).ok();
    let error = work.row(jobs[1]).await.error.unwrap();
    assert!(error.starts_with("out of memory: limit 100 MiB, peak "), "{error}");
    assert_eq!([work.output(jobs[0]).await, work.output(jobs[2]).await], ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stays_and_exceeds_its_control_group_costs_its_job_only() {
    if own_group_or_skip().is_some() {
        a_kept_program_costs_its_job_only("kept_group", "control-group").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stays_and_exceeds_what_it_may_when_watched_costs_its_job_only() {
    a_kept_program_costs_its_job_only("kept_watch", "watch").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stays_has_the_limit_of_each_of_its_jobs() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("kept_needs").await;
    let mut jobs = Vec::new();
    for (mebibytes, need) in [("1", None), ("150", Some(600 << 20)), ("2", None)] {
        let job = NewJob::text(mebibytes).max_attempts(1);
        jobs.push(work.enqueue(need.map_or(job.clone(), |need| job.needs(Needs::new().memory(need)))).await);
    }
    let program = KEPT.replace('{', "{{");
    let arguments =
        ["--threads", "1", "--memory", "100MiB", "--memory-by", "watch", "--keep", "--", "python3", "-c", &program];
    work.drain(&arguments).ok();
    let mut outputs = Vec::new();
    for job in jobs {
        outputs.push(work.output(job).await);
    }
    assert_eq!(outputs, ["1", "150", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_s_own_need_is_its_limit_and_grows() {
    let work = WorkFixture::new("grows").await;
    let job = NewJob::text("").kind("greedy").needs(Needs::new().memory(32 << 20));
    let job = work.enqueue(job).await;
    let rule = "grow:2:48MiB";
    work.drain(&["--memory", "1GiB", "--memory-by", "watch", "--on-out-of-memory", rule, "--shell", GREEDY]).ok();
    let row = work.row(job).await;
    assert_eq!((row.state, row.attempt), (JobState::Dead, 2));
    assert!(row.error.as_ref().unwrap().contains("out of memory: limit 48 MiB, peak "), "{row:?}");
    let first = work.queue.admin().attempts(job).await.unwrap().remove(0).error.unwrap();
    assert!(first.starts_with("out of memory: limit 32 MiB, peak "), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_out_of_memory_can_go_to_another_queue() {
    let work = WorkFixture::new("moves").await;
    let large = work.fixture.queue("large").await;
    large.admin().create(QueueOptions::default()).await.unwrap();
    work.enqueue(NewJob::text("").kind("greedy")).await;
    let rule = "move:large";
    work.drain(&["--memory", "48MiB", "--memory-by", "watch", "--on-out-of-memory", rule, "--shell", GREEDY]).ok();
    assert_eq!(large.admin().stats(None).await.unwrap().ready, 1);
}

/// Goes on in a process group of its own, after the program has exited.
const LEAVES: &str = "setsid sh -c 'echo $$ > left_group; while :; do sleep 0.05; done' &
    while [ ! -s left_group ]; do sleep 0.01; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_left_its_process_group_ends_with_its_job() {
    if own_group_or_skip().is_none() {
        return;
    }
    let work = WorkFixture::new("leaves").await;
    let job = work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--memory", "48MiB", "--memory-by", "control-group", "--shell", LEAVES]);
    let group = logged_group(&worker);
    let left = work.process_of("left_group");
    work.queue.wait(job, Duration::from_secs(60)).await.unwrap();
    left.wait_for_end();
    assert!(group.exists());
    worker.signal(Signal::TERM);
    worker.end().ok();
    assert!(!group.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_no_control_group() {
    if own_group_or_skip().is_none() {
        return;
    }
    let work = WorkFixture::new("killed_groups").await;
    work.enqueue(NewJob::text("")).await;
    let program = format!("env -i setsid sh -c 'echo $$ > left_group; exec sleep 1000' & {LEAVES}; sleep 1000");
    let arguments = ["--memory", "48MiB", "--memory-by", "control-group", "--shell", &program];
    let worker = work.start(&arguments);
    let (group, left, guard) = (logged_group(&worker), work.process_of("left_group"), worker.guard());
    worker.signal(Signal::KILL);
    guard.wait_for_end();
    left.wait_for_end();
    assert!(!group.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_worker_removes_what_a_worker_killed_with_its_guard_has_left() {
    if own_group_or_skip().is_none() {
        return;
    }
    let work = WorkFixture::new("killed_both").await;
    work.enqueue(NewJob::text("")).await;
    let arguments = ["--memory", "48MiB", "--memory-by", "control-group", "--shell", "echo $$ > child; sleep 1000"];
    let worker = work.start(&arguments);
    let (group, child) = (logged_group(&worker), work.process_of("child"));
    let neighbour = WorkFixture::new("killed_both_neighbour").await;
    let neighbour = neighbour.start(&["--memory", "48MiB", "--memory-by", "control-group", "--", "true"]);
    let its_group = logged_group(&neighbour);
    worker.guard().signal(Signal::KILL);
    worker.signal(Signal::KILL);
    worker.process().wait_for_end();
    let next = WorkFixture::new("killed_both_next").await;
    next.drain(&["--memory", "48MiB", "--memory-by", "control-group", "--", "true"]).ok();
    child.wait_for_end();
    assert!(!group.exists() && its_group.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_control_groups_the_log_says_why_programs_are_watched() {
    let work = WorkFixture::new("no_groups").await;
    let program = work.command(&[]).get_program().to_owned();
    let run = |arguments: &[&str]| {
        let mut command = work.fixture.command_of("unshare", &["--mount", "sh", "-c"]);
        command.arg("mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"").arg("sh").arg(&program);
        command.args(["work", "work", "--drain"]).args(arguments);
        crate::support::run(&mut command)
    };
    let watched = run(&["--memory", "48MiB", "--", "true"]);
    if watched.stderr.contains("unshare failed") {
        skip("this process cannot make a namespace of mounts");
        return;
    }
    assert_eq!(watched.code, 0, "{watched:?}");
    let log = watched.stderr;
    assert!(
        log.contains("the memory of programs is looked at ten times a second") && log.contains("no group can be made"),
        "{log}"
    );
    let refused = run(&["--memory", "48MiB", "--memory-by", "control-group", "--", "true"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("programs cannot have control groups, because no group can be made"),
        "{}",
        refused.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_job_could_get_of_the_worker_is_refused_at_the_start() {
    let work = WorkFixture::new("too_large").await;
    std::fs::write(work.path("own.toml"), "[worker.resources]\nmemory = '1 GiB'\ngpu = 1\n").unwrap();
    for (arguments, says) in [
        (
            &["--memory", "2GiB"][..],
            "--memory 2 GiB is more than the worker has (1 gpu, 1 GiB of memory, 2 threads); set",
        ),
        (&["--job-threads", "3"], "--job-threads 3 is more than the worker has"),
        (&["--token", "gpu=2"], "--token gpu=2 is more than the worker has"),
        (&["--token", "disk=1"], "; set worker.resources.disk"),
        (&["--token", "memory=5"], ": neither memory nor threads is a token"),
        (
            &["--memory", "1GiB", "--on-out-of-memory", "grow:1:2GiB"],
            "'grow:1:2GiB' for '--on-out-of-memory <RULE>': it must",
        ),
    ] {
        let mut command = work.command(&["--config", &work.path("own.toml"), "--threads", "2", "--drain"]);
        let message = crate::support::run(command.args(arguments).args(["--", "true"])).failed(2);
        assert!(message.contains(says), "{message}");
    }
}
