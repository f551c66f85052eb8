//! The shape of each command's JSON is the one that docs/cli.md says: programs depend on it.

use std::fmt::Write;
use std::time::Duration;

use readpast::admin::{CompletionPolicy, QueueOptions, Schedule};
use readpast::{NewBatch, NewJob};
use serde_json::Value;

use crate::adopt::table_and_mapping;
use crate::health::answering;
use crate::support::{Fixture, run};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli.md");

/// Around the table.
const BEGIN: &str = "<!-- fields: UPDATE_DOCS=1 cargo test -p readpast-cli --test cli json -->\n";
const END: &str = "<!-- end of fields -->\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_json_of_each_command_has_the_documented_fields() {
    let fixture = Fixture::with("json", QueueOptions::default().completion(CompletionPolicy::Annotate)).await;
    fixture.queue("empty").await.admin().create(QueueOptions::default()).await.unwrap();
    let queue = fixture.queue("work").await;
    let schedule = Schedule::new("nightly", "@daily", NewJob::text("x"));
    queue.admin().set_schedule(&schedule).await.unwrap();
    let batch = queue.create_batch(&NewBatch::new()).await.unwrap().to_string();
    let dead = queue.enqueue(&NewJob::text("dead")).await.unwrap().job_id.to_string();
    fixture.kill_all("work").await;
    let late = NewJob::text("late").delay(Duration::from_secs(3_600));
    let late = queue.enqueue(&late).await.unwrap().job_id.to_string();
    let (adopted_table, mapping) = table_and_mapping(&fixture).await;
    let (mapping, adopted) = (mapping.to_str().unwrap(), format!("{}_adopted", fixture.schema));

    let worker = answering("HTTP/1.1 200 OK\r\n\r\nready\n");

    let mut table = "\n| command | fields of an object |\n|---|---|\n".to_owned();
    let mut row = |command: &str, object: &Value| {
        let fields: Vec<String> = object.as_object().unwrap().keys().map(|field| format!("`{field}`")).collect();
        writeln!(table, "| `{command}` | {} |", fields.join(", ")).unwrap();
    };
    for (command, arguments) in [
        ("enqueue QUEUE PAYLOAD; enqueue QUEUE --ids", &["enqueue", "work", "x"][..]),
        ("enqueue QUEUE", &["enqueue", "work"]),
        ("jobs", &["jobs", "work", "--limit", "1"]),
        ("job", &["job", &dead]),
        ("wait", &["wait", &dead]),
        ("drain", &["drain", "empty"]),
        ("requeue, cancel, purge, priority: --dry-run", &["purge", "work", &dead, "--dry-run"]),
        ("requeue, cancel, purge, priority, promote, rerun, skip", &["priority", "work", &late, "--to", "1", "--yes"]),
        ("queues; queue create, set, show", &["queues"]),
        ("queue pause, resume", &["queue", "resume", "work"]),
        ("queue weight", &["queue", "weight", "work", "a", "2"]),
        ("queue groups", &["queue", "groups", "work"]),
        ("workers", &["workers", "--lost"]),
        ("stats", &["stats"]),
        ("schedules", &["schedules"]),
        ("schedule set", &["schedule", "set", "work", "nightly", "@daily"]),
        ("schedule pause, resume", &["schedule", "resume", "work", "nightly"]),
        ("schedule run", &["schedule", "run", "work", "nightly"]),
        ("schedule delete", &["schedule", "delete", "work", "nightly", "--yes"]),
        ("batches; batch show", &["batches"]),
        ("batch create", &["batch", "create", "work"]),
        ("batch seal", &["batch", "seal", &batch]),
        ("batch cancel", &["batch", "cancel", &batch, "--yes"]),
        ("audit", &["audit"]),
        ("verify", &["verify", "work"]),
        ("health", &["health", &worker]),
        ("bench", &["bench", "--jobs", "1", "--single", "1"]),
        ("demo", &["demo", "--seconds", "1"]),
        ("queue delete", &["queue", "delete", "empty", "--yes"]),
        ("adopt", &["adopt", mapping, "--install", "--schema", &adopted]),
        ("adopt --check", &["adopt", "--check", "--schema", &adopted]),
        ("adopt --remove", &["adopt", "--remove", "--yes", "--schema", &adopted]),
        ("install, upgrade", &["install"]),
        ("uninstall", &["uninstall", "--yes"]),
    ] {
        let run = run(fixture.command(arguments).arg("--json"));
        assert!(run.code == 0 || command == "wait" && run.code == 9, "{command}: {run:?}");
        row(command, &serde_json::from_str(run.stdout.lines().next().unwrap()).unwrap());
    }
    table.push('\n');
    fixture.sql(&format!("DROP TABLE dbo.[{adopted_table}]")).await;

    let text = std::fs::read_to_string(PATH).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PATH, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert!(found == table, "the table of docs/cli.md is behind, or a field has been taken away:\n{table}");
}
