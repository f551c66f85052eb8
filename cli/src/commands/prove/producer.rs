//! The producer of the soak: enqueues at a steady rate, and notes what each call returned.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use readpast::{NewBatch, NewJob, Queue};
use tokio::time::sleep;

use super::ledger::{BATCHES, FOLLOW_UP, GROUPS, Ledger, Line, PLAIN, QUEUES};

/// How often the producer enqueues.
pub const TURN: Duration = Duration::from_millis(250);

/// Jobs per batch.
const MEMBERS: usize = 5;

/// Groups of the queue `groups`.
pub const GROUP_KEYS: u64 = 7;

pub struct Producer {
    queues: HashMap<&'static str, Queue>,
    ledger: Ledger,
    /// Jobs to enqueue at once, in addition to the rate.
    pub burst: Cell<u64>,
    /// Jobs of calls that failed: they may exist or not.
    pub in_doubt: Cell<u64>,
    /// The members of the next batch.
    members: RefCell<Vec<u64>>,
}

impl Producer {
    pub fn new(queue: &Queue, ledger: Ledger) -> Result<Producer> {
        let queues = QUEUES.map(|name| queue.named(name).map(|queue| (name, queue)));
        let queues = queues.into_iter().collect::<Result<_, _>>()?;
        let (burst, in_doubt, members) = (Cell::new(0), Cell::new(0), RefCell::default());
        Ok(Producer { queues, ledger, burst, in_doubt, members })
    }

    pub async fn run(&self, rate: u64, end: Instant) -> Result<()> {
        let begin = Instant::now();
        let (mut number, mut extra) = (0, 0);
        while Instant::now() < end {
            extra += self.burst.take();
            let due = (begin.elapsed().as_secs_f64() * rate as f64) as u64 + extra;
            let mut jobs: HashMap<&str, Vec<u64>> = HashMap::new();
            while number < due {
                number += 1;
                jobs.entry(QUEUES[number as usize % QUEUES.len()]).or_default().push(number);
            }
            for (queue, numbers) in jobs {
                match queue {
                    BATCHES => self.enqueue_batches(numbers).await?,
                    _ => self.enqueue(queue, numbers).await?,
                }
            }
            sleep(TURN).await;
        }
        Ok(())
    }

    async fn enqueue(&self, queue: &str, numbers: Vec<u64>) -> Result<()> {
        let key = |number: u64| match queue {
            GROUPS => format!("g{}", number / QUEUES.len() as u64 % GROUP_KEYS),
            _ => "-".to_owned(),
        };
        let job = |number: &u64| {
            let job = NewJob::text(format!("{number} {}", key(*number))).kind(queue);
            match queue {
                GROUPS => job.group_key(key(*number)),
                PLAIN if number.is_multiple_of(3) => job.delay(Duration::from_millis(300)),
                _ => job,
            }
        };
        let jobs: Vec<NewJob> = numbers.iter().map(job).collect();
        match self.queues[queue].enqueue_many(&jobs).await {
            Ok(enqueued) => {
                for (number, enqueued) in numbers.iter().zip(enqueued) {
                    self.note("enqueued", queue, enqueued.job_id.0, 0, *number, &key(*number))?;
                }
            }
            Err(_) => self.in_doubt.set(self.in_doubt.get() + jobs.len() as u64),
        }
        Ok(())
    }

    async fn enqueue_batches(&self, numbers: Vec<u64>) -> Result<()> {
        self.members.borrow_mut().extend(numbers);
        while self.members.borrow().len() >= MEMBERS {
            let numbers: Vec<u64> = self.members.borrow_mut().drain(..MEMBERS).collect();
            if self.enqueue_batch(&numbers).await.is_err() {
                self.in_doubt.set(self.in_doubt.get() + numbers.len() as u64);
            }
        }
        Ok(())
    }

    async fn enqueue_batch(&self, numbers: &[u64]) -> Result<()> {
        let queue = &self.queues[BATCHES];
        let key = format!("b{}", numbers[0]);
        let follow_up = NewJob::text(format!("0 {key}")).kind(FOLLOW_UP);
        let batch = queue.create_batch(&NewBatch::new().then(follow_up)).await?;
        let job = |number: &u64| NewJob::text(format!("{number} {key}")).kind(BATCHES).batch(batch);
        let enqueued = queue.enqueue_many(&numbers.iter().map(job).collect::<Vec<_>>()).await?;
        for (number, enqueued) in numbers.iter().zip(enqueued) {
            self.note("enqueued", BATCHES, enqueued.job_id.0, 0, *number, &key)?;
        }
        queue.seal_batch(batch).await?;
        self.note("sealed", BATCHES, batch.0, numbers.len() as i32, 0, &key)
    }

    fn note(&self, event: &str, kind: &str, job: i64, fence: i32, number: u64, key: &str) -> Result<()> {
        Ok(self.ledger.note(Line { event, kind, job, fence, worker: 0, number, key })?)
    }
}
