//! `work`: what programs have used is kept with their jobs.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use readpast::NewJob;
use readpast::admin::JobState;

use crate::worker_process::WorkFixture;

/// A shell script that starts Python programs: what it has used includes them. `$1`: seconds of CPU time.
const BURN: &str = "
import sys, time
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end: pass
memory = b'x' * (int(sys.argv[2]) << 20)
";

/// What /usr/bin/time says of a command: seconds of CPU time, and bytes.
fn timed(arguments: &[&str]) -> Option<(f64, u64)> {
    let mut command = Command::new("/usr/bin/time");
    command.args(["-f", "%U %S %M"]).args(arguments).process_group(0);
    let output = command.stdout(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stderr).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    Some((numbers[0] + numbers[1], numbers[2] as u64 * 1024))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_has_used_is_what_the_system_s_own_tool_says() {
    let work = WorkFixture::new("usage").await;
    // 100 MiB more than this worker has itself.
    let sizes: Vec<u32> = (0..10).map(|number| 150 + 20 * number).collect();
    let mut jobs = Vec::new();
    for size in &sizes {
        jobs.push(work.enqueue(NewJob::text(size.to_string())).await);
    }
    // The shell waits for its child.
    let script = "python3 -c \"$0\" 0.1 $1; exit 0";
    work.drain(&["--", "sh", "-c", script, BURN, "{text}"]).ok();
    for (job, size) in jobs.into_iter().zip(sizes) {
        let usage = work.row(job).await.usage;
        let (cpu, peak) = (usage.cpu.unwrap().as_secs_f64(), usage.peak_memory.unwrap());
        assert!(cpu >= 0.1 && peak >= u64::from(size) << 20, "{usage:?}");
        let Some((timed_cpu, timed_peak)) = timed(&["sh", "-c", script, BURN, &size.to_string()]) else { continue };
        // Another run of the same program: the start of Python differs a little.
        assert!((cpu - timed_cpu).abs() < 0.05, "{cpu} s, and {timed_cpu} s by the tool");
        assert!(peak.abs_diff(timed_peak) < 4 << 20, "{peak} bytes, and {timed_peak} bytes by the tool");
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

/// The payload: milliseconds of CPU time, milliseconds of sleep, MiB.
const KEPT: &str = "
import json, sys, time
for line in sys.stdin:
    job = json.loads(line)
    burn, sleep, memory = map(int, job['payload_text'].split())
    end = time.process_time() + burn / 1000
    while time.process_time() < end: pass
    time.sleep(sleep / 1000)
    data = b'x' * (memory << 20)
    del data
    if burn == 301: sys.exit(3)
    print(json.dumps({'job_id': job['job_id']}), flush=True)
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
    for job in jobs {
        usages.push(work.row(job).await.usage);
    }
    let cpu = |place: usize| usages[place].cpu.unwrap();
    let ms = Duration::from_millis;
    // The first job includes the start of Python.
    assert!(cpu(0) >= ms(280) && cpu(0) < ms(550), "{usages:?}");
    assert!(cpu(1) < ms(100), "{usages:?}");
    assert!(cpu(2) >= ms(80) && cpu(2) < ms(190), "{usages:?}");
    assert!(cpu(3) >= ms(280) && cpu(3) < ms(500), "it exits without a reply: {usages:?}");
    // The peak of the job, not of the program's life.
    let peak = |place: usize| usages[place].peak_memory.unwrap() >> 20;
    assert!((300..400).contains(&peak(0)) && (100..200).contains(&peak(2)), "{usages:?}");
}
