//! The producer: alternately faster and slower than the workers.

use std::time::Duration;

use readpast::admin::Schedule;
use readpast::{NewJob, Queue, WorkerMonitor};

use super::handlers::Order;

/// How often the producer enqueues.
const EVERY: Duration = Duration::from_millis(250);

/// For this many turns (ten seconds) the producer enqueues more jobs than are processed, and for the same time fewer.
const TIDE: u64 = 40;

/// The minimum number of jobs per turn.
const FEWEST: u64 = 5;

/// With this many ready jobs, the producer pauses.
const MOST_READY: u64 = 5_000;

/// The customers of the orders. In the queue `hash`, some customers are groups.
const CUSTOMERS: [&str; 6] = ["Ada", "Brian", "Chen", "Dora", "Emeka", "Frida"];

/// An audit every fifteen seconds.
pub fn schedule() -> Schedule {
    let order = Order { number: 0, customer: "all".to_owned() };
    let job = NewJob::json(&order).expect("an order is JSON").kind("audit");
    Schedule::new("audit", "*/15 * * * * *", job)
}

/// Enqueues until aborted.
pub async fn run(queue: Queue, worker: WorkerMonitor) {
    let mut number = 0;
    let mut done_before = 0;
    let mut turns = tokio::time::interval(EVERY);
    for turn in 0.. {
        turns.tick().await;
        let done = worker.stats().done;
        let finished = done - std::mem::replace(&mut done_before, done);
        let is_flood = (turn / TIDE).is_multiple_of(2);
        let jobs = if is_flood { finished * 3 / 2 } else { finished / 2 }.max(FEWEST);
        // After an error, nothing is enqueued. The screen shows the error, because it asks the same server.
        let ready = queue.admin().stats(None).await.map_or(MOST_READY, |stats| stats.ready);
        if ready >= MOST_READY {
            continue;
        }
        let jobs: Vec<NewJob> = (number..number + jobs).filter_map(|number| order(queue.name(), number)).collect();
        number += jobs.len() as u64;
        let _ = queue.enqueue_many(&jobs).await; // likewise
    }
}

fn order(queue: &str, number: u64) -> Option<NewJob> {
    let customer = CUSTOMERS[number as usize % CUSTOMERS.len()];
    let job = NewJob::json(&Order { number, customer: customer.to_owned() }).ok()?;
    let job = match queue {
        // A quarter of one customer's orders.
        "hash" if number.is_multiple_of(24) => job.kind("digest").group_key(customer),
        "hash" => job.kind("digest"),
        _ if number.is_multiple_of(4) => job.kind("distinct"),
        _ => job.kind("median"),
    };
    // Some jobs are delayed.
    Some(if number % 50 == 49 { job.delay(Duration::from_secs(3)) } else { job })
}
