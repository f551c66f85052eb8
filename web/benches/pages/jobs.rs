//! A queue with so many jobs, in all states.

use std::collections::HashMap;

use readpast::admin::{JobFilter, JobState, QueueOptions};
use readpast::crates::tiberius::{Client, Config as DriverConfig};
use readpast::{Config, NewBatch, NewJob, Queue};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

pub const QUEUE: &str = "images";

/// So many are enqueued or changed by one statement.
const AT_ONCE: u64 = 10_000;

/// Which part of the jobs is in each state; the rest is ready. A hundredth waits in groups, and a thousand at the most
/// are claimed.
const PARTS: [(&str, u64); 5] = [("scheduled", 10), ("dead", 20), ("cancelled", 10), ("done", 10), ("archived", 10)];

pub async fn schema(url: &str, schema: &str) -> Queue {
    let mut config = Config::default();
    config.connection.url = url.into();
    config.connection.schema = schema.to_owned();
    config.queue.name = QUEUE.to_owned();
    let queue = Queue::connect(&config).await.expect("the library connects");
    queue.admin().install().await.expect("the schema is installed");
    queue.admin().create(QueueOptions::default()).await.expect("the queue is created");
    queue
}

async fn client(url: &str) -> Client<Compat<TcpStream>> {
    let config = DriverConfig::from_ado_string(url).expect("a connection string");
    let socket = TcpStream::connect(config.get_addr()).await.expect("the server listens");
    Client::connect(config, socket.compat_write()).await.expect("it lets us in")
}

/// Enqueues `count` jobs and brings parts of them into the states, by statements of its own: as workers, millions would
/// take an hour.
pub async fn fill(queue: &Queue, url: &str, count: u64) {
    let before = queue.admin().stats(None).await.expect("the queue exists");
    let first = before.not_done() + before.done + before.archived + 1;
    let waiting = count / 100;
    let mut left = count;
    while left > 0 {
        let now = left.min(AT_ONCE);
        let new = |number: u64| {
            let job = NewJob::text(format!(r#"{{"image":{number},"to":"/var/images/{number}.jpeg","width":1200}}"#));
            let job = job.kind(["resize", "blur", "encode"][number as usize % 3]);
            // The last ones have groups of a hundred, of which one is ready and the others wait.
            if left - number <= waiting { job.group_key(format!("album {}", (left - number) / 100)) } else { job }
        };
        let jobs: Vec<NewJob> = (0..now).map(new).collect();
        queue.enqueue_many(&jobs).await.expect("jobs are enqueued");
        left -= now;
    }
    let mut client = client(url).await;
    let mut from = first;
    for (state, percent) in PARTS {
        let end = from + count * percent / 100;
        while from < end {
            let to = (from + AT_ONCE).min(end);
            let statement = statement(queue.schema(), state, from, to);
            let answer = client.simple_query(statement.as_str()).await.expect(&statement);
            answer.into_results().await.expect(&statement);
            from = to;
        }
    }
    let to = from + (count / 100).min(1_000);
    let statement = statement(queue.schema(), "claimed", from, to);
    client.simple_query(statement.as_str()).await.expect(&statement).into_results().await.expect(&statement);
    for number in 0..(count / 100).min(200) {
        let batch = NewBatch::new().name(format!("album {number}"));
        queue.create_batch(&batch).await.expect("a batch is created");
    }
}

fn statement(schema: &str, state: &str, from: u64, to: u64) -> String {
    let which = format!("WHERE job_id >= {from} AND job_id < {to}");
    let ended = "attempt = 3, fence = 3, worker_id = '67e55044-10b1-426f-9247-bb680e5fe0c8', ended = 1, \
                 claimed_at = DATEADD(SECOND, -2, enqueued_at), run_us = 1500000, \
                 finished_at = DATEADD(MILLISECOND, CAST(job_id % 1000000 AS int), enqueued_at)";
    let jobs = format!("[{schema}].[jobs]");
    match state {
        "scheduled" => format!("UPDATE {jobs} SET state = 1, due_at = DATEADD(DAY, 1, due_at) {which}"),
        "claimed" => format!(
            "UPDATE {jobs} SET state = 2, fence = 1, attempt = 1, claimed_at = enqueued_at, \
             worker_id = '67e55044-10b1-426f-9247-bb680e5fe0c8' {which}"
        ),
        "dead" => format!(
            "UPDATE {jobs} SET state = 4, {ended}, error = CONCAT(N'cannot read image ', job_id, N' of disk ', \
             job_id % 7, N': the disk is ', CASE job_id % 3 WHEN 0 THEN N'gone' WHEN 1 THEN N'full' ELSE N'slow' END) \
             {which}"
        ),
        "cancelled" => format!("UPDATE {jobs} SET state = 5, {ended}, error = N'nobody wants it' {which}"),
        "done" => format!("UPDATE {jobs} SET state = 3, {ended}, output = 0x7B7D {which}"),
        "archived" => {
            let columns = "job_id, queue_id, priority, attempt, fence, enqueued_at, due_at, correlation_id, kind, \
                           dedup_key, payload_utf16, payload, error, output";
            format!(
                "INSERT [{schema}].[archive] ({columns}, worker_id, claimed_at, finished_at, run_us) \
                 SELECT {columns}, '67e55044-10b1-426f-9247-bb680e5fe0c8', enqueued_at, \
                 DATEADD(MILLISECOND, CAST(job_id % 1000000 AS int), enqueued_at), 1500000 FROM {jobs} {which}; \
                 DELETE {jobs} {which}"
            )
        }
        other => panic!("no statement brings jobs into the state {other}"),
    }
}

/// A place in the middle of each state that has several pages.
pub async fn middles(queue: &Queue) -> HashMap<JobState, String> {
    const IDS: usize = 10_000;
    let stats = queue.admin().stats(None).await.expect("the queue exists");
    let counts = [
        (JobState::Ready, stats.ready),
        (JobState::Scheduled, stats.scheduled),
        (JobState::Waiting, stats.waiting),
        (JobState::Dead, stats.dead),
        (JobState::Cancelled, stats.cancelled),
        (JobState::Done, stats.done),
        (JobState::Archived, stats.archived),
    ];
    let mut middles = HashMap::new();
    for (state, count) in counts {
        let (mut seen, mut after) = (0, None);
        while seen < count / 2 {
            let some = IDS.min((count / 2 - seen) as usize);
            let page =
                queue.admin().list_ids(&JobFilter::from(state), after.as_ref(), some).await.expect("a page of ids");
            seen += page.jobs.len() as u64;
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        middles
            .extend(after.map(|after| (state, readpast::crates::serde_json::to_string(&after).expect("plain values"))));
    }
    middles
}
