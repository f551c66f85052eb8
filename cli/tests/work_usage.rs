//! `work`: what programs have used is kept with their jobs.

use std::process::{Command, Stdio};
use std::time::Duration;

use readpast::NewJob;
use readpast::admin::JobState;

use crate::worker_process::WorkFixture;

/// The arguments: seconds of CPU time, and MiB.
const BURN: &str = "
import sys, time
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end: pass
memory = b'x' * (int(sys.argv[2]) << 20)
";

/// The peak of a command's memory in bytes, by /usr/bin/time, where there is one.
fn peak_by_tool(arguments: &[&str]) -> Option<u64> {
    let mut command = Command::new("/usr/bin/time");
    let output = command.args(["-f", "%M"]).args(arguments).stdout(Stdio::null()).output().ok()?;
    Some(String::from_utf8(output.stderr).unwrap().trim().parse::<u64>().unwrap() * 1024)
}

/// The sum of the times that a shell's `times` prints: its own, and those of its children.
fn sum_of_times(printed: &str) -> f64 {
    let seconds = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    printed.split_whitespace().map(seconds).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_has_used_is_what_the_system_s_own_tools_say() {
    let work = WorkFixture::new("usage").await;
    // More than this worker has itself.
    let sizes: Vec<u32> = (0..10).map(|number| 150 + 20 * number).collect();
    let mut jobs = Vec::new();
    for size in &sizes {
        jobs.push(work.enqueue(NewJob::text(size.to_string())).await);
    }
    // The shell waits for its child.
    let script = "python3 -c \"$0\" 0.1 $1; times";
    work.drain(&["--", "sh", "-c", script, BURN, "{text}"]).ok();
    for (job, size) in jobs.into_iter().zip(sizes) {
        let usage = work.row(job).await.usage;
        let (cpu, peak) = (usage.cpu.unwrap().as_secs_f64(), usage.peak_memory.unwrap());
        let told = sum_of_times(&work.output(job).await);
        // The shell may print each of four numbers in ticks of 10 ms.
        assert!(told >= 0.07 && (told - 0.01..told + 0.06).contains(&cpu), "{cpu} s, and {told} s by the shell");
        assert!(peak >= u64::from(size) << 20, "{usage:?}");
        let Some(told) = peak_by_tool(&["sh", "-c", script, BURN, &size.to_string()]) else { continue };
        assert!(peak.abs_diff(told) < 4 << 20, "{peak} bytes, and {told} bytes by the tool");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_or_is_ended_is_counted_too() {
    let work = WorkFixture::new("usage_failed").await;
    let fails = NewJob::text("exit 3").kind("fails").max_attempts(1);
    let hangs = NewJob::text("sleep 600").kind("hangs").max_attempts(1).time_limit(Duration::from_secs(5));
    let jobs = [work.enqueue(fails).await, work.enqueue(hangs).await];
    let script = "python3 -c \"$0\" 0.2 1; $1";
    work.drain(&["--grace", "100ms", "--", "sh", "-c", script, BURN, "{text}"]).ok();
    for job in jobs {
        let row = work.row(job).await;
        assert_eq!(row.state, JobState::Dead);
        assert!(row.usage.cpu >= Some(Duration::from_millis(200)), "{row:?}");
        let attempts = work.queue.admin().attempts(job).await.unwrap();
        assert_eq!(attempts.iter().map(|one| one.usage).collect::<Vec<_>>(), [row.usage]);
        let shown = work.fixture.run(&["job", &job.to_string()]).ok();
        assert!(shown.contains("last CPU time") && shown.contains("CPU  "), "{shown}");
    }
}

/// The payload: milliseconds of CPU time, milliseconds of sleep, MiB. Answers with the CPU time since the last answer.
const KEPT: &str = "
import json, sys, time
told = 0
for line in sys.stdin:
    job = json.loads(line)
    burn, sleep, memory = map(int, job['payload_text'].split())
    end = time.process_time() + burn / 1000
    while time.process_time() < end: pass
    time.sleep(sleep / 1000)
    data = b'x' * (memory << 20)
    del data
    if burn == 301: sys.exit(3)
    used, told = time.process_time() - told, time.process_time()
    print(json.dumps({'job_id': job['job_id'], 'output_text': str(used)}), flush=True)
";

#[tokio::test(flavor = "multi_thread")]
async fn each_job_of_a_program_that_stays_has_its_own_usage() {
    let work = WorkFixture::new("usage_kept").await;
    let mut jobs = Vec::new();
    for payload in ["300 300 300", "0 0 0", "100 100 100", "301 0 0"] {
        jobs.push(work.enqueue(NewJob::text(payload).max_attempts(1)).await);
    }
    let program = KEPT.replace('{', "{{");
    work.drain(&["--keep", "--threads", "1", "--", "python3", "-u", "-c", &program]).ok();
    let mut usages = Vec::new();
    for job in &jobs {
        usages.push(work.row(*job).await.usage);
    }
    let cpu = |place: usize| usages[place].cpu.unwrap().as_secs_f64();
    for (place, job) in jobs[..3].iter().enumerate() {
        let told: f64 = work.output(*job).await.parse().unwrap();
        // Two ticks of 10 ms, and what a busy machine delays the first reading.
        assert!((told - 0.03..told + 0.15).contains(&cpu(place)), "{place}: {told}, {usages:?}");
    }
    assert!((0.28..0.5).contains(&cpu(3)), "it exits without a reply: {usages:?}");
    // The peak of the job, not of the program's life.
    let peak = |place: usize| usages[place].peak_memory.unwrap() >> 20;
    assert!((300..400).contains(&peak(0)) && (100..200).contains(&peak(2)), "{usages:?}");
}
