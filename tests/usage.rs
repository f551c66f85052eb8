//! What an attempt has used is known afterwards, wherever its job stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::{CompletionPolicy, JobRow, JobState, QueueOptions};
use readpast::{BoxError, Context, Handlers, Job, JobError, JobId, NewJob, Output, Usage, Worker};

use crate::support::{Claimed, Fixture, WorkerSession, changed};

fn keeping() -> QueueOptions {
    QueueOptions::default().completion(CompletionPolicy::Annotate)
}

fn used(cpu_us: u64, peak_memory: u64) -> Usage {
    Usage { cpu: Some(Duration::from_micros(cpu_us)), peak_memory: Some(peak_memory) }
}

async fn row(fixture: &Fixture, job_id: i64) -> JobRow {
    fixture.queue.admin().job(JobId(job_id), None).await.unwrap().expect("the queue keeps it")
}

/// Runs the queue's jobs on one thread.
async fn run<F>(fixture: &Fixture, handler: F)
where
    F: Fn(&Job, &Context) -> Result<Output, BoxError> + Send + Sync + 'static,
{
    let config = changed(fixture.config.worker.clone(), |worker| {
        worker.threads = 1;
        worker.look_ahead = 4;
        worker.retry.base = Duration::ZERO;
        worker.retry.max = Duration::ZERO;
    });
    let worker = Worker::builder(&fixture.queue, Handlers::any(handler)).config(&config).start().await.unwrap();
    worker.drain().await.unwrap();
}

/// Keeps this thread busy for about this much CPU time. (A thread that others displace takes longer.)
fn burn(cpu: Duration) {
    let clock = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
    };
    let begun = clock();
    while clock() - begun < cpu {
        (0..1_000).for_each(|_| std::hint::spin_loop());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_cpu_time_of_a_handler_is_without_its_waits() {
    let fixture = Fixture::with("usage_cpu", keeping()).await;
    let job_id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    run(&fixture, |_, _| {
        burn(Duration::from_millis(300));
        std::thread::sleep(Duration::from_millis(300));
        Ok(Output::default())
    })
    .await;
    let done = row(&fixture, job_id.0).await;
    let (cpu, run) = (done.usage.cpu.unwrap(), done.run.unwrap());
    assert!(cpu >= Duration::from_millis(295) && cpu + Duration::from_millis(250) < run, "{cpu:?} of {run:?}");
    assert_eq!(done.usage.peak_memory, None, "nobody can tell");
    let json = serde_json::to_value(&done).unwrap();
    assert!(json["cpu_s"].as_f64().unwrap() >= 0.295 && json["peak_memory_bytes"].is_null());
    fixture.remove().await;
}

/// The pool has one thread: the second job runs while the first one waits in rayon, on the same stack.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_runs_inside_of_another_is_not_counted_for_it() {
    let fixture = Fixture::with("usage_nested", keeping()).await;
    let jobs = fixture.queue.enqueue_many(&[NewJob::text("outer"), NewJob::text("inner")]).await.unwrap();
    let has_run = Arc::new(AtomicBool::new(false));
    run(&fixture, move |job, _| {
        if job.text()? == "inner" {
            burn(Duration::from_millis(300));
            has_run.store(true, Ordering::Release);
        } else {
            burn(Duration::from_millis(100));
            let give_up = Instant::now() + Duration::from_secs(30);
            while !has_run.load(Ordering::Acquire) {
                assert!(Instant::now() < give_up, "the other job runs meanwhile");
                if rayon::yield_now() != Some(rayon::Yield::Executed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(Output::default())
    })
    .await;
    let outer = row(&fixture, jobs[0].job_id.0).await.usage.cpu.unwrap();
    let inner = row(&fixture, jobs[1].job_id.0).await.usage.cpu.unwrap();
    assert!(inner >= Duration::from_millis(295), "{inner:?}");
    assert!(outer >= Duration::from_millis(95) && outer < Duration::from_millis(295), "{outer:?}");
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_counts_instead_of_what_the_worker_measures_and_failed_attempts_keep_theirs() {
    for completion in [CompletionPolicy::Delete, CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("usage_report", QueueOptions::default().completion(completion)).await;
        let jobs = [NewJob::text("done"), NewJob::text("dead").max_attempts(2), NewJob::text("unknown")];
        let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
        run(&fixture, |job, context| {
            let attempt = u64::from(context.attempt());
            context.report_usage(used(1, 1));
            context.report_usage(used(attempt * 7_000_000, attempt << 30));
            match job.text()?.as_ref() {
                "done" if attempt == 1 => Err(JobError::retry("once more").into()),
                "dead" if attempt == 2 => panic!("no more"),
                "dead" => Err(JobError::retry("once more").into()),
                "unknown" => {
                    context.report_usage(Usage::default());
                    Err(JobError::dead("nobody knows").into())
                }
                _ => Ok(Output::default()),
            }
        })
        .await;
        let [done, dead, unknown] = [0, 1, 2].map(|place: usize| jobs[place].job_id);
        if completion == CompletionPolicy::Delete {
            assert_eq!(fixture.queue.admin().job(done, None).await.unwrap(), None);
        } else {
            assert_eq!(row(&fixture, done.0).await.usage, used(14_000_000, 2 << 30), "{completion:?}");
            let failed = fixture.queue.admin().attempts(done).await.unwrap();
            assert_eq!(failed.iter().map(|one| one.usage).collect::<Vec<_>>(), [used(7_000_000, 1 << 30)]);
        }
        let failed = fixture.queue.admin().attempts(dead).await.unwrap();
        let expected = [used(7_000_000, 1 << 30), used(14_000_000, 2 << 30)];
        assert_eq!(failed.iter().map(|one| one.usage).collect::<Vec<_>>(), expected, "{completion:?}");
        let json = serde_json::to_value(&failed[0]).unwrap();
        assert_eq!((json["cpu_s"].as_f64(), json["peak_memory_bytes"].as_u64()), (Some(7.0), Some(1 << 30)));
        assert_eq!(row(&fixture, dead.0).await.usage, used(14_000_000, 2 << 30));
        assert_eq!(row(&fixture, unknown.0).await.usage, Usage::default(), "not what the worker has measured");
        fixture.remove().await;
    }
}

/// An output that is sent by `finish_one`, and a follow-up, by `finish_with`.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_output_and_a_follow_up_take_the_usage_along() {
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("usage_large", QueueOptions::default().completion(completion)).await;
        let jobs = [NewJob::text("large"), NewJob::text("follow-up"), NewJob::text("both")];
        let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
        let queue = fixture.config.queue.name.clone();
        run(&fixture, move |job, context| {
            context.report_usage(used(5, 6));
            let text = job.text()?;
            let output = if text == "large" || text == "both" { vec![1; 100_000] } else { vec![1] };
            let output = Output::bytes(output);
            Ok(if text == "follow-up" || text == "both" {
                output.enqueue(queue.clone(), NewJob::text("more"))
            } else {
                output
            })
        })
        .await;
        for job in jobs {
            let row = row(&fixture, job.job_id.0).await;
            assert_eq!((row.usage, row.output.is_some()), (used(5, 6), true), "{completion:?}");
        }
        fixture.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_moved_takes_its_usage_along() {
    let fixture = Fixture::new("usage_moved").await;
    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'large'").await;
    let jobs = [NewJob::text("large"), NewJob::text("large").dedup_key("key"), NewJob::text("nowhere")];
    let jobs = fixture.queue.enqueue_many(&jobs).await.unwrap();
    run(&fixture, |job, context| {
        context.report_usage(used(5, 6));
        Err(JobError::move_to(job.text()?, "too large").into())
    })
    .await;
    let in_jobs = "SELECT COUNT(*) FROM [$(schema)].[jobs] WHERE cpu_us = 5 AND peak_bytes = 6";
    assert_eq!(fixture.session().await.number(in_jobs).await, 3);
    let in_attempts = in_jobs.replace("[jobs]", "[attempts]");
    assert_eq!(fixture.session().await.number(&in_attempts).await, 3);
    assert_eq!(row(&fixture, jobs[2].job_id.0).await.state, JobState::Dead, "there is no such queue");

    fixture.sql("EXEC [$(schema)].[create_queue] @queue = N'work', @dead_queue = N'large'").await;
    fixture.queue.enqueue(&NewJob::text("dies")).await.unwrap();
    run(&fixture, |_, context| {
        context.report_usage(used(5, 6));
        Err(JobError::dead("no use").into())
    })
    .await;
    assert_eq!(fixture.session().await.number(in_jobs).await, 4);
    assert_eq!(fixture.session().await.number(&in_attempts).await, 4);
    fixture.remove().await;
}

/// A call of `procedure` for one job, with what its run used.
fn call(procedure: &str, worker: &WorkerSession, queue: &str, job: &Claimed, outcome: u8, error: &str) -> String {
    let Claimed { job_id, fence, .. } = *job;
    let id = worker.id;
    if procedure == "finish_one" {
        return format!(
            "DECLARE @error nvarchar(4000) = {error};
             EXEC [$(schema)].[finish_one] @queue = N'{queue}', @worker_id = '{id}', @job_id = {job_id}, @fence = {fence},
                 @outcome = {outcome}, @error = @error, @cpu_us = 9, @peak_bytes = 10;"
        );
    }
    format!(
        "DECLARE @jobs [$(schema)].[finish_list], @used [$(schema)].[usage_list];
         INSERT @jobs (job_id, fence, outcome, error) VALUES ({job_id}, {fence}, {outcome}, {error});
         INSERT @used (job_id, cpu_us, peak_bytes) VALUES ({job_id}, 9, 10), ({job_id} + 1000, 99, 99);
         EXEC [$(schema)].[{procedure}] @queue = N'{queue}', @worker_id = '{id}', @jobs = @jobs, @used = @used;"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_procedure_that_finishes_takes_what_was_used() {
    for completion in [CompletionPolicy::Annotate, CompletionPolicy::Archive] {
        let fixture = Fixture::with("usage_calls", QueueOptions::default().completion(completion)).await;
        let queue = fixture.config.queue.name.clone();
        let mut worker = WorkerSession::register(&fixture).await;
        // The second error is cut within a character, which `finish_mended` repairs.
        for error in ["N'no paper'", "N'no' + NCHAR(55357)"] {
            for procedure in ["finish", "finish_with", "finish_one"] {
                for outcome in [0, 1, 2] {
                    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
                    let job = worker.claim_one().await;
                    let sql =
                        call(procedure, &worker, &queue, &job, outcome, if outcome == 0 { "NULL" } else { error });
                    worker.session.sql(&sql).await;
                    let what = format!("{completion:?} {procedure} {outcome} {error}");
                    assert_eq!(row(&fixture, job.job_id).await.usage, used(9, 10), "{what}");
                    let failed = fixture.queue.admin().attempts(JobId(job.job_id)).await.unwrap();
                    let expected = if outcome == 0 { vec![] } else { vec![used(9, 10)] };
                    assert_eq!(failed.iter().map(|one| one.usage).collect::<Vec<_>>(), expected, "{what}");
                    if outcome == 1 {
                        // A run of which nothing is known does not show what an earlier one has used.
                        let again = worker.claim_one().await;
                        worker.finish(&[again.done()]).await;
                        assert_eq!(row(&fixture, job.job_id).await.usage, Usage::default(), "{what}");
                    }
                }
            }
        }
        let listed = fixture.queue.admin().list(&JobState::Dead.into(), None, 10).await.unwrap();
        assert!(listed.jobs.iter().all(|job| job.usage == used(9, 10)));
        fixture.remove().await;
    }
}

/// What a worker in another language writes may be nonsense; it does not make a list unreadable.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_counts_as_unknown() {
    let fixture = Fixture::with("usage_nonsense", keeping()).await;
    let queue = fixture.config.queue.name.clone();
    fixture.queue.enqueue(&NewJob::text("x")).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let job = worker.claim_one().await;
    let sql = call("finish_one", &worker, &queue, &job, 0, "NULL").replace("@peak_bytes = 10", "@peak_bytes = -10");
    worker.session.sql(&sql).await;
    assert_eq!(row(&fixture, job.job_id).await.usage, Usage { peak_memory: None, ..used(9, 0) });
    fixture.remove().await;
}
