//! `worker`: what operators ask of `readpast work`.

use readpast::NewJob;
use rustix::process::Signal;

use crate::worker_process::{WorkFixture, WorkerProcess, has, wait_for};

fn started(work: &WorkFixture, name: &str, arguments: &[&str]) -> WorkerProcess {
    let mut command = work.command(arguments);
    command.env("READPAST_WORKER_NAME", name).env("READPAST_WORKER_HEARTBEAT_INTERVAL_MS", "100");
    WorkerProcess::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_quiet_resumed_and_stopped_by_its_name() {
    let work = WorkFixture::new("wishes").await;
    let run = |arguments: &[&str]| work.fixture.run(arguments);
    let worker = started(&work, "render-3", &["--threads", "2", "--", "sh", "-c", "exit 0"]);
    wait_for("it has started", || worker.logged().contains("the worker started"));
    let missing = run(&["worker", "quiet", "nobody"]).failed(2);
    assert!(missing.contains("no running worker has the name or the id nobody"), "{missing}");
    let said = run(&["worker", "quiet", "render-3"]).ok();
    assert_eq!(said, "asked 1 worker; the next heartbeat delivers it: render-3 of work\n");
    wait_for("it says so", || worker.logged().contains("asked the worker to claim no more jobs"));
    assert!(run(&["workers"]).ok().contains(" quiet"), "{}", run(&["workers"]).ok());
    let job_id = work.enqueue(NewJob::text("x")).await;
    let listed = || run(&["workers", "--json"]).json().remove(0);
    wait_for("it is idle by that", || listed()["limited_by"] == "quiet");
    assert_eq!(listed()["asked"]["is_delivered"], true);
    run(&["worker", "debug", "render-3", "--for", "1h"]).ok();
    run(&["worker", "threads", "render-3", "3", "--queue", "work"]).ok();
    wait_for("it has three threads", || listed()["resources"]["threads"] == 3);
    run(&["worker", "resume", "render-3"]).ok();
    wait_for("the job is done", || run(&["job", &job_id.to_string(), "--json"]).json()[0]["state"] == "done");
    assert!(worker.logged().contains("DEBUG"), "{}", worker.logged());
    run(&["worker", "stop", listed()["worker_id"].as_str().unwrap()]).ok();
    let ended = worker.end();
    assert!(ended.ok().contains("1 done"));
    let audit = run(&["audit"]).ok();
    for action in ["quiet_worker", "debug_worker", "set_worker_threads", "resume_worker", "stop_worker"] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
}

/// Their threads end, and with them the programs: in order, not killed.
#[tokio::test(flavor = "multi_thread")]
async fn programs_that_stay_end_in_order_when_their_threads_go() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("wishes_kept").await;
    let ended = work.path("ended");
    let program = format!(
        "import json, sys, time\nfor line in sys.stdin:\n job = json.loads(line)\n time.sleep(0.02)\n \
         print(json.dumps({{'job_id': job['job_id']}}), flush=True)\nopen('{ended}', 'a').write('ended\\n')\n"
    );
    let program = program.replace('{', "{{");
    let worker = started(&work, "a", &["--keep", "--threads", "2", "--", "python3", "-c", &program]);
    let jobs: Vec<_> = (0..100).map(|number| NewJob::text(format!("{number}"))).collect();
    work.queue.enqueue_many(&jobs).await.unwrap();
    let listed = || work.fixture.run(&["workers", "--json"]).json().pop();
    let done = || listed().and_then(|worker| worker["done"].as_u64()).unwrap_or_default();
    wait_for("both programs work", || done() >= 10);
    work.fixture.run(&["worker", "threads", "a", "1"]).ok();
    let all_ended = |count: usize| {
        wait_for("they have ended", || std::fs::read_to_string(&ended).is_ok_and(|text| text.lines().count() == count));
    };
    all_ended(2); // those of the first threads; one more has started
    wait_for("all are done", || done() == 100);
    worker.signal(Signal::TERM);
    let summary = worker.end().ok();
    assert!(summary.starts_with("100 done, 0 retried"), "{summary}");
    all_ended(3);
}
