//! `enqueue`: one job, lines, JSON, and going on after whatever happened.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::SystemTime;

use readpast::admin::{JobChange, JobFilter, JobRow, JobState, QueueOptions};
use readpast::{BatchId, Needs, NewBatch, NewJob, Queue};
use serde_json::json;
use tokio::sync::Mutex;

use crate::proxy::Proxy;
use crate::support::{Fixture, run_with_input, temporary_folder, until};

async fn all(queue: &Queue) -> Vec<JobRow> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let page = queue.admin().list(&JobFilter::all(), after.as_ref(), 1_000).await.unwrap();
        jobs.extend(page.jobs);
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    jobs.sort_by_key(|job| job.job_id);
    jobs
}

fn payloads(jobs: &[JobRow]) -> Vec<String> {
    jobs.iter().map(|job| job.payload_text().unwrap().into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_with_everything_that_it_may_have() {
    let fixture = Fixture::new("one").await;
    let queue = fixture.queue("work").await;
    let id = "0190f0f0-0000-7000-8000-000000000001";
    let arguments = [
        "enqueue",
        "work",
        r#"{"a":1}"#,
        "--kind",
        "resize",
        "--priority",
        "-3",
        "--key",
        "k",
        "--header",
        "tenant=acme",
        "--memory",
        "3GiB",
        "--threads",
        "4",
        "--token",
        "gpu=1",
        "--token",
        "license.abaqus=2",
        "--correlation-id",
        id,
        "--max-attempts",
        "7",
        "--time-limit",
        "90s",
        "--at",
        "2100-01-01T00:00:00Z",
        "--json",
    ];
    let answer = fixture.run(&arguments).json().remove(0);
    let jobs = all(&queue).await;
    let [job] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!(answer, json!({"job_id": job.job_id, "duplicate": false}));
    assert_eq!((job.kind.as_deref(), job.priority, job.dedup_key.as_deref()), (Some("resize"), -3, Some("k")));
    assert_eq!((job.state, job.headers.as_ref().unwrap()["tenant"].as_str()), (JobState::Scheduled, Some("acme")));
    let needs = Needs::new().memory(3 << 30).threads(4).token("gpu", 1).token("license.abaqus", 2);
    assert_eq!(job.needs, Some(needs));
    assert_eq!(job.correlation_id.unwrap().to_string(), id);
    assert_eq!(job.time_limit.unwrap().as_secs(), 90);
    assert_eq!(job.due_at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), 4_102_444_800);
    let again = fixture.run(&arguments[..arguments.len() - 1]).ok();
    assert_eq!(again, format!("job {} has this key and is unfinished: nothing was added\n", job.job_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_one_job_and_its_bytes_are_the_payload() {
    let fixture = Fixture::new("file").await;
    let folder = temporary_folder("file");
    let path = folder.join("payload.bin");
    std::fs::write(&path, [0, 255, 10, 13]).unwrap();
    fixture.run(&["enqueue", "work", "--file", path.to_str().unwrap()]).ok();
    assert_eq!(all(&fixture.queue("work").await).await[0].payload, [0, 255, 10, 13]);
    let message = fixture.run(&["enqueue", "work", "--file", "/nowhere/at/all"]).failed(2);
    assert!(message.contains("/nowhere/at/all"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_is_a_job_in_its_order_and_empty_ones_are_passed_over() {
    let fixture = Fixture::new("lines").await;
    let input: String =
        (0..2_345).map(|n| if n % 100 == 99 { "\n".to_owned() } else { format!("line {n}\r\n") }).collect();
    let answer = fixture.run_with_input(&["enqueue", "work", "--kind", "k", "--json"], input.as_bytes()).json();
    assert_eq!(answer, [json!({"enqueued": 2_322, "duplicates": 0, "lines": 2_345})]);
    let jobs = all(&fixture.queue("work").await).await;
    let expected: Vec<String> = (0..2_345).filter(|n| n % 100 != 99).map(|n| format!("line {n}")).collect();
    assert_eq!(payloads(&jobs), expected);
    assert!(jobs.iter().all(|job| job.kind.as_deref() == Some("k")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_no_job_is_named_and_what_came_before_is_counted() {
    let fixture = Fixture::new("bad_line").await;
    let plain: String = (0..1_000).map(|n| format!("{{\"payload\":{n}}}\n")).collect();
    let keyed: String = (0..200).map(|n| format!("{{\"payload\":{n},\"key\":\"k{}\"}}\n", n % 150)).collect();
    let good = plain + &keyed;
    let input = format!("{good}{{\"payload\":1,\"colour\":\"red\"}}\n");
    let message = fixture.run_with_input(&["enqueue", "work", "--format", "json"], input.as_bytes()).failed(2);
    assert!(message.contains("line 1201: unknown field 'colour'"), "{message}");
    assert!(message.contains("1,000 jobs enqueued, from the first 1,000 lines"), "{message}");
    assert_eq!(all(&fixture.queue("work").await).await.len(), 1_000, "chunks go whole or not at all");
    let answer = fixture.run_with_input(&["enqueue", "work", "--format", "json", "--json"], good.as_bytes()).json();
    assert_eq!(answer, [json!({"enqueued": 1_150, "duplicates": 50, "lines": 1_200})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ids_of_lines_are_printed_in_their_order() {
    let fixture = Fixture::new("ids").await;
    let lines: String = (0..1_100).map(|n| format!("{{\"payload\":\"{n}\",\"key\":\"{}\"}}\n", n % 1_099)).collect();
    let enqueue = ["enqueue", "work", "--format", "json", "--ids"];
    let printed = fixture.run_with_input(&enqueue, lines.as_bytes()).ok();
    let jobs = all(&fixture.queue("work").await).await;
    let id_of =
        |payload: u64| jobs.iter().find(|job| job.payload_text().unwrap() == payload.to_string()).unwrap().job_id.0;
    let ids: Vec<i64> = (0..1_100).map(|n| id_of(n % 1_099)).collect();
    assert_eq!(printed.lines().map(|line| line.parse().unwrap()).collect::<Vec<i64>>(), ids);

    let lines = b"{\"payload\":1,\"key\":\"7\"}\n{\"payload\":\"last\"}\n";
    let printed = fixture.run_with_input(&[&enqueue[..], &["--json"]].concat(), lines).json();
    let last = all(&fixture.queue("work").await).await.last().unwrap().job_id;
    assert_eq!(printed, [json!({"job_id": ids[7], "duplicate": true}), json!({"job_id": last, "duplicate": false})]);

    // Who reads the ids has gone. The rest of the lines is not enqueued, and that is no success.
    let mut command = fixture.command(&["enqueue", "work", "--ids"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(b"closed\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{message}");
    assert!(message.contains("1 job enqueued, from the first line"), "{message}");
    assert!(message.contains("the ids of lines 1 to 1 cannot be printed"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_every_line_comes_in_once() {
    const LINES: usize = 30_000;
    let fixture = Fixture::new("resume").await;
    let queue = fixture.queue("work").await;
    let folder = temporary_folder("resume");
    let file = folder.join("state.json");
    let arguments = ["enqueue", "work", "--resume", file.to_str().unwrap(), "--json"];
    let input: String = (0..LINES).map(|n| format!("{n}\n")).collect();
    for kill in 1..=5 {
        let mut command = fixture.command(&arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let text = input.clone();
        let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
        // Some chunks further on each time, wherever in a chunk's way that is.
        until("some more jobs are in", async || queue.admin().stats(None).await.unwrap().ready >= kill * 4_000).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let _ = writer.join();
    }
    let answer = fixture.run_with_input(&arguments, input.as_bytes()).json().remove(0);
    assert_eq!(answer["lines"], LINES);
    let jobs = all(&queue).await;
    assert_eq!(jobs.len(), LINES);
    assert_eq!(payloads(&jobs).into_iter().collect::<HashSet<_>>().len(), LINES);
    let batch = queue.admin().batches(true, None, 10).await.unwrap().remove(0);
    assert!(batch.sealed_at.is_some() && batch.jobs == LINES as u64, "{batch:?}");

    let again = fixture.run_with_input(&arguments, input.as_bytes()).json().remove(0);
    assert_eq!((&again["enqueued"], &again["lines"]), (&json!(LINES), &json!(LINES)), "all runs together");
    let longer = format!("{input}one more\n");
    let message = fixture.run_with_input(&arguments, longer.as_bytes()).failed(2);
    assert!(message.contains("is complete; remove it"), "{message}");
}

fn lines_of(numbers: std::ops::Range<usize>) -> String {
    numbers.map(|n| format!("{n}\n")).collect()
}

/// The program, with its standard input kept open.
fn started(command: &mut Command) -> (Child, ChildStdin) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

fn press_ctrl_c(child: &Child) {
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

/// Waits until a file of --resume says that so many lines are in.
async fn noted(file: &Path, lines: usize) {
    let text = format!("\"lines\":{lines},");
    until("the chunk is noted", async || std::fs::read_to_string(file).is_ok_and(|state| state.contains(&text))).await;
}

fn state(file: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// The run before was cut off between SQL Server's commit and the note in the file: what no kill hits at will. And
/// somebody else has added a job to the batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_is_in_and_not_noted_does_not_come_in_twice() {
    let fixture = Fixture::new("not_noted").await;
    let queue = fixture.queue("work").await;
    let folder = temporary_folder("not_noted");
    let file = folder.join("state.json");
    let arguments = ["enqueue", "work", "--resume", file.to_str().unwrap(), "--json"];
    let (mut child, mut stdin) = started(&mut fixture.command(&arguments));
    stdin.write_all(lines_of(0..1_000).as_bytes()).unwrap();
    noted(&file, 1_000).await;
    let behind = std::fs::read(&file).unwrap();
    stdin.write_all(lines_of(1_000..2_000).as_bytes()).unwrap();
    noted(&file, 2_000).await;
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(&file, behind).unwrap();
    let batch = BatchId(state(&file)["batch_id"].as_i64().unwrap());
    queue.enqueue(&NewJob::text("another's").batch(batch)).await.unwrap();

    let answer = fixture.run_with_input(&arguments, lines_of(0..2_500).as_bytes()).json().remove(0);
    assert_eq!((&answer["enqueued"], &answer["lines"]), (&json!(2_501), &json!(2_500)), "the batch's jobs");
    let mut jobs = payloads(&all(&queue).await);
    jobs.retain(|payload| payload != "another's");
    assert_eq!(jobs, (0..2_500).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// The library repeats the call, and SQL Server says that it has it already.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_costs_no_line() {
    let fixture = Fixture::new("lost_answer").await;
    let queue = fixture.queue("work").await;
    let proxy = Proxy::start(&fixture.url).await;
    let folder = temporary_folder("lost_answer");
    let file = folder.join("state.json");
    // Some have keys: each costs the server a statement, and the call must end while its answer is held back.
    let line = |n: usize| match n % 100 {
        0 => format!("{{\"payload\":{n},\"key\":\"k{n}\"}}\n"),
        _ => format!("{{\"payload\":{n}}}\n"),
    };
    let input: Vec<String> = (0..5_000).map(line).collect();
    let arguments = ["enqueue", "work", "--format", "json", "--json", "--resume", file.to_str().unwrap()];
    let (mut child, mut stdin) = started(&mut fixture.command_as(proxy.url(), &arguments));
    stdin.write_all(input[..1_000].concat().as_bytes()).unwrap();
    noted(&file, 1_000).await;
    // The call has come to the server, where it waits for a key, and only then its answer is held back.
    let mut holder = fixture.client().await;
    holder.begin_transaction().await.unwrap();
    let key = [NewJob::text("x").dedup_key("k1500")];
    readpast::transaction::enqueue_in(&mut holder, &fixture.schema, "work", &key).await.unwrap();
    stdin.write_all(input[1_000..2_000].concat().as_bytes()).unwrap();
    let waiting = "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE blocking_session_id = @@SPID";
    let holder = Mutex::new(holder);
    until("the second chunk waits", async || {
        let row = holder.lock().await.simple_query(waiting).await.unwrap().into_row().await.unwrap();
        row.unwrap().get::<i32, _>(0) == Some(1)
    })
    .await;
    proxy.mute();
    holder.lock().await.rollback_transaction().await.unwrap();
    until("the second chunk is in", async || queue.admin().stats(None).await.unwrap().ready == 2_000).await;
    proxy.close();
    proxy.open();
    noted(&file, 2_000).await;
    stdin.write_all(input[2_000..3_000].concat().as_bytes()).unwrap();
    noted(&file, 3_000).await;
    press_ctrl_c(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let answer = fixture.run_with_input(&arguments, input.concat().as_bytes()).json().remove(0);
    assert_eq!(answer, json!({"enqueued": 5_000, "duplicates": 0, "lines": 5_000}));
    assert_eq!(payloads(&all(&queue).await), (0..5_000).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_with_one_file_the_second_is_refused() {
    let fixture = Fixture::new("two_processes").await;
    let folder = temporary_folder("two_processes");
    let file = folder.join("state.json");
    let link = folder.join("link.json");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let arguments = ["enqueue", "work", "--resume", file.to_str().unwrap(), "--json"];
    let (child, mut stdin) = started(&mut fixture.command(&arguments));
    stdin.write_all(lines_of(0..1_000).as_bytes()).unwrap();
    noted(&file, 1_000).await;
    for path in [&file, &link] {
        let second = ["enqueue", "work", "--resume", path.to_str().unwrap()];
        let message = fixture.run_with_input(&second, lines_of(0..1_500).as_bytes()).failed(4);
        assert!(message.contains("another process uses"), "{message}");
    }
    stdin.write_all(lines_of(1_000..1_500).as_bytes()).unwrap();
    drop(stdin);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    fixture.run_with_input(&arguments, lines_of(0..1_500).as_bytes()).ok();
    assert_eq!(all(&fixture.queue("work").await).await.len(), 1_500);
}

/// The input's end was noted, and then the run was cut off; the file that is read has grown meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn an_input_with_more_lines_than_before_is_refused() {
    let fixture = Fixture::new("grown").await;
    let queue = fixture.queue("work").await;
    let folder = temporary_folder("grown");
    let file = folder.join("state.json");
    let batch = queue.create_batch(&NewBatch::new().name("a name of its own")).await.unwrap();
    let place = |text: &str| json!({"lines": text.lines().count(), "bytes": text.len(), "crc32": crc32fast::hash(text.as_bytes())});
    let state = json!({
        "schema": fixture.schema, "queue": "work", "batch_id": batch, "name": "a name of its own", "place": place(""),
        "end": place("0\n1\n")
    });
    std::fs::write(&file, state.to_string()).unwrap();
    queue.enqueue_part(batch, 1, &["0", "1"].map(NewJob::text)).await.unwrap();
    let arguments = ["enqueue", "work", "--resume", file.to_str().unwrap(), "--json"];
    for other in ["0\n1\n2\n", "0\n", "0\n2\n"] {
        let message = fixture.run_with_input(&arguments, other.as_bytes()).failed(2);
        assert!(message.contains("the input differs from the input"), "{message}");
    }
    let answer = fixture.run_with_input(&arguments, b"0\n1\n").json().remove(0);
    assert_eq!(answer["enqueued"], 2);
    assert_eq!(payloads(&all(&queue).await), ["0", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_resume_a_last_line_without_an_end_is_refused_and_nothing_is_sealed() {
    let fixture = Fixture::new("no_line_end").await;
    let queue = fixture.queue("work").await;
    let folder = temporary_folder("no_line_end");
    let file = folder.join("state.json");
    let arguments = ["enqueue", "work", "--resume", file.to_str().unwrap(), "--json"];
    let whole = lines_of(0..1_234);
    let message = fixture.run_with_input(&arguments, &whole.as_bytes()[..whole.len() - 2]).failed(2);
    assert!(message.contains("line 1234, the last one, has no line end"), "{message}");
    assert!(queue.admin().batches(true, None, 10).await.unwrap()[0].sealed_at.is_none());
    let answer = fixture.run_with_input(&arguments, whole.as_bytes()).json().remove(0);
    assert_eq!(answer["enqueued"], 1_234);
    assert_eq!(payloads(&all(&queue).await).last().unwrap(), "1233");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_a_live_input_go_at_once_and_with_resume_wait_for_the_others() {
    let fixture = Fixture::new("live").await;
    let queue = fixture.queue("work").await;
    let (child, mut stdin) = started(&mut fixture.command(&["enqueue", "work"]));
    for lines in [1, 3] {
        stdin.write_all(lines_of(0..lines).as_bytes()).unwrap();
        let ready = if lines == 1 { 1 } else { 4 };
        until("the lines are in", async || queue.admin().stats(None).await.unwrap().ready == ready).await;
    }
    drop(stdin);
    assert!(child.wait_with_output().unwrap().status.success());

    let folder = temporary_folder("live");
    let file = folder.join("state.json");
    let (child, mut stdin) = started(&mut fixture.command(&["enqueue", "work", "--resume", file.to_str().unwrap()]));
    // So little that a pipe takes it as one.
    stdin.write_all("x\n".repeat(1_003).as_bytes()).unwrap();
    noted(&file, 1_000).await;
    press_ctrl_c(&child);
    let ended = child.wait_with_output().unwrap();
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{message}");
    assert!(message.contains("1,000 jobs enqueued, from the first 1,000 lines"), "{message}");
    assert!(message.contains("lines 1001 to 1003 were read but not enqueued"), "{message}");
    assert_eq!(queue.admin().stats(None).await.unwrap().ready, 1_004);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_cannot_be_a_job_of_a_queue_is_named() {
    let fixture = Fixture::new("refused_line").await;
    let folder = temporary_folder("refused_line");
    let file = folder.join("state.json");
    let input = "{\"payload\":1}\n\n{\"payload\":2,\"kind\":\"a b\"}\n";
    for more in [&[][..], &["--resume", file.to_str().unwrap()]] {
        let arguments = [&["enqueue", "work", "--format", "json"][..], more].concat();
        let message = fixture.run_with_input(&arguments, input.as_bytes()).failed(2);
        assert!(message.contains("line 3: ") && message.contains("kind is 'a b'"), "{message}");
        assert!(!message.contains("run the same command again"), "it would fail again: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_input_or_another_queue_is_refused() {
    let fixture = Fixture::new("other_input").await;
    let folder = temporary_folder("other_input");
    let file = folder.join("state.json");
    let path = file.to_str().unwrap();
    fixture.run_with_input(&["enqueue", "work", "--resume", path], b"1\n2\n").ok();
    let message = fixture.run_with_input(&["enqueue", "work", "--resume", path], b"1\n3\n").failed(2);
    assert!(message.contains("the input differs from the input"), "{message}");
    let message = fixture.run_with_input(&["enqueue", "other", "--resume", path], b"1\n2\n").failed(2);
    assert!(message.contains("belongs to queue work"), "{message}");
    // A batch of this number on another server.
    let foreign = std::fs::read_to_string(&file).unwrap().replace("readpast enqueue ", "readpast enqueue 0");
    std::fs::write(&file, foreign).unwrap();
    let message = fixture.run_with_input(&["enqueue", "work", "--resume", path], b"1\n2\n").failed(2);
    assert!(message.contains("which is of another server or database"), "{message}");
    std::fs::write(&file, "{}").unwrap();
    let message = fixture.run_with_input(&["enqueue", "work", "--resume", path], b"1\n").failed(2);
    assert!(message.contains("is not a file of --resume"), "{message}");
}

/// `cargo test --release -p readpast-cli -- --ignored --nocapture a_million_lines`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a million lines: a figure for the documentation"]
async fn a_million_lines_come_in() {
    let fixture = Fixture::new("million_lines").await;
    let input: String = (0..1_000_000).map(|n| format!("{{\"n\":{n},\"of\":\"some file or other\"}}\n")).collect();
    let folder = temporary_folder("million_lines");
    let file = folder.join("state.json");
    for arguments in
        [vec!["enqueue", "work", "--json"], vec!["enqueue", "work", "--json", "--resume", file.to_str().unwrap()]]
    {
        let begin = std::time::Instant::now();
        let answer = run_with_input(&mut fixture.command(&arguments), input.as_bytes()).json();
        println!("{arguments:?}: {:.1} s", begin.elapsed().as_secs_f64());
        assert_eq!(answer, [json!({"enqueued": 1_000_000, "duplicates": 0, "lines": 1_000_000})]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_needs_of_a_line_are_laid_over_those_of_the_options_and_shown_in_words() {
    let fixture = Fixture::new("needs").await;
    let input = r#"{"payload":"a"}
{"payload":"b","needs":{"memory":1073741824,"gpu":2}}
"#;
    let arguments = ["enqueue", "work", "--format", "json", "--threads", "4", "--token", "gpu=1"];
    fixture.run_with_input(&arguments, input.as_bytes()).ok();
    let jobs = all(&fixture.queue("work").await).await;
    let both = Needs::new().memory(1 << 30).threads(4).token("gpu", 2);
    assert_eq!(jobs[0].needs, Some(Needs::new().threads(4).token("gpu", 1)));
    assert_eq!(jobs[1].needs.as_ref(), Some(&both));
    let id = jobs[1].job_id.to_string();
    let shown = fixture.run(&["job", &id]).ok();
    assert!(
        shown.lines().any(|line| line.starts_with("needs ") && line.ends_with(" 2 gpu, 1 GiB of memory, 4 threads")),
        "{shown}"
    );
    assert_eq!(fixture.run(&["job", &id, "--json"]).json()[0]["needs"], serde_json::to_value(&both).unwrap());
    let listed = fixture.run(&["jobs", "work"]).ok();
    assert!(listed.lines().next().unwrap().trim_end().ends_with("NEEDS"), "{listed}");
    assert!(
        listed.contains("1 gpu, 4 threads\n") && listed.contains("2 gpu, 1 GiB of memory, 4 threads\n"),
        "{listed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_jobs_and_an_enqueue_that_waits_adds_them_all() {
    let fixture = Fixture::with("full", QueueOptions::default().max_depth(2)).await;
    let queue = fixture.queue("work").await;
    fixture.run(&["enqueue", "work", "1"]).ok();
    // Otherwise the next one may use a count that is some milliseconds old.
    let count_again = "UPDATE [$(schema)].[depths] SET begun_at = '00010101'";
    fixture.sql(count_again).await;
    let run = fixture.run_with_input(&["enqueue", "work", "--ids"], b"2\n3\n4\n");
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    let message = run.failed(4);
    assert!(message.contains("the jobs of lines 1 to 3 except the first 1 were not enqueued: "), "{message}");
    assert!(message.contains("queue 'work' is full: its max_depth is 2"), "{message}");
    fixture.sql(count_again).await;
    let message = fixture.run(&["enqueue", "work", "3"]).failed(4);
    assert!(message.contains("--wait"), "{message}");

    let state = temporary_folder("full").join("state");
    let state = state.to_str().unwrap();
    let waiting: [(&[&str], &[u8], &[&str]); 3] = [
        (&["enqueue", "work", "5", "--wait"], b"", &["5"]),
        (&["enqueue", "work", "--wait"], b"6\n7\n8\n", &["6", "7", "8"]),
        (&["enqueue", "work", "--wait", "--resume", state], b"9\n10\n", &["9", "10"]),
    ];
    for (arguments, lines, expected) in waiting {
        queue.admin().change(&JobChange::Purge, JobState::Ready).await.unwrap();
        fixture.sql(count_again).await;
        queue.enqueue_many(&["a", "b"].map(|text| NewJob::text(text).kind("before"))).await.unwrap();
        fixture.sql(count_again).await;
        let (mut child, mut input) = started(&mut fixture.command(arguments));
        input.write_all(lines).unwrap();
        drop(input);
        let counted = format!("SELECT 1 FROM [{}].[depths] WHERE begun_at > '20000101'", fixture.schema);
        until("it has found the queue full", async || {
            let mut client = fixture.client().await;
            client.simple_query(counted.as_str()).await.unwrap().into_row().await.unwrap().is_some()
        })
        .await;
        let mut added = Vec::new();
        while added.len() < expected.len() {
            let seen = all(&queue).await;
            let new = seen.iter().filter(|job| job.kind.is_none());
            added.extend(new.map(|job| job.payload_text().unwrap().into_owned()));
            let seen: Vec<_> = seen.iter().map(|job| job.job_id).collect();
            queue.admin().change(&JobChange::Purge, seen).await.unwrap();
            fixture.sql(count_again).await;
        }
        assert_eq!(added, expected);
        assert!(child.wait().unwrap().success());
    }
}
