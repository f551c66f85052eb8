//! Payloads of every size and text of every script come back as they went in.

use readpast::admin::{CompletionPolicy, JobState, QueueOptions};
use readpast::{Handlers, NewJob, Output, Worker};
use serde::{Deserialize, Serialize};

use crate::support::{Finish, Fixture, WorkerSession, literal, text};

/// SQL Server keeps up to 8,000 bytes on the row's page and moves longer values off it; the driver and the protocol
/// change their encoding there too; in a list of jobs the driver takes up to 65,535 bytes. 5 MB are many packets.
const SIZES: [usize; 8] = [0, 1, 7_999, 8_000, 8_001, 65_535, 65_536, 5 * 1024 * 1024];

/// Bytes in which none is like its neighbours, so that a lost or doubled piece shows.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64 ^ length as u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Names and texts that somebody will use one day.
const TEXTS: [&str; 9] = [
    "O'Brien's \"quoted\" [queue]]; DROP TABLE jobs --",
    "Zoë, Łukasz, Ağaoğlu",
    "Zoe\u{308} (combining)",
    "שלום — مرحبا بالعالم",
    "漢字かな交じり文 한국어",
    "🦀🦞 👩‍👩‍👧‍👦 🏳️‍🌈",
    "\u{202E}right to left override",
    "line\r\nbreak\ttab",
    "%wild_card[a-z]{0}$(schema)",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_size_survives_enqueue_and_claim() {
    let fixture = Fixture::new("sizes").await;
    for size in SIZES {
        fixture.queue.enqueue(&NewJob::bytes(noise(size))).await.unwrap();
    }
    fixture.queue.enqueue_many(&SIZES.map(|size| NewJob::bytes(noise(size)))).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    for size in SIZES.into_iter().chain(SIZES) {
        let payload = worker.claim_one().await.payload;
        assert!(payload == noise(size), "{size} bytes went in, {} came out", payload.len());
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_size_survives_finish_and_peek() {
    let options = QueueOptions::default().completion(CompletionPolicy::Archive);
    let fixture = Fixture::with("output_sizes", options).await;
    fixture.queue.enqueue_many(&SIZES.map(|size| NewJob::bytes(noise(size)))).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(10).await;
    for job in &claimed {
        let finished = Finish { output: Some(job.payload.clone()), ..job.done() };
        assert_eq!(worker.finish_one(&finished).await, []);
    }
    let archived = fixture.queue.admin().list(&JobState::Archived.into(), None, 10).await.unwrap().jobs;
    for (job, size) in archived.iter().zip(SIZES) {
        assert!(job.payload == noise(size), "the payload of {size} bytes");
        assert!(job.output.as_deref() == Some(&noise(size)), "the output of {size} bytes");
    }
    assert_eq!(archived.len(), SIZES.len());
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_size_survives_a_worker() {
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("worker_sizes", options).await;
    fixture.queue.enqueue_many(&SIZES.map(|size| NewJob::bytes(noise(size)))).await.unwrap();
    let worker = Worker::builder(&fixture.queue, Handlers::any(|job, _| Ok(Output::bytes(job.payload()))))
        .start()
        .await
        .unwrap();
    let summary = worker.drain().await.unwrap();
    assert_eq!((summary.stats.done, summary.stats.lost), (SIZES.len() as u64, 0));
    let mut done = fixture.queue.admin().list(&JobState::Done.into(), None, 10).await.unwrap().jobs;
    done.sort_by_key(|job| job.job_id);
    for (job, size) in done.iter().zip(SIZES) {
        assert!(job.output.as_deref() == Some(&noise(size)), "the output of {size} bytes");
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_text_is_a_payload_and_a_key() {
    let fixture = Fixture::new("texts").await;
    // Keys have no control characters.
    let key = |text: &str| text.replace(['\r', '\n', '\t'], " ");
    for text in TEXTS {
        fixture.queue.enqueue(&NewJob::text(text).dedup_key(key(text))).await.unwrap();
    }
    let many = TEXTS.map(|text| NewJob::text(text).dedup_key(key(&format!("{text}2"))));
    fixture.queue.enqueue_many(&many).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    for (text, key) in
        TEXTS.map(|text| (text, key(text))).into_iter().chain(TEXTS.map(|text| (text, key(&format!("{text}2")))))
    {
        let job = worker.claim_one().await;
        assert_eq!(String::from_utf8(job.payload).unwrap(), text);
        assert_eq!(job.details["dedup_key"], key);
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_text_is_an_error() {
    let fixture = Fixture::new("errors").await;
    fixture.queue.enqueue_many(&TEXTS.map(|_| NewJob::bytes(""))).await.unwrap();
    let mut worker = WorkerSession::register(&fixture).await;
    let claimed = worker.claim(100).await;
    let finished: Vec<Finish> = claimed.iter().zip(TEXTS).map(|(job, text)| job.dead(text)).collect();
    assert_eq!(worker.finish(&finished).await, []);
    let dead = fixture.queue.admin().list(&JobState::Dead.into(), None, 100).await.unwrap().jobs;
    let errors: Vec<&str> = dead.iter().map(|job| job.error.as_deref().unwrap()).collect();
    assert_eq!(errors, TEXTS);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_text_is_the_name_of_a_queue() {
    let mut fixture = Fixture::new("names").await;
    for name in TEXTS {
        fixture.config.queue.name = name.to_string();
        let queue = fixture.connect().await;
        let unknown = queue.admin().stats(None).await.unwrap_err().to_string();
        assert!(unknown.contains(&format!("there is no queue '{name}'")), "{unknown}");
        assert!(queue.admin().create(QueueOptions::default()).await.unwrap(), "{name} is a queue of its own");
        queue.enqueue(&NewJob::text(name)).await.unwrap();
        assert_eq!(queue.admin().stats(None).await.unwrap().queue, name);
        let job = WorkerSession::register(&fixture).await.claim_one().await;
        assert_eq!(job.payload, name.as_bytes());
    }
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_from_t_sql_is_utf_16_and_read_as_json() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Invoice {
        number: u32,
        customer: String,
    }
    let options = QueueOptions::default().completion(CompletionPolicy::Annotate);
    let fixture = Fixture::with("utf16", options).await;
    let mut session = fixture.session().await;
    for customer in TEXTS {
        let json = serde_json::to_string(&Invoice { number: 4711, customer: customer.to_string() }).unwrap();
        session.sql(&format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = {}", literal(&json))).await;
    }
    let handlers = Handlers::any(|job, _| {
        let invoice: Invoice = job.json()?;
        Ok(Output::bytes(invoice.customer))
    });
    let worker = Worker::builder(&fixture.queue, handlers).start().await.unwrap();
    worker.drain().await.unwrap();
    // The session replaces $(schema), in the last of the texts too.
    let expected = TEXTS.map(|text| text.replace("$(schema)", fixture.schema()));
    let mut done = fixture.queue.admin().list(&JobState::Done.into(), None, 100).await.unwrap().jobs;
    done.sort_by_key(|job| job.job_id);
    let customers: Vec<&str> =
        done.iter().map(|job| std::str::from_utf8(job.output.as_deref().unwrap()).unwrap()).collect();
    assert_eq!(customers, expected);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_beyond_4000_characters_is_not_cut() {
    let fixture = Fixture::new("long_text").await;
    let long = "ab🦀".repeat(5_000);
    let mut session = fixture.session().await;
    session.sql(&format!("EXEC [$(schema)].[enqueue] @queue = N'work', @text = {}", literal(&long))).await;
    let row = session.row("SELECT CAST(payload AS nvarchar(max)) AS text FROM [$(schema)].[jobs]").await;
    assert!(text(&row, "text").as_deref() == Some(&long), "cut or changed");
    fixture.remove().await;
}
