//! `work --nice` and `--cpus`.

use readpast::NewJob;

use crate::worker_process::WorkFixture;

const SHOW: &str = "nice; grep Cpus_allowed_list: /proc/self/status | cut -f 2";

/// The last CPU that this process may use.
fn last_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().rsplit([',', '-']).next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_have_the_priority_and_the_cpus() {
    let (work, cpu) = (WorkFixture::new("placed").await, last_cpu());
    let job = work.enqueue(NewJob::text("")).await;
    work.drain(&["--nice", "7", "--cpus", &cpu, "--shell", SHOW]).ok();
    assert_eq!(work.output(job).await, format!("7\n{cpu}\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_stay_have_them_too() {
    let (work, cpu) = (WorkFixture::new("placed_kept").await, last_cpu());
    let job = work.enqueue(NewJob::text("")).await;
    let answer = format!("set -- $({SHOW}); read line; echo '{{{{\"job_id\":{job},\"output_text\":\"'$1 $2'\"}}'");
    work.drain(&["--nice", "7", "--cpus", &cpu, "--keep", "--", "sh", "-c", &answer]).ok();
    assert_eq!(work.output(job).await, format!("7 {cpu}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cpus_that_the_process_may_not_use_are_refused() {
    let work = WorkFixture::new("no_cpu").await;
    let run = work.drain(&["--cpus", "1023", "--", "true"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--cpus: this process may not use CPU 1023, only "), "{}", run.stderr);
}
