//! `work`: how runs are ended before their time, and how the worker ends.

use std::time::Duration;

use readpast::NewJob;
use readpast::admin::{JobChange, JobRow, JobState};
use rustix::process::Signal;

use crate::support::until;
use crate::worker_process::{WorkFixture, WorkerProcess, wait_for};

/// Runs until it is asked to end, which it notes, as does what it has started. Gives all its time to that.
const POLITE: &str = "
    sh -c 'trap \"echo grandchild >> ended; exit\" TERM; echo $$ > grandchild; while :; do sleep 0.05; done' &
    trap 'echo child >> ended; wait; exit' TERM
    echo $$ > child
    while :; do sleep 0.05; done";

/// Does not listen, nor does what it has started.
const STUBBORN: &str = "
    trap '' TERM
    sh -c 'echo $$ > grandchild; while :; do sleep 0.05; done' &
    echo $$ > child
    while :; do sleep 0.05; done";

/// Waits until both of [`POLITE`] would note that they are asked to end.
fn both_listen(work: &WorkFixture) {
    work.line_of("child");
    work.line_of("grandchild");
}

fn ended(work: &WorkFixture) -> Vec<String> {
    let text = std::fs::read_to_string(work.path("ended")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_ends_the_whole_group_politely() {
    let work = WorkFixture::new("limit").await;
    let row = work.run_one(NewJob::text(""), &["--time-limit", "2s", "--shell", POLITE]).await;
    let error = row.error.unwrap();
    assert!(row.state == JobState::Dead && error.starts_with("ended at its time limit"), "{error}");
    assert!(row.run.unwrap() < Duration::from_secs(6), "and it was not waited for longer than it took");
    assert_eq!(ended(&work), ["child", "grandchild"]);
    work.process_of("child").wait_for_end();
    work.process_of("grandchild").wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_program_has_started_has_the_grace_too() {
    let work = WorkFixture::new("grace_for_all").await;
    let script = "
        sh -c 'trap \"sleep 0.3; echo grandchild >> ended; exit\" TERM; echo $$ > grandchild; while :; do sleep 0.05; done' &
        exec sleep 1000";
    let row = work.run_one(NewJob::text(""), &["--time-limit", "2s", "--shell", script]).await;
    assert_eq!(row.state, JobState::Dead);
    assert_eq!(ended(&work), ["grandchild"], "though the program itself had ended at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_listen_is_killed_after_the_grace() {
    let work = WorkFixture::new("grace").await;
    let job = NewJob::text("").time_limit(Duration::from_secs(1));
    let row = work.run_one(job, &["--time-limit", "1h", "--grace", "300ms", "--shell", STUBBORN]).await;
    assert_eq!(row.error.as_deref(), Some("ended at its time limit of 1s"), "the job's own goes before");
    assert!(row.run.unwrap() >= Duration::from_millis(1_300), "{row:?}");
    work.process_of("child").wait_for_end();
    work.process_of("grandchild").wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_leaves_in_its_group_is_killed() {
    let work = WorkFixture::new("left").await;
    let script = "sh -c 'echo $$ > left; exec sleep 1000' & while [ ! -s left ]; do sleep 0.01; done; echo done";
    let row = work.run_one(NewJob::text(""), &["--shell", script]).await;
    assert_eq!((row.state, row.output_text()), (JobState::Done, Some("done\n")));
    work.process_of("left").wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_left_its_group_outlives_its_job_and_the_worker() {
    let work = WorkFixture::new("outlives").await;
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 1000' & while [ ! -s daemon ]; do sleep 0.01; done";
    let row = work.run_one(NewJob::text(""), &["--shell", script]).await;
    assert_eq!(row.state, JobState::Done);
    let daemon = work.process_of("daemon");
    assert!(daemon.runs());
    daemon.signal(Signal::KILL);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_s_program_ends() {
    let work = WorkFixture::new("cancel").await;
    let job = work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--shell", POLITE]);
    both_listen(&work);
    work.queue.admin().change(&JobChange::cancel("not needed"), job).await.unwrap();
    work.process_of("child").wait_for_end();
    assert_eq!(ended(&work), ["child", "grandchild"]);
    worker.signal(Signal::TERM);
    let run = worker.end();
    assert!(run.stdout.contains("1 cancelled"), "{run:?}");
    assert!(run.stderr.contains("ended because the job was cancelled"), "{run:?}");
    assert!(!run.stderr.contains("a job is"), "{run:?}");
    assert_eq!(work.row(job).await.state, JobState::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_ends_the_program() {
    let work = WorkFixture::new("lost").await;
    work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--shell", POLITE]);
    both_listen(&work);
    // As long as it is stopped it renews nothing, and another gets its job; its program goes on.
    worker.signal(Signal::STOP);
    work.drain(&["--", "true"]).ok();
    assert!(work.process_of("child").runs());
    worker.signal(Signal::CONT);
    work.process_of("child").wait_for_end();
    assert_eq!(ended(&work), ["child", "grandchild"]);
    wait_for("the reason", || worker.logged().contains("ended because the worker has lost its lease"));
    assert!(!worker.logged().contains("a job is") && !worker.logged().contains("was cancelled"), "{}", worker.logged());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_signal_lets_programs_end() {
    let work = WorkFixture::new("graceful").await;
    let job = work.enqueue(NewJob::text("")).await;
    let waiting = work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--threads", "1", "--shell", "echo > started; while [ ! -e go ]; do sleep 0.01; done"]);
    work.line_of("started");
    worker.signal(Signal::INT);
    wait_for("the stop", || worker.logged().contains("stopping: it claims no more jobs"));
    std::fs::write(work.path("go"), "").unwrap();
    let stdout = worker.end().ok();
    assert!(stdout.starts_with("1 done"), "{stdout}");
    assert_eq!(work.row(job).await.state, JobState::Done);
    let row = work.row(waiting).await;
    assert_eq!((row.state, row.attempt), (JobState::Ready, 0), "given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_terminal_lets_programs_end() {
    let work = WorkFixture::new("hang_up").await;
    work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--shell", "echo > started; while [ ! -e go ]; do sleep 0.01; done"]);
    work.line_of("started");
    worker.signal(Signal::HUP);
    wait_for("the stop", || worker.logged().contains("stopping: it claims no more jobs"));
    std::fs::write(work.path("go"), "").unwrap();
    let stdout = worker.end().ok();
    assert!(stdout.starts_with("1 done"), "{stdout}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_end_of_a_terminal_kills_what_does_not_listen() {
    let work = WorkFixture::new("third_hang_up").await;
    work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--grace", "1h", "--shell", STUBBORN]);
    let child = work.process_of("child");
    worker.signal(Signal::HUP);
    wait_for("the stop", || worker.logged().contains("stopping: it claims no more jobs"));
    worker.signal_again(Signal::HUP);
    wait_for("the stop at once", || worker.logged().contains("stopping immediately"));
    worker.signal_again(Signal::HUP);
    worker.process().wait_for_end();
    assert_eq!(worker.end().code, 130);
    child.wait_for_end();
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn under_nohup_the_end_of_the_terminal_does_not_count() {
    let work = WorkFixture::new("nohup").await;
    let job = work.enqueue(NewJob::text("")).await;
    let command = work.command(&["--shell", "true"]);
    let mut nohup = work.fixture.command_of("nohup", &[]);
    nohup.arg(command.get_program()).args(command.get_args()).current_dir(work.directory());
    nohup.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let worker = crate::worker_process::WorkerProcess::start(nohup);
    work.queue.wait(job, Duration::from_secs(30)).await.unwrap();
    worker.signal(Signal::HUP);
    let next = work.enqueue(NewJob::text("")).await;
    work.queue.wait(next, Duration::from_secs(30)).await.unwrap();
    assert!(!worker.logged().contains("stopping"), "{}", worker.logged());
    worker.signal(Signal::TERM);
    worker.end().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_shutdown_deadline_programs_are_ended_and_their_jobs_given_back() {
    let work = WorkFixture::new("deadline").await;
    let job = work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--shutdown-deadline", "300ms", "--shell", POLITE]);
    both_listen(&work);
    worker.signal(Signal::TERM);
    let run = worker.end();
    assert_eq!(run.code, 130, "{run:?}");
    assert!(run.stdout.contains("1 cut off"), "{run:?}");
    assert!(run.stderr.contains("ended because the worker stops"), "{run:?}");
    assert!(!run.stderr.contains("a job is") && !run.stderr.contains("was cancelled"), "{run:?}");
    assert_eq!(ended(&work), ["child", "grandchild"]);
    let row = work.row(job).await;
    assert_eq!((row.state, row.attempt), (JobState::Ready, 0), "without a counted attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_signal_ends_programs() {
    let work = WorkFixture::new("second").await;
    work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--shell", POLITE]);
    both_listen(&work);
    worker.signal(Signal::TERM);
    wait_for("the stop", || worker.logged().contains("stopping: it claims no more jobs"));
    worker.signal_again(Signal::TERM);
    let run = worker.end();
    assert_eq!(run.code, 130);
    assert!(run.stderr.contains("ended because the worker stops"), "{run:?}");
    assert!(!run.stderr.contains("a job is") && !run.stderr.contains("was cancelled"), "{run:?}");
    assert_eq!(ended(&work), ["child", "grandchild"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_signal_kills_what_does_not_listen() {
    let work = WorkFixture::new("third").await;
    work.enqueue(NewJob::text("")).await;
    let worker = work.start(&["--grace", "1h", "--shell", STUBBORN]);
    let (child, grandchild) = (work.process_of("child"), work.process_of("grandchild"));
    worker.signal(Signal::TERM);
    wait_for("the stop", || worker.logged().contains("stopping: it claims no more jobs"));
    worker.signal_again(Signal::TERM);
    wait_for("the stop at once", || worker.logged().contains("stopping immediately"));
    assert!(child.runs() && grandchild.runs());
    worker.signal_again(Signal::TERM);
    assert_eq!(worker.end().code, 130);
    child.wait_for_end();
    grandchild.wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_of_the_terminal_is_not_for_programs() {
    let work = WorkFixture::new("ctrl_c").await;
    work.enqueue(NewJob::text("")).await;
    let mut command = work.command(&["--shell", "echo > started; while [ ! -e go ]; do sleep 0.01; done"]);
    // The terminal sends its signal to all of the group in the foreground.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let worker = crate::worker_process::WorkerProcess::start(command);
    work.line_of("started");
    rustix::process::kill_process_group(worker.process().0, Signal::INT).unwrap();
    wait_for("the stop", || worker.logged().contains("stopping: it claims no more jobs"));
    assert!(worker.guard().runs(), "nor is it for the guard");
    std::fs::write(work.path("go"), "").unwrap();
    let stdout = worker.end().ok();
    assert!(stdout.starts_with("1 done"), "{stdout}");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_end_with_the_whole_service_cost_no_attempt() {
    for (name, shell) in [("service", "echo $$ > child; exec sleep 1000"), ("service_143", ENDS_WITH_143)] {
        let row = job_of_a_service_that_ends(name, &["--shell", shell]).await;
        assert!(matches!(row.state, JobState::Ready | JobState::Scheduled) && row.attempt == 0, "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_that_is_named_counts_also_at_the_end_of_the_service() {
    let row = job_of_a_service_that_ends("service_named", &["--on-exit", "143=dead", "--shell", ENDS_WITH_143]).await;
    assert!(row.state == JobState::Dead && row.attempt == 1, "{row:?}");
}

/// As Java does at SIGTERM.
const ENDS_WITH_143: &str = "trap 'exit 143' TERM; echo $$ > child; sleep 1000 & wait";

/// As a service manager does that signals every process: the program's is the first to act, and the worker learns of
/// both ends together.
async fn job_of_a_service_that_ends(name: &str, arguments: &[&str]) -> JobRow {
    let work = WorkFixture::new(name).await;
    let job = work.enqueue(NewJob::text("").max_attempts(1)).await;
    let worker = work.start(arguments);
    let child = work.process_of("child");
    worker.signal(Signal::STOP);
    child.signal(Signal::TERM);
    child.wait_for_end();
    worker.signal(Signal::TERM);
    worker.signal(Signal::CONT);
    worker.end().ok();
    work.row(job).await
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_ends_when_the_queue_is_empty_and_tells_what_it_did() {
    let work = WorkFixture::new("drain").await;
    assert!(work.drain(&["--", "true"]).ok().starts_with("0 done, 0 retried, 0 dead in "));
    work.enqueue(NewJob::text("")).await;
    work.enqueue(NewJob::text("").delay(Duration::from_millis(200))).await;
    let summary = work.drain(&["--json", "--", "true"]).json().remove(0);
    assert_eq!((&summary["done"], &summary["ended_in_order"]), (&2.into(), &true.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served() {
    let work = WorkFixture::new("served").await;
    let job = work.enqueue(NewJob::text("")).await;
    let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap().to_string();
    drop(probe);
    let worker = work.start(&["--metrics", &address, "--", "true"]);
    work.queue.wait(job, Duration::from_secs(30)).await.unwrap();
    let mut socket = std::net::TcpStream::connect(&address).unwrap();
    let (mut page, request) = (String::new(), b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut socket, request).unwrap();
    std::io::Read::read_to_string(&mut socket, &mut page).unwrap();
    assert!(page.contains("readpast_run_seconds") || page.contains("readpast_"), "{page}");
    worker.signal(Signal::TERM);
    worker.end().ok();
}

/// As where a cleaner of temporary files has been there, or the disk is full.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_whose_file_cannot_be_written_costs_no_attempt() {
    let work = WorkFixture::new("no_file").await;
    let folder = crate::support::temporary_folder("no_file");
    let mut command = work.command(&["--", "cat", "{payload}"]);
    command.env("TMPDIR", &folder);
    let worker = WorkerProcess::start(command);
    let directory = || std::fs::read_dir(&folder).unwrap().next().map(|entry| entry.unwrap().path());
    wait_for("the directory for payloads", || directory().is_some());
    std::fs::remove_dir_all(directory().unwrap()).unwrap();
    let job = work.enqueue(NewJob::text("x").max_attempts(1)).await;
    until("the job is put off", async || work.row(job).await.error.is_some()).await;
    let row = work.row(job).await;
    assert!(row.error.as_ref().is_some_and(|error| error.contains("(set by TMPDIR)")), "{row:?}");
    assert!(matches!(row.state, JobState::Scheduled | JobState::Ready) && row.attempt == 0, "{row:?}");
    worker.signal(Signal::TERM);
    worker.end().ok();
}

/// A worker that has no descriptor left cannot start anything; that is not the jobs' fault.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_short_of_files_costs_no_attempt() {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    for (name, keeps) in [("short", false), ("short_file", false), ("short_kept", true)] {
        let work = WorkFixture::new(name).await;
        let answer = r#"while read -r line; do
            id=$(echo "$line" | cut -d: -f2 | cut -d, -f1)
            echo "{{\"job_id\":$id}"
            case $line in *first*) echo $$ > kept; exit;; esac
        done"#;
        let program: &[&str] = match name {
            "short" => &["--", "cat"],
            "short_file" => &["--", "cat", "{payload}"],
            _ => &["--keep", "--", "sh", "-c", answer],
        };
        let worker = work.start(&[&["--threads", "2"], program].concat());
        let before = work.enqueue(NewJob::text("before").kind("first")).await;
        let queue = work.queue.clone();
        let is_done =
            async |id| queue.admin().job(id, None).await.unwrap().is_some_and(|row| row.state == JobState::Done);
        let runs = until("the worker runs jobs", async || is_done(before).await);
        let runs = tokio::time::timeout(Duration::from_secs(20), runs).await;
        assert!(runs.is_ok(), "{keeps}: {:?} {}", work.row(before).await, worker.logged());
        if keeps {
            work.process_of("kept").wait_for_end();
        }
        let process = Some(worker.process().0);
        let open =
            std::fs::read_dir(format!("/proc/{}/fd", worker.process().0.as_raw_pid())).unwrap().count() as u64 - 2;
        let limit = getrlimit(Resource::Nofile);
        prlimit(process, Resource::Nofile, Rlimit { current: Some(open), ..limit }).unwrap();
        let mut jobs = Vec::new();
        for number in 0..6 {
            jobs.push(work.enqueue(NewJob::text(number.to_string()).max_attempts(1)).await);
        }
        wait_for("the worker says what is short", || worker.logged().contains("cannot start programs"));
        for id in &jobs {
            let row = work.row(*id).await;
            assert!(matches!(row.state, JobState::Ready | JobState::Claimed | JobState::Scheduled), "{row:?}");
        }
        assert_eq!(worker.logged().matches("cannot start programs").count(), 1, "{}", worker.logged());
        prlimit(process, Resource::Nofile, limit).unwrap();
        for id in jobs {
            until("a job is done", async || is_done(id).await).await;
            assert_eq!(work.row(id).await.attempt, 1);
        }
        assert!(worker.logged().contains("programs start again"), "{}", worker.logged());
    }
}
