//! Three workers of different speed on one queue with long jobs: none sits idle while another hoards rows.
//!
//! The jobs sleep, so that three workers of one thread each have a core each whatever the machine. The ideal is the
//! schedule in which the worker that is free takes the next job at once; what is measured is how much later the last
//! job ends, in units of the slowest worker's job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use readpast::config::WorkerConfig;
use readpast::{Handlers, Worker};

use super::Sizes;
use super::bench::{Bench, fill};
use super::report::{Report, Target};

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let speeds = [1, 2, 4].map(|factor| sizes.long_job * factor);
    let after_nothing = last_end(sizes, speeds, 0).await;
    let after_tiny = last_end(sizes, speeds, sizes.tiny_before_long).await;
    let target = Some(Target::AtMost(1.0));
    let measure = "three workers, long jobs: last end after the ideal, in the slowest's job times";
    report.add(measure, "jobs", target, vec![after_nothing]);
    let measure =
        format!("the same after {} tiny jobs, which make every worker claim far ahead", sizes.tiny_before_long);
    report.add(&measure, "jobs", target, vec![after_tiny]);
}

/// By how much the last of `long_jobs` ends later than it could, in run times of the slowest worker.
async fn last_end(sizes: &Sizes, speeds: [Duration; 3], tiny: u64) -> f64 {
    let bench = Bench::start().await;
    let queue = bench.new_queue("fairness").await;
    let long = sizes.long_jobs as usize;
    let tiny_left = Arc::new(AtomicUsize::new(tiny as usize));
    let long_left = Arc::new(AtomicUsize::new(long));
    // Whichever job comes: the first ones are tiny, the others are long. The order of claims is that of the queue.
    fill(&queue, tiny + sizes.long_jobs).await;
    let mut workers = Vec::new();
    let (times, mut ends) = tokio::sync::mpsc::unbounded_channel();
    for speed in speeds {
        let (tiny_left, long_left, times) = (tiny_left.clone(), long_left.clone(), times.clone());
        let mut config = WorkerConfig::default();
        config.threads = 1;
        let own = bench.queue("fairness").await;
        let handlers = Handlers::any(move |_job, _context| {
            let is_tiny =
                tiny_left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok();
            if !is_tiny {
                let _ = times.send(Instant::now());
                std::thread::sleep(speed);
                long_left.fetch_sub(1, Ordering::AcqRel);
                let _ = times.send(Instant::now());
            }
            Ok(())
        });
        let started = Worker::builder(&own, handlers).config(&config).start();
        workers.push(started.await.expect("the worker starts"));
    }
    let mut seen = Vec::new();
    while seen.len() < 2 * long {
        seen.push(ends.recv().await.expect("the workers run"));
    }
    for worker in workers {
        worker.shutdown().await.expect("the worker ends");
    }
    bench.uninstall().await;
    let first_start = seen.iter().min().expect("jobs ran");
    let last_end = seen.iter().max().expect("jobs ran");
    let took = last_end.duration_since(*first_start);
    let late = took.saturating_sub(ideal(speeds, long));
    late.as_secs_f64() / speeds[2].as_secs_f64()
}

/// When the last job ends where the worker that is free takes the next.
fn ideal(speeds: [Duration; 3], jobs: usize) -> Duration {
    let mut free_at = [Duration::ZERO; 3];
    let mut last = Duration::ZERO;
    for _ in 0..jobs {
        let next = (0..3).min_by_key(|&worker| free_at[worker] + speeds[worker]).expect("three workers");
        free_at[next] += speeds[next];
        last = last.max(free_at[next]);
    }
    last
}
