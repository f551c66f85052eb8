//! `work --keep`: programs that stay, and the lines that they get and answer.

use std::time::{Duration, Instant};

use readpast::NewJob;
use readpast::admin::JobState;
use rustix::process::Signal;

use crate::worker_process::{WorkFixture, has, wait_for};

/// A program of Python's that defines `handle(job)`, which returns the line to answer.
const PYTHON: &str = "
import json, os, signal, sys, time
def ok(job, text=''):
    return json.dumps({'job_id': job['job_id'], 'output_text': text})
for line in sys.stdin:
    job = json.loads(line)
    sys.stdout.write(handle(job) + '\\n')
    sys.stdout.flush()
";

fn example(name: &str) -> String {
    format!("{}/../examples/work/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The arguments that keep a Python program with this `handle`.
fn python(handle: &str) -> Vec<String> {
    let program = format!("def handle(job):\n{handle}\n{PYTHON}").replace('{', "{{");
    ["--keep", "--threads", "1", "--", "python3", "-u", "-c", &program].map(str::to_owned).to_vec()
}

async fn counts_words(program: &str, file: &str) {
    if !has(program) {
        return;
    }
    let work = WorkFixture::new("words").await;
    let texts = ["to be or not", "größe 🦀\n\"x\"", ""].map(NewJob::text);
    let texts = work.queue.enqueue_many(&texts).await;
    let texts: Vec<_> = texts.unwrap().into_iter().map(|enqueued| enqueued.job_id).collect();
    let bytes = work.enqueue(NewJob::bytes([0xFF])).await;
    let many: Vec<_> = (0..300).map(|number| NewJob::text(format!("job {number}"))).collect();
    work.queue.enqueue_many(&many).await.unwrap();
    let summary = work.drain(&["--keep", "--threads", "2", "--", program, &example(file)]).ok();
    assert!(summary.starts_with("303 done, 0 retried, 1 dead"), "{summary}");
    for (job, count) in texts.into_iter().zip(["4", "3", "0"]) {
        assert_eq!(work.output(job).await, count);
    }
    let row = work.row(bytes).await;
    assert_eq!((row.attempt, row.error.as_deref()), (1, Some("the payload is not text")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_example_counts_words() {
    counts_words("python3", "count_words.py").await;
}

async fn many_jobs(count: usize) {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("many").await;
    for chunk in (0..count).collect::<Vec<_>>().chunks(5_000) {
        let jobs: Vec<_> = chunk.iter().map(|number| NewJob::text(format!("{number} is a number"))).collect();
        work.queue.enqueue_many(&jobs).await.unwrap();
    }
    let summary = work.drain(&["--json", "--keep", "--", "python3", &example("count_words.py")]).json().remove(0);
    assert_eq!((&summary["done"], &summary["retried"]), (&count.into(), &0.into()), "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_jobs_go_through_two_programs() {
    many_jobs(5_000).await;
}

/// Takes a minute or two in a debug build: `cargo test --release -p readpast-cli --test cli -- --ignored work_keep`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes longer than the rest of the suite"]
async fn a_hundred_thousand_jobs_go_through_two_programs() {
    many_jobs(100_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_the_job_in_json_and_no_secret() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("request").await;
    let job = NewJob::text("a\n\"b\"").kind("resize").header("tenant", "acme").max_attempts(3);
    let job = work.enqueue(job.time_limit(Duration::from_secs(60))).await;
    let handle =
        "    return ok(job, json.dumps([job, {n: v for n, v in os.environ.items() if n.startswith('READPAST')}]))";
    work.drain(&python(handle)).ok();
    let told: serde_json::Value = serde_json::from_str(&work.output(job).await).unwrap();
    let mut request = told[0].clone();
    let left = request["time_limit_s"].take().as_f64().unwrap();
    assert!((50.0..=60.0).contains(&left));
    let expected = serde_json::json!({
        "job_id": job.0, "attempt": 1, "max_attempts": 3, "fence": 1, "kind": "resize", "correlation_id": null,
        "group_key": null, "batch_id": null, "headers": {"tenant": "acme"}, "parents": null, "time_limit_s": null,
        "checkpoint_text": null, "checkpoint_hex": null, "payload_text": "a\n\"b\"", "payload_hex": null,
    });
    assert_eq!(request, expected);
    let variables: Vec<_> = told[1].as_object().unwrap().keys().collect();
    assert_eq!(variables, ["READPAST_RUN"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_decides_about_the_job() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("answers").await;
    let handle = "
    verdict = json.loads(job['payload_text']) if job['fence'] == 1 else {}
    return json.dumps({'job_id': job['job_id'], **verdict})";
    let mut jobs = Vec::new();
    for (answer, state, attempt, error) in [
        (r#"{"output_hex": "0xFF0a"}"#, JobState::Done, 1, None),
        (r#"{"error": "no", "dead": true}"#, JobState::Dead, 1, Some("no")),
        (r#"{"error": "no"}"#, JobState::Done, 2, Some("no")),
        (r#"{"error": "no", "retry_in_s": 0.01}"#, JobState::Done, 2, Some("no")),
        (r#"{"error": "no", "snooze_s": 0.01}"#, JobState::Done, 1, Some("no")),
    ] {
        jobs.push((work.enqueue(NewJob::text(answer)).await, state, attempt, error));
    }
    work.drain(&python(handle)).ok();
    for (job, state, attempt, error) in jobs {
        let row = work.row(job).await;
        assert_eq!((row.state, row.attempt, row.error.as_deref()), (state, attempt, error), "{row:?}");
    }
}

/// A program that asks for more: it notes what its first attempt has done, and gets it as bytes in the second.
const ASKS: &str = "
import json, os, signal, sys
def say(line, data=b''):
    os.write(1, json.dumps(line).encode() + b'\\n' + data)
say({'protocol': 1, 'bytes': True, 'stop': True})
for line in sys.stdin.buffer:
    job = json.loads(line)
    if 'stop' in job: continue
    payload = sys.stdin.buffer.read(job.get('payload_bytes', 0))
    checkpoint = sys.stdin.buffer.read(job.get('checkpoint_bytes', 0)) or (job.get('checkpoint_text') or '').encode()
    me = {'job_id': job['job_id']}
    handle(job, payload, checkpoint, me)
";

/// The arguments that keep a program that asks for more, with this `handle`.
fn asking(handle: &str) -> Vec<String> {
    let program = format!("def handle(job, payload, checkpoint, me):\n{handle}\n{ASKS}").replace('{', "{{");
    ["--keep", "--threads", "1", "--", "python3", "-c", &program].map(str::to_owned).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_ask_for_bytes_and_note_what_it_has_done() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("bytes").await;
    work.enqueue(NewJob::text("it asks meanwhile")).await;
    let binary: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let (job, empty) = (work.enqueue(NewJob::bytes(binary.clone())).await, work.enqueue(NewJob::bytes([])).await);
    let handle = "
    if len(payload) == 300000 and not checkpoint:
        say({**me, 'checkpoint_bytes': 3}, b'\\x00\\n\\xff')
        say({**me, 'progress': 0.5, 'progress_text': 'half', 'log': 'as far as half'})
        return say({**me, 'error': 'later', 'retry_in_s': 0})
    assert ('payload_bytes' in job) == ('kind' not in job), 'what has no value is left out'
    output = payload + checkpoint
    say({**me, 'output_bytes': len(output)}, output)";
    let run = work.drain(&asking(handle));
    assert!(run.stdout.starts_with("3 done, 1 retried"), "{run:?}");
    let output = work.queue.admin().job(job, None).await.unwrap().unwrap().output.unwrap();
    assert_eq!((output.len(), &output[300_000..]), (300_003, &b"\0\n\xff"[..]));
    assert!(output[..300_000] == binary);
    assert_eq!(work.row(empty).await.output.unwrap_or_default(), b"");
    let logs = work.queue.admin().logs(job, 20).await.unwrap();
    assert!(logs.iter().any(|log| log.text == "as far as half\n"), "{logs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_asks_for_it_is_told_when_its_worker_stops() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("told").await;
    let job = work.enqueue(NewJob::text("x")).await;
    let handle = "
    say({**me, 'checkpoint_text': 'so far', 'progress': 0.5})
    if checkpoint: return say({**me, 'output_text': checkpoint.decode()})
    open('started', 'w').close()
    said = json.loads(sys.stdin.buffer.readline())
    say({**me, 'error': json.dumps(said), 'snooze_s': 0})";
    let worker = work.start(&asking(handle));
    wait_for("the job runs", || std::path::Path::new(&work.path("started")).exists());
    worker.signal(Signal::TERM);
    worker.end().ok();
    let row = work.row(job).await;
    assert_eq!((row.attempt, row.error.as_deref()), (0, Some("{\"stop\": true}")), "{row:?}");
    work.drain(&asking(handle)).ok();
    assert_eq!(work.output(job).await, "so far");
}

/// Each program says its number, and the first attempt of a job can do what its payload says.
async fn recovers(test_name: &str, misdeed: &str, error: &str) {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new(test_name).await;
    let (before, bad) = (work.enqueue(NewJob::text("")).await, work.enqueue(NewJob::text("bad")).await);
    let after = work.enqueue(NewJob::text("")).await;
    let handle = format!(
        "    if job['payload_text'] and job['fence'] == 1:\n        {misdeed}\n    return ok(job, str(os.getpid()))"
    );
    let log = work.drain(&python(&handle)).stderr;
    let attempts = work.queue.admin().attempts(bad).await.unwrap();
    assert_eq!(attempts.len(), 1, "{log}");
    let noted = attempts[0].error.as_deref().unwrap();
    assert!(noted.contains(error), "{noted}");
    // It costs its job only, and the next ones have a new program.
    let (before_pid, after_pid) = (work.output(before).await, work.output(after).await);
    assert_ne!(before_pid, after_pid);
    assert_eq!(work.output(bad).await, after_pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_dies_costs_its_job_one_attempt() {
    let dies = "print('last words', file=sys.stderr); os._exit(3)";
    recovers("dies", dies, "exit code 3 without a reply: last words").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_crashes_costs_its_job_one_attempt() {
    recovers("crashes", "os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL without a reply").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_json_is_a_failure() {
    let error = "invalid line of the program: not JSON from column 1 on: hello\nStandard output is only for replies";
    recovers("no_json", "return 'hello'", error).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_another_job_is_a_failure() {
    recovers("other_job", "return json.dumps({'job_id': 999})", "it is for job 999, but job 2 is running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_closes_its_output_is_a_failure() {
    let closes = "os.close(1); time.sleep(1000)";
    recovers("closes", closes, "the program closed its standard output").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_of_any_size_that_is_too_large_makes_its_job_dead() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("too_large").await;
    let sizes = [2_000, 10_000_000_000_u64];
    let mut jobs = Vec::new();
    for size in sizes {
        jobs.push(work.enqueue(NewJob::text(size.to_string())).await);
    }
    let after = work.enqueue(NewJob::text("0")).await;
    let handle = "
    size = int(payload or job['payload_text'])
    say({**me, 'output_bytes': size}, b'x' * min(size, 100000))";
    work.drain(&[vec!["--max-output".to_owned(), "1KiB".to_owned()], asking(handle)].concat()).ok();
    for job in jobs {
        let row = work.row(job).await;
        assert_eq!((row.state, row.attempt), (JobState::Dead, 1), "{row:?}");
        assert_eq!(row.error.as_deref(), Some("its output is larger than 1024 bytes"));
    }
    assert_eq!(work.row(after).await.state, JobState::Done);
}

/// The pipe holds more than one read takes.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_answer_of_a_program_that_exits_counts() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("last_answer").await;
    let job = work.enqueue(NewJob::text("").max_attempts(1)).await;
    let handle = "
    answer = json.dumps({'job_id': job['job_id'], 'output_text': 'x' * 60000}) + '\\n'
    while answer: answer = answer[os.write(1, answer.encode()):]
    os._exit(0)";
    work.drain(&python(handle)).ok();
    assert_eq!(work.output(job).await.len(), 60_000);
}

/// A program is not killed because its answer comes at the moment at which its worker is told to stop.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_during_a_stop_does_not_kill_its_program() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("answer_and_stop").await;
    for _ in 0..200 {
        work.enqueue(NewJob::text("x")).await;
    }
    // Too short for the worker to look meanwhile whether it is to stop.
    let handle = "
    import time
    open('started', 'w').close()
    time.sleep(0.02)
    say(me)";
    let worker = work.start(&asking(handle));
    wait_for("the jobs run", || std::path::Path::new(&work.path("started")).exists());
    worker.signal(Signal::TERM);
    let run = worker.end();
    assert!(!run.stderr.contains("replied before it had read its job"), "{run:?}");
    run.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_end_is_a_failure() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("endless").await;
    let job = work.enqueue(NewJob::text("").max_attempts(1)).await;
    let handle = "    while True: sys.stdout.write('x' * 10000)";
    work.drain(&[vec!["--max-output".to_owned(), "1KiB".to_owned()], python(handle)].concat()).ok();
    let error = work.row(job).await.error.unwrap();
    assert!(error.starts_with("invalid line of the program: it is longer than 67584 bytes: xxx"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_says_unasked_costs_no_job() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("unasked").await;
    let handle = "
    open('pid', 'w').write(str(os.getpid()) + '\\n')
    return ok(job, str(os.getpid())) + ('\\nand more' if job['payload_text'] else '')";
    let chatty = work.enqueue(NewJob::text("chatty")).await;
    let next = work.enqueue(NewJob::text("")).await;
    let run = work.drain(&python(handle));
    assert!(run.stderr.contains("a program wrote output without having a job; restarting it"), "{run:?}");
    assert!(run.stdout.starts_with("2 done, 0 retried"), "{run:?}");
    assert_ne!(work.output(chatty).await, work.output(next).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_answers_before_it_has_read_all_costs_no_job() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("early_answer").await;
    let program = "
import json, os
while head := os.read(0, 100):
    number = json.loads(head.split(b',')[0] + b'}')['job_id']
    os.write(1, json.dumps({'job_id': number, 'output_text': str(os.getpid())}).encode() + b'\\n')
    while not head.endswith(b'\\n'):
        head = os.read(0, 100)
";
    let (long, next) = (NewJob::text("x".repeat(2_000_000)), NewJob::text("y"));
    let (long, next) = (work.enqueue(long.max_attempts(1)).await, work.enqueue(next.max_attempts(1)).await);
    let program = program.replace('{', "{{");
    let limits = ["--time-limit", "10s", "--keep", "--threads", "1", "--", "python3", "-c", &program];
    let run = work.drain(&limits);
    assert!(run.stdout.starts_with("2 done"), "{run:?}");
    assert!(run.stderr.contains("it replied before it had read its job"), "{run:?}");
    assert_ne!(work.output(long).await, work.output(next).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_closes_its_input_costs_no_job() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("closed_input").await;
    let handle = "
    os.close(0)
    sys.stdout.write(ok(job, str(os.getpid())) + '\\n')
    sys.stdout.flush()
    time.sleep(1000)";
    let jobs = ["", ""].map(|text| NewJob::text(text).max_attempts(1));
    let jobs = [work.enqueue(jobs[0].clone()).await, work.enqueue(jobs[1].clone()).await];
    let run = work.drain(&python(handle));
    assert!(run.stdout.starts_with("2 done, 0 retried"), "{run:?}");
    assert!(run.stderr.contains("a program has closed its standard input; restarting it"), "{run:?}");
    assert_ne!(work.output(jobs[0]).await, work.output(jobs[1]).await);
}

/// The second time, the job is to blame.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_at_which_programs_close_their_input_fails() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("closes_at").await;
    let job = work.enqueue(NewJob::text("x".repeat(200_000)).max_attempts(1)).await;
    let program = "import os, time; os.read(0, 8192); os.close(0); time.sleep(1000)";
    work.drain(&["--keep", "--threads", "1", "--", "python3", "-c", program].map(str::to_owned)).ok();
    let row = work.row(job).await;
    let error = "the program closed its standard input without having read the job";
    assert_eq!((row.state, row.error.as_deref()), (JobState::Dead, Some(error)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_a_later_protocol_costs_no_attempt() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("later_protocol").await;
    let job = work.enqueue(NewJob::text("").max_attempts(1)).await;
    let program =
        "import sys; print('{\"protocol\":2,\"more\":true}', flush=True); sys.stdin.read()".replace('{', "{{");
    let program = ["--keep", "--threads", "1", "--drain", "--not-scheduled", "--", "python3", "-c", &program];
    work.start(&program).end().ok();
    let row = work.row(job).await;
    assert_eq!((row.state, row.attempt), (JobState::Scheduled, 0), "{row:?}");
    assert!(row.error.unwrap().contains("the program speaks protocol 2; this worker speaks protocol 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_s_error_has_nothing_from_before_the_job() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("old_errors").await;
    let before = work.enqueue(NewJob::text("")).await;
    let mut arguments = python(
        "
    if job['payload_text']: sys.exit('last words')
    return ok(job)",
    );
    // As much as a pipe holds, when the job has been answered.
    arguments.last_mut().unwrap().push_str("    os.write(2, b'old' * 20000); open('noted', 'w').write('x\\n')\n");
    let worker = work.start(&arguments);
    work.queue.wait(before, Duration::from_secs(30)).await.unwrap();
    work.line_of("noted");
    let job = work.enqueue(NewJob::text("bad").max_attempts(1)).await;
    let _ = work.queue.wait(job, Duration::from_secs(30)).await; // it fails
    assert_eq!(work.row(job).await.error.as_deref(), Some("exit code 1 without a reply: last words"));
    worker.signal(Signal::TERM);
    worker.end().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_ends_the_program_s_group_and_the_next_job_has_a_new_one() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("kept_limit").await;
    let handle = "
    if job['payload_text']:
        open('child', 'w').write(str(os.getpid()) + '\\n')
        os.system('sleep 1000 & echo $! > grandchild')
        time.sleep(1000)
    return ok(job)";
    work.enqueue(NewJob::text("")).await; // for it the program is started, which may take longer than the limit
    let slow = NewJob::text("slow").max_attempts(1).time_limit(Duration::from_millis(800));
    let (slow, next) = (work.enqueue(slow).await, work.enqueue(NewJob::text("")).await);
    work.drain(&python(handle)).ok();
    let row = work.row(slow).await;
    assert!(row.error.as_deref().unwrap().starts_with("ended at its time limit of 800ms"), "{row:?}");
    work.process_of("child").wait_for_end();
    work.process_of("grandchild").wait_for_end();
    assert_eq!(work.output(next).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_the_program_may_end_by_itself() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("kept_end").await;
    work.enqueue(NewJob::text("")).await;
    let mut arguments = python("    return ok(job)");
    arguments.last_mut().unwrap().push_str("time.sleep(0.2); open('farewell', 'w').write('done\\n')");
    work.drain(&arguments).ok();
    assert_eq!(work.line_of("farewell"), "done");
    // But not for ever.
    arguments.last_mut().unwrap().push_str("\nopen('child', 'w').write(str(os.getpid()) + '\\n')\ntime.sleep(1000)");
    work.enqueue(NewJob::text("")).await;
    let run = work.drain(&[vec!["--grace".to_owned(), "3s".to_owned()], arguments].concat());
    assert!(run.stderr.contains("a program did not exit when its standard input was closed"), "{run:?}");
    work.process_of("child").wait_for_end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_again_and_again_is_started_ever_more_slowly() {
    let work = WorkFixture::new("again").await;
    let jobs: Vec<_> = (0..5).map(|_| NewJob::text("").max_attempts(1)).collect();
    work.queue.enqueue_many(&jobs).await.unwrap();
    let began = Instant::now();
    let shell = "echo x >> starts; echo cannot begin >&2; exit 1";
    let run = work.drain(&["--keep", "--threads", "1", "--shell", shell]);
    assert!(run.stdout.starts_with("0 done, 0 retried, 5 dead"), "{run:?}");
    // 0, 0, 0.1, 0.2 and 0.4 s.
    assert!(began.elapsed() > Duration::from_millis(700), "{:?}", began.elapsed());
    let row = &work.queue.admin().list(&JobState::Dead.into(), None, 1).await.unwrap().jobs[0];
    assert_eq!(row.error.as_deref(), Some("exit code 1 without a reply: cannot begin"));
    assert_eq!(std::fs::read_to_string(work.path("starts")).unwrap().lines().count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_a_program_is_waited_for_costs_no_attempt() {
    let work = WorkFixture::new("kept_stop").await;
    let jobs: Vec<_> = (0..20).map(|_| NewJob::text("").max_attempts(1)).collect();
    work.queue.enqueue_many(&jobs).await.unwrap();
    let worker = work.start(&["--keep", "--threads", "1", "--shell", "echo x >> starts; exit 1"].map(str::to_owned));
    let starts = || std::fs::read_to_string(work.path("starts")).unwrap_or_default().lines().count();
    wait_for("a few starts", || starts() >= 5);
    worker.signal(Signal::TERM);
    worker.end().ok();
    let dead = work.queue.admin().list(&JobState::Dead.into(), None, 100).await.unwrap().jobs.len();
    assert_eq!(dead, starts());
}
