//! `stats`: queues in numbers, as a table and as JSON.

use std::time::Duration;

use readpast::admin::QueueOptions;
use readpast::{Handlers, NewJob, Usage, Worker};

use crate::support::{Fixture, run};

#[tokio::test(flavor = "multi_thread")]
async fn all_queues_or_one_as_a_table_and_as_json() {
    let fixture = Fixture::new("stats").await;
    let queue = fixture.queue("work").await;
    queue.enqueue_many(&vec![NewJob::text("x"); 1_234]).await.unwrap();
    let other = fixture.queue("nights").await;
    other.admin().create(QueueOptions::default()).await.unwrap();
    other.admin().pause().await.unwrap();
    let later = NewJob::text("x").delay(Duration::from_secs(3_600));
    other.enqueue(&later).await.unwrap();
    let table = fixture.run(&["stats"]).ok();
    // However many characters the age has, and so the room behind it.
    insta::with_settings!({filters => [(r"\b(\d+(\.\d+)?(ms|s)|1m \d+s) +", "<age>  ")]}, {
        insta::assert_snapshot!(table);
    });
    let one = fixture.run(&["stats", "work"]).ok();
    assert!(one.contains("work") && !one.contains("nights"), "{one}");
    assert!(fixture.run(&["stats", "none"]).failed(3).contains("none"));

    // The object of the library, and beside it the rates and what limits the workers.
    let mut row = fixture.run(&["stats", "nights", "--json"]).json().remove(0);
    assert_eq!([row["done_per_s"].as_f64(), row["failed_per_s"].as_f64()], [Some(0.0); 2], "nobody works");
    let rates = row.as_object_mut().unwrap();
    rates.remove("done_per_s");
    rates.remove("failed_per_s");
    assert_eq!(rates.remove("limits"), Some(serde_json::json!([])), "nobody works");
    assert_eq!(row, serde_json::to_value(other.admin().stats(None).await.unwrap()).unwrap());
    assert_eq!(fixture.run(&["stats", "--json"]).json().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_is_what_the_workers_report() {
    let fixture = Fixture::new("stats_rate").await;
    let queue = fixture.queue("work").await;
    let mut config = fixture.config("work").worker;
    config.heartbeat_interval = Duration::from_millis(100);
    let worker = Worker::builder(&queue, Handlers::any(|_, _| Ok(()))).config(&config).start().await.unwrap();
    // Until it has reported a rate; each turn gives it something to do.
    let rate = loop {
        queue.enqueue_many(&vec![NewJob::text("x"); 100]).await.unwrap();
        let row = fixture.run(&["stats", "work", "--json"]).json().remove(0);
        if let Some(rate) = row["done_per_s"].as_f64().filter(|rate| *rate > 0.0) {
            break rate;
        }
    };
    assert!(rate < 1e6, "{rate}");
    // A worker's login may ask for the counts, and not for what others do.
    let login = fixture.login(Some("worker")).await;
    let row = run(&mut fixture.command_as(&login, &["stats", "work", "--json"])).json().remove(0);
    assert!(row["workers"] == 1 && row["done_per_s"].is_null(), "{row}");
    worker.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kinds_of_a_queue_as_a_table_and_as_json() {
    let fixture = Fixture::new("stats_kinds").await;
    let queue = fixture.queue("work").await;
    let scan = NewJob::text("x").kind("scan");
    queue.enqueue_many(&[scan.clone(), NewJob::text("x")]).await.unwrap();
    let handlers = Handlers::any(|job, context| {
        if job.kind().is_some() {
            let usage = Usage { cpu: Some(Duration::from_secs(90)), peak_memory: Some(3 << 29) };
            context.report_usage(usage);
        }
        Ok(())
    });
    Worker::builder(&queue, handlers).start().await.unwrap().drain().await.unwrap();
    queue.enqueue(&scan).await.unwrap();
    let table = fixture.run(&["stats", "work", "--by-kind"]).ok();
    let lines: Vec<String> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines[0].starts_with("KIND READY") && lines[1].starts_with("(none) 0"), "{table}");
    assert!(lines[2].starts_with("scan 1 0 0 0 1 0 0 "), "{table}");
    assert!(lines[2].ends_with(" 1m 30s 1m 30s 1m 30s 1m 30s 1.5 GiB 1.5 GiB 1.5 GiB"), "{table}");
    let rows = queue.admin().kinds(Duration::from_secs(1)).await.unwrap();
    let json = serde_json::to_value(&rows).unwrap();
    assert_eq!(serde_json::Value::from(fixture.run(&["stats", "work", "--by-kind", "--json"]).json()), json);
    assert_eq!((&json[1]["cpu_s"], &json[1]["peak_memory_p95_bytes"]), (&90.0.into(), &(3_u64 << 29).into()));
    assert!(fixture.run(&["stats", "--by-kind"]).failed(2).contains("<QUEUE>"));
}
