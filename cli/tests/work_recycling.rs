//! `work --keep --recycle-…`: programs that stay are replaced between two jobs.

use std::collections::BTreeSet;

use readpast::{JobId, NewJob};

use crate::work_memory::own_group_or_skip;
use crate::worker_process::{WorkFixture, has};

/// Says its process id and its resident memory in MiB, and leaks as many MiB a job as the payload says. Notes its start
/// and its end in a file.
const PROGRAM: &str = "
import json, os, sys, time
def note(what):
    with open('notes', 'a') as notes: notes.write(f'{what} {os.getpid()}\\n')
note('start')
held = []
for line in sys.stdin:
    job = json.loads(line)
    held.append(bytes([1]) * (int(job['payload_text']) << 20))
    resident = int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE') >> 20
    print(json.dumps({'job_id': job['job_id'], 'output_text': f'{os.getpid()} {resident}'}), flush=True)
";

/// Waits at its end until another program has started.
const WAITS_FOR_NEXT: &str = "
while sum(line.startswith('start') for line in open('notes')) < 2: time.sleep(0.01)
";

/// Waits at its end, so that a program that is started meanwhile notes it first.
const ENDS_SLOWLY: &str = "time.sleep(1)\n";

/// Runs this many jobs. Returns the process id and the resident memory in MiB that each has said.
async fn run(work: &WorkFixture, jobs: usize, mebibytes: u32, arguments: &[&str]) -> Vec<(String, u64)> {
    let jobs = enqueue(work, jobs, mebibytes).await;
    let program = format!("{PROGRAM}note('end')").replace('{', "{{");
    work.drain(&[&["--threads", "1", "--keep"], arguments, &["--", "python3", "-c", &program]].concat()).ok();
    outputs(work, jobs).await
}

async fn enqueue(work: &WorkFixture, jobs: usize, mebibytes: u32) -> Vec<JobId> {
    let jobs: Vec<_> = (0..jobs).map(|_| NewJob::text(mebibytes.to_string()).max_attempts(1)).collect();
    work.queue.enqueue_many(&jobs).await.unwrap().into_iter().map(|enqueued| enqueued.job_id).collect()
}

async fn outputs(work: &WorkFixture, jobs: Vec<JobId>) -> Vec<(String, u64)> {
    let mut outputs = Vec::new();
    for job in jobs {
        let output = work.output(job).await;
        let (process, resident) = output.split_once(' ').unwrap();
        outputs.push((process.to_owned(), resident.parse().unwrap()));
    }
    outputs
}

fn processes(outputs: &[(String, u64)]) -> BTreeSet<&str> {
    outputs.iter().map(|(process, _)| process.as_str()).collect()
}

fn notes(work: &WorkFixture) -> Vec<String> {
    let notes = std::fs::read_to_string(work.path("notes")).unwrap();
    notes.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_replaced_after_its_number_of_jobs_and_ends_in_order() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("recycle_jobs").await;
    let outputs = run(&work, 5, 0, &["--recycle-after-jobs", "2"]).await;
    let same: Vec<bool> = outputs.windows(2).map(|two| two[0].0 == two[1].0).collect();
    assert_eq!(same, [true, false, true, false]);
    // All of them have come to the end of their input.
    assert_eq!(notes(&work).iter().filter(|note| *note == "end").count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_replaced_after_its_time() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("recycle_time").await;
    let outputs = run(&work, 4, 0, &["--recycle-after", "1ms"]).await;
    assert_eq!(processes(&outputs).len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_leaks_is_replaced() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("recycle_above").await;
    let outputs = run(&work, 300, 10, &["--recycle-above", "100MiB"]).await;
    let largest = outputs.iter().map(|(_, resident)| *resident).max().unwrap();
    assert!((90..=111).contains(&largest), "{largest}");
    assert!((30..=60).contains(&processes(&outputs).len()), "{}", processes(&outputs).len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_replaced_whose_child_leaks() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("recycle_child").await;
    let jobs = enqueue(&work, 10, 40).await;
    let program = PROGRAM.replace('{', "{{");
    let arguments = ["--threads", "1", "--recycle-above", "100MiB", "--keep", "--", "sh", "-c"];
    work.drain(&[&arguments[..], &["python3 -c \"$1\"; exit", "sh", &program]].concat()).ok();
    assert!(processes(&outputs(&work, jobs).await).len() >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_successor_starts_before_its_predecessor_has_ended() {
    if !has("python3") {
        return;
    }
    let work = WorkFixture::new("recycle_before").await;
    let jobs = enqueue(&work, 1, 0).await;
    let program = format!("{PROGRAM}{WAITS_FOR_NEXT}note('end')").replace('{', "{{");
    let arguments = ["--threads", "1", "--grace", "60s", "--recycle-after-jobs", "1", "--keep", "--", "python3", "-c"];
    work.drain(&[&arguments[..], &[&program]].concat()).ok();
    assert_eq!(outputs(&work, jobs).await.len(), 1);
    assert_eq!(notes(&work), ["start", "start", "end", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_memory_is_short_the_successor_starts_after_its_predecessor_has_ended() {
    let Some(own) = own_group_or_skip().filter(|_| has("python3")) else { return };
    let limit = own.join("memory.limit_in_bytes");
    if !limit.exists() {
        return crate::worker_process::skip("a group with processes cannot have sub-groups here");
    }
    let work = WorkFixture::new("recycle_short").await;
    let jobs = enqueue(&work, 2, 300).await;
    let small = SmallGroup::new(&own, 512 << 20);
    let program = format!("{PROGRAM}{ENDS_SLOWLY}note('end')").replace('{', "{{");
    let arguments =
        ["--drain", "--threads", "1", "--recycle-after-jobs", "1", "--keep", "--", "python3", "-c", &program];
    let worker = work.command(&arguments);
    let mut command = work.fixture.command_of("sh", &["-c", "echo 0 > $0/cgroup.procs && exec \"$@\""]);
    command.current_dir(work.directory()).envs(worker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.arg(&small.0).arg(worker.get_program()).args(worker.get_args());
    crate::support::run(&mut command).ok();
    assert_eq!(processes(&outputs(&work, jobs).await).len(), 2);
    assert_eq!(notes(&work)[..4], ["start", "end", "start", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_too_large_itself_exits_with_a_code_of_its_own() {
    let work = WorkFixture::new("recycle_worker").await;
    let job = work.enqueue(NewJob::text("")).await;
    let mut command = work.command(&["--", "echo", "done"]);
    command.env("READPAST_WORKER_RECYCLE_ABOVE", "1048576");
    let run = crate::support::run(&mut command);
    assert_eq!(run.code, 11, "{run:?}");
    assert_eq!(work.output(job).await, "done\n");
}

/// A control group for a worker. It is removed when this is dropped.
struct SmallGroup(std::path::PathBuf);

impl SmallGroup {
    fn new(own: &std::path::Path, limit: u64) -> SmallGroup {
        let path = own.join(format!("test-{}", readpast::crates::uuid::Uuid::new_v4().simple()));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("memory.limit_in_bytes"), limit.to_string()).unwrap();
        SmallGroup(path)
    }
}

impl Drop for SmallGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
