//! A worker on an empty queue: what it asks of the server, how soon it starts a job that comes, and how soon it
//! acknowledges it.

use std::time::{Duration, Instant};

use readpast::config::WorkerConfig;
use readpast::{Handlers, NewJob, Queue, Worker, WorkerMonitor};
use tokio::sync::mpsc;

use super::Sizes;
use super::bench::{Bench, payload};
use super::proxy::Proxy;
use super::report::{Report, Target};

/// After this long without a job a worker is at rest.
const UNTIL_AT_REST: Duration = Duration::from_secs(2);

/// Each with one worker.
const IDLE_QUEUES: [usize; 3] = [1, 10, 100];

/// What a wake-up of an idle core costs changes from moment to moment.
const AT_REST_SAMPLES: usize = 3;

/// How often is looked whether a job is acknowledged.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

pub async fn measure(report: &mut Report, sizes: &Sizes) {
    let mut bench = Bench::start().await;
    bench.new_queue("idle").await;
    if bench.server.is_dev_server() {
        requests_at_rest(report, sizes, &bench).await;
        for queues in IDLE_QUEUES {
            server_cpu_at_rest(report, sizes, &mut bench, queues).await;
        }
    }
    let queue = bench.queue("idle").await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let config = WorkerConfig::default();
    let handlers = Handlers::any(move |_job, _context| {
        let _ = started.send(Instant::now());
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.expect("the worker starts");

    let monitor = worker.monitor();
    let mut same_process = Vec::new();
    let mut other_process = Vec::new();
    let mut acknowledged = Vec::new();
    let mut client = bench.client().await;
    for sample in 0..sizes.wake_ups {
        tokio::time::sleep(pause(2 * sample)).await;
        let (enqueued_at, started_at) = wake_up(&mut starts, queue.enqueue(&NewJob::bytes(payload()))).await;
        same_process.push(ms(started_at - enqueued_at));
        acknowledged.push(ms(until_done(&monitor, 2 * sample as u64 + 1).await - started_at));
        tokio::time::sleep(pause(2 * sample + 1)).await;
        let (enqueued_at, started_at) = wake_up(&mut starts, client.enqueue("idle", &payload())).await;
        other_process.push(ms(started_at - enqueued_at));
        acknowledged.push(ms(until_done(&monitor, 2 * sample as u64 + 2).await - started_at));
    }
    worker.shutdown().await.expect("the worker ends");
    let longest = |samples: &[f64]| samples.iter().copied().fold(0.0, f64::max);
    let target = |most| Some(Target::AtMost(most));
    let (longest_other, longest_acknowledged) = (longest(&other_process), longest(&acknowledged));
    report.add("from enqueue to start, idle worker, same process", "ms", target(5.0), same_process);
    report.add("from enqueue to start, idle worker, other process", "ms", target(10.0), other_process);
    report.add("the same, longest of all", "ms", target(25.0), vec![longest_other]);
    report.add("from the end of a run to its confirmation, idle worker", "ms", target(60.0), acknowledged);
    let measure = "from the end of a run to its confirmation, longest of all";
    report.add(measure, "ms", target(60.0), vec![longest_acknowledged]);
    bench.uninstall().await;
}

/// 0.7 to 1.3 seconds, evenly spread (the golden ratio's multiples), so that jobs come at any moment between two checks.
fn pause(number: usize) -> Duration {
    Duration::from_secs_f64(0.7 + 0.6 * (number as f64 * 0.618_033_988_75).fract())
}

/// When the job was about to be enqueued, and when it was started, which is when it ended: it does nothing.
async fn wake_up<T>(
    starts: &mut mpsc::UnboundedReceiver<Instant>,
    enqueue: impl Future<Output = T>,
) -> (Instant, Instant) {
    let enqueued_at = Instant::now();
    enqueue.await;
    (enqueued_at, starts.recv().await.expect("the worker runs"))
}

/// When so many jobs are acknowledged.
async fn until_done(monitor: &WorkerMonitor, jobs: u64) -> Instant {
    while monitor.stats().done < jobs {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Instant::now()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

async fn server_cpu_at_rest(report: &mut Report, sizes: &Sizes, bench: &mut Bench, queues: usize) {
    let mut workers = Vec::new();
    for number in 0..queues {
        let name = format!("idle {number}");
        bench.new_queue(&name).await;
        let builder = Worker::builder(&bench.queue(&name).await, Handlers::any(|_job, _context| Ok(()))).threads(1);
        workers.push(builder.start().await.expect("the worker starts"));
    }
    tokio::time::sleep(UNTIL_AT_REST).await;
    let mut shares = Vec::new();
    for _ in 0..AT_REST_SAMPLES {
        let before = bench.server.cpu();
        tokio::time::sleep(sizes.at_rest).await;
        shares.push(100.0 * (bench.server.cpu() - before).as_secs_f64() / sizes.at_rest.as_secs_f64());
    }
    for worker in workers {
        worker.shutdown().await.expect("the worker ends");
    }
    let target = (queues == 10).then_some(Target::AtMost(1.0));
    report.add(&format!("server CPU, idle workers of {queues} queues"), "% of a core", target, shares);
}

async fn requests_at_rest(report: &mut Report, sizes: &Sizes, bench: &Bench) {
    let (_, address) = bench.server.url.split_once("tcp:").expect("the dev server's connection string");
    let (address, _) = address.split_once(';').expect("the dev server's connection string");
    let proxy = Proxy::start(address.replace(',', ":")).await;
    let mut config = bench.config("idle");
    // The last of several equal keys counts.
    config.connection.url = format!("{};Server=tcp:127.0.0.1,{}", bench.server.url, proxy.port).into();
    let queue = Queue::connect(&config).await.expect("the library connects");
    let worker =
        Worker::builder(&queue, Handlers::any(|_job, _context| Ok(()))).start().await.expect("the worker starts");
    tokio::time::sleep(UNTIL_AT_REST).await;
    let before = proxy.requests();
    tokio::time::sleep(sizes.at_rest).await;
    let requests = (proxy.requests() - before) as f64;
    worker.shutdown().await.expect("the worker ends");
    let rate = vec![requests / sizes.at_rest.as_secs_f64()];
    report.add("calls of an idle worker", "per s", Some(Target::AtMost(2.0)), rate);
}
