//! What programs said: `work --keep-log`, `job --log` and `job --follow`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use readpast::NewJob;

use crate::worker_process::{WorkFixture, has, wait_for};

/// Runs one job, which may run once, with this script, and returns its id.
async fn ran(work: &WorkFixture, keep_log: &str, script: &str) -> String {
    let job_id = work.enqueue(NewJob::text("x").max_attempts(1)).await;
    work.drain(&["--keep-log", keep_log, "--", "sh", "-c", script]).ok();
    job_id.to_string()
}

fn log(work: &WorkFixture, job_id: &str) -> String {
    work.fixture.run(&["job", job_id, "--log"]).ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_program_has_both_of_its_streams_as_plain_text() {
    let work = WorkFixture::new("log").await;
    let job_id = ran(&work, "failed", "printf '\\033[31mred\\033[0m\\n'; printf 'half \\303' >&2; exit 3").await;
    let said = log(&work, &job_id);
    assert!(said.contains("red\n") && said.contains("half "), "{said}");
    let job = &work.fixture.run(&["job", &job_id, "--json"]).json()[0];
    assert_eq!((&job["logs"][0]["attempt"], &job["logs"][0]["text"]), (&1.into(), &said.clone().into()), "{job}");
    assert!(work.fixture.run(&["job", &job_id]).ok().contains("\nlog of attempt 1\n"));
    let pieces = work.fixture.run(&["job", &job_id, "--follow", "--json"]).json();
    assert_eq!((&pieces[0]["text"], pieces.len()), (&said.into(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_succeeds_has_a_log_if_all_are_kept() {
    let work = WorkFixture::new("log_done").await;
    let job_id = ran(&work, "failed", "echo working >&2").await;
    assert_eq!(log(&work, &job_id), "");
    let job_id = ran(&work, "all", "echo working >&2").await;
    assert_eq!(log(&work, &job_id), "working\n");
    let job_id = ran(&work, "all", "printf 'PNG\\000\\001'; echo drawn >&2").await;
    assert_eq!(log(&work, &job_id), "drawn\n", "its output is no text");
    let job_id = ran(&work, "none", "echo working >&2; exit 1").await;
    assert_eq!(log(&work, &job_id), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_cut_to_its_end() {
    let work = WorkFixture::new("log_flood").await;
    let job_id = ran(&work, "failed", "head -c 30000000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1").await;
    let said = log(&work, &job_id);
    assert!(said.ends_with("xxend\n") && (8 << 10..=16 << 10).contains(&said.len()), "{}", said.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stays_has_a_log_for_each_of_its_jobs() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("log_kept").await;
    let program =
        "import json, sys\nfor line in sys.stdin:\n job = json.loads(line)\n print('got', job['payload_text'], \
                   file=sys.stderr, flush=True)\n print(json.dumps({'job_id': job['job_id']}), flush=True)\n"
            .replace('{', "{{");
    let job_ids = [work.enqueue(NewJob::text("one")).await, work.enqueue(NewJob::text("two")).await];
    work.drain(&["--keep", "--keep-log", "all", "--threads", "1", "--", "python3", "-c", &program]).ok();
    assert_eq!(job_ids.map(|job_id| log(&work, &job_id.to_string())), ["got one\n", "got two\n"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_until_its_job_has_ended() {
    let work = WorkFixture::new("log_follow").await;
    let go = work.path("go");
    let job_id = work.enqueue(NewJob::text("x")).await.to_string();
    let script = format!("echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo going on");
    let worker = work.start(&["--keep-log", "all", "--", "sh", "-c", &script]);
    let mut follow = work.fixture.command(&["job", &job_id, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun", "while the job runs");
    std::fs::write(&go, "").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "going on");
    assert!(lines.next().is_none());
    let mut ended = None;
    wait_for("it ends with the job", || {
        ended = follow.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.unwrap().success());
    worker.signal(rustix::process::Signal::TERM);
    worker.end().ok();
}
