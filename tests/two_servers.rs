//! Queues on two servers, worked off by one process on one thread pool: docs/scale.md, "Several databases".

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::QueueOptions;
use readpast::{Error, Handlers, NewJob, Queue, Worker};
use readpast_devserver::DevServer;
use tokio::sync::watch;

use crate::support::counted::{Runs, assert_each_once};
use crate::support::proxy::Proxy;
use crate::support::{Fixture, numbers, until};

// docs/scale.md shows this.
async fn work_off_both(urgent: &Queue, nightly: &Queue, handlers: [Handlers; 2]) -> Result<[Worker; 2], Error> {
    let [render, price] = handlers;
    let threads = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("there are threads"));
    let first = Worker::builder(urgent, render).thread_pool(threads.clone()).weight(3).start().await?;
    let second = Worker::builder(nightly, price).thread_pool(threads).start().await?;
    Ok([first, second])
}

/// Counts its runs; a job with the payload `gate` waits until it is open.
fn counting(gate: watch::Receiver<bool>) -> (Handlers, Runs) {
    let runs: Runs = Arc::new(Mutex::default());
    let noted = runs.clone();
    let handlers = Handlers::any(move |job, context| {
        if job.payload() == b"\"gate\"" {
            let mut gate = gate.clone();
            context.block_on(async { gate.wait_for(|is_open| *is_open).await.map(drop) })?;
        }
        let mut noted = noted.lock();
        let (times, attempt) = noted.entry(job.id()).or_default();
        *times += 1;
        *attempt = job.attempt().max(*attempt);
        Ok(())
    });
    (handlers, runs)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_works_for_two_servers_and_goes_on_while_one_is_away() {
    let servers = [DevServer::start().await.unwrap(), DevServer::start().await.unwrap()];
    let near = Fixture::on(&servers[0], "near", QueueOptions::default()).await;
    let far = Fixture::on(&servers[1], "far", QueueOptions::default()).await;
    let proxy = Proxy::start(far.url()).await;
    let mut far_config = far.config.clone();
    far_config.connection.url = proxy.connection_string().into();
    far_config.connection.connect_timeout = Duration::from_secs(1);
    let through_proxy = Queue::connect(&far_config).await.unwrap();

    let gate = watch::Sender::new(false);
    let (near_handlers, near_runs) = counting(gate.subscribe());
    let (far_handlers, far_runs) = counting(gate.subscribe());
    near.queue.enqueue_many(&numbers(300)).await.unwrap();
    far.queue.enqueue_many(&numbers(300)).await.unwrap();
    let workers = work_off_both(&near.queue, &through_proxy, [near_handlers, far_handlers]).await.unwrap();
    let done = |worker: usize| workers[worker].stats().done;
    until("both queues are worked off", || done(0) == 300 && done(1) == 300).await;

    // The far server goes away while a job of its runs, on one of the two threads.
    far.queue.enqueue(&NewJob::json("gate").unwrap()).await.unwrap();
    until("it runs", || workers[1].stats().running == 1).await;
    proxy.block();
    far.queue.enqueue_many(&numbers(100)).await.unwrap();
    near.queue.enqueue_many(&numbers(300)).await.unwrap();
    until("the near queue is worked off meanwhile", || done(0) == 600).await;

    // Its job ends, and the result waits for the server.
    gate.send_replace(true);
    until("it has run", || workers[1].stats().awaiting_finish == 1).await;
    near.queue.enqueue_many(&numbers(300)).await.unwrap();
    until("the near queue goes on", || done(0) == 900).await;
    assert_eq!((done(1), far_runs.lock().len()), (300, 301), "nothing comes from the server that is away");

    proxy.unblock();
    until("the far queue is worked off, too", || done(1) == 401).await;
    assert_each_once(&near_runs, 900);
    assert_each_once(&far_runs, 401);
    for worker in workers {
        let ending = tokio::time::timeout(Duration::from_secs(30), worker.shutdown());
        assert!(ending.await.expect("it ends").unwrap().ended_in_order);
    }
    near.remove().await;
    far.remove().await;
}
