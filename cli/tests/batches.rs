//! `batches` and `batch`: as a shell script would use them.

use readpast::Handlers;
use serde_json::json;

use crate::support::{Fixture, snapshot};

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_filled_sealed_watched_and_followed_up() {
    let fixture = Fixture::new("batches").await;
    let create = ["batch", "create", "work", "--name", "import", "--then", "add up", "--kind", "sum", "--json"];
    let batch = fixture.run(&create).json()[0]["batch_id"].to_string();
    fixture.run_with_input(&["enqueue", "work", "--batch", &batch], b"1\n2\n3\n").ok();
    let sealed = fixture.run(&["batch", "seal", &batch]).ok();
    assert_eq!(sealed, format!("batch {batch} is sealed with 3 jobs; it completes when all have finished\n"));
    snapshot("batch_show", &fixture.run(&["batch", "show", &batch]).ok());
    let message = fixture.run(&["enqueue", "work", "late", "--batch", &batch]).failed(4);
    assert!(message.contains("sealed"), "{message}");

    let queue = fixture.queue("work").await;
    let handler = |_: &readpast::Job, _: &readpast::Context| Ok(());
    readpast::Worker::builder(&queue, Handlers::any(handler)).start().await.unwrap().drain().await.unwrap();
    let shown = fixture.run(&["batch", "show", &batch, "--json"]).json().remove(0);
    assert_eq!((&shown["done"], &shown["name"]), (&json!(3), &json!("import")));
    assert!(shown["ended_at"].is_string() && shown["follow_up_id"].is_number(), "{shown}");
    assert_eq!(
        fixture.run(&["batches", "work"]).ok(),
        "there are no unfinished batches; --all includes completed ones\n"
    );
    assert_eq!(fixture.run(&["batches", "--all", "--json"]).json(), [shown]);
    for command in ["show", "seal", "cancel"] {
        let message = fixture.run(&["batch", command, "4711"]).failed(3);
        assert!(message.contains("there is no batch 4711"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_cancelled() {
    let fixture = Fixture::new("batch_cancel").await;
    let batch = fixture.run(&["batch", "create", "work", "--json"]).json()[0]["batch_id"].to_string();
    fixture.run_with_input(&["enqueue", "work", "--batch", &batch], b"1\n2\n").ok();
    fixture.run(&["batch", "cancel", &batch]).failed(4);
    let answer = fixture.run(&["batch", "cancel", &batch, "--why", "a wrong file", "--yes", "--json"]).json();
    assert_eq!(answer, [json!({"waiting": 2, "running": 0})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_graph_of_a_batch_is_shown_by_steps() {
    let fixture = Fixture::new("graph").await;
    let batch = fixture.run(&["batch", "create", "work", "--json"]).json()[0]["batch_id"].to_string();
    let enqueue = |kind: &'static str, after: &[&str]| {
        let mut command = vec!["enqueue", "work", "x", "--batch", &batch, "--kind", kind, "--json"];
        after.iter().for_each(|parent| command.extend(["--after", parent]));
        fixture.run(&command).json()[0]["job_id"].to_string()
    };
    let thumbnails: Vec<String> = (0..3).map(|_| enqueue("thumbnail", &[])).collect();
    let parents: Vec<&str> = thumbnails.iter().map(String::as_str).collect();
    let montage = enqueue("montage", &parents);
    enqueue("publish", &[&montage, parents[0]]);
    let shown = fixture.run(&["batch", "show", &batch]).ok();
    let graph = shown.split("\ngraph\n").nth(1).expect("a graph");
    let expected = "STEP         JOBS  STATES     AFTER\n\
                    1 thumbnail  3     3 ready    -\n\
                    2 montage    1     1 waiting  1 thumbnail\n\
                    3 publish    1     1 waiting  1 thumbnail, 2 montage\n";
    assert_eq!(graph, expected);
}
