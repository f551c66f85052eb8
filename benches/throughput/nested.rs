//! One job that is parallel inside, while there is nothing else to do: every core works for it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use readpast::{Handlers, NewJob, Worker};

use super::bench::{Bench, payload};
use super::report::{Report, Target};
use super::work::Work;
use super::{Sizes, cores};

const PIECES: u32 = 200;

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let bench = Bench::start().await;
    let queue = bench.new_queue("nested").await;
    let work = Work::lasting(Duration::from_millis(2));
    let (mut threads_used, mut shares) = (Vec::new(), Vec::new());
    for _ in 0..sizes.rounds {
        let bare = super::share::bare_rayon(work, PIECES.into());
        let (ended, mut results) = tokio::sync::mpsc::unbounded_channel();
        let handlers = Handlers::any(move |_job, _context| {
            let threads = Arc::new(Mutex::new(HashSet::new()));
            let started_at = Instant::now();
            (0..PIECES).into_par_iter().with_max_len(1).for_each(|_| {
                work.run();
                threads.lock().expect("no piece panics").insert(rayon::current_thread_index());
            });
            let used = threads.lock().expect("no piece panics").len();
            let _ = ended.send((used, started_at.elapsed()));
            Ok(())
        });
        let worker = Worker::builder(&queue, handlers).start().await.expect("the worker starts");
        queue.enqueue(&NewJob::bytes(payload())).await.expect("a job is enqueued");
        let (used, wall) = results.recv().await.expect("the job ends");
        worker.shutdown().await.expect("the worker ends");
        threads_used.push(used as f64 / cores() as f64);
        shares.push(bare.wall.as_secs_f64() / wall.as_secs_f64());
    }
    report.add(
        "one job with par_iter: share of the cores that took part",
        "",
        Some(Target::AtLeast(1.0)),
        threads_used,
    );
    report.add("one job with par_iter: share of bare rayon's speed", "", Some(Target::AtLeast(0.9)), shares);
    bench.uninstall().await;
}
