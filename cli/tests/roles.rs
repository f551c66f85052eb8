//! Each command works with just the role that its help names, and says which role is missing without it.

use readpast::NewJob;
use readpast::admin::{JobChange, JobState};

use crate::support::{Fixture, run, run_with_input};

/// Commands, and the roles that each may be run with. `JOB`, `LATE`, `CANCELLED` and `BATCH` stand for numbers.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (&["enqueue", "work", "x"], &["producer", "operator"]),
    (&["wait", "JOB", "--timeout", "1ms"], &["producer", "operator"]),
    (&["batch", "create", "work"], &["producer", "operator"]),
    (&["batch", "show", "BATCH"], &["producer", "operator", "monitor"]),
    (&["batches", "work"], &["producer", "operator", "monitor"]),
    (&["batch", "seal", "BATCH"], &["producer", "operator"]),
    (&["batch", "cancel", "BATCH", "--yes"], &["operator"]),
    (&["jobs", "work"], &["operator", "monitor"]),
    (&["job", "JOB"], &["operator", "monitor"]),
    (&["queues"], &["worker", "operator", "monitor"]),
    (&["stats"], &["worker", "operator", "monitor"]),
    (&["queue", "show", "work"], &["worker", "operator", "monitor"]),
    (&["drain", "empty"], &["worker", "operator", "monitor"]),
    (&["workers"], &["operator", "monitor"]),
    (&["schedules"], &["operator", "monitor"]),
    (&["audit"], &["operator", "monitor"]),
    (&["audit", "work", "--limit", "1"], &["operator", "monitor"]),
    (&["verify", "work"], &["producer", "worker", "operator", "monitor"]),
    (&["install"], &["producer", "worker", "operator", "monitor"]),
    (&["requeue", "work", "CANCELLED", "--yes"], &["operator"]),
    (&["requeue", "work", "--all", "--dry-run"], &["operator", "monitor"]),
    (&["priority", "work", "JOB", "--to", "1", "--yes"], &["operator"]),
    (&["promote", "work", "LATE"], &["operator"]),
    (&["cancel", "work", "JOB", "--yes"], &["operator"]),
    (&["purge", "work", "JOB", "--yes"], &["operator"]),
    (&["queue", "pause", "work"], &["operator"]),
    (&["queue", "weight", "work", "a", "2"], &["operator"]),
    (&["queue", "groups", "work"], &["operator", "monitor"]),
    (&["queue", "resume", "work"], &["operator"]),
    (&["queue", "set", "work", "--max-attempts", "4"], &["operator"]),
    (&["queue", "create", "ROLE"], &["operator"]),
    (&["queue", "delete", "ROLE", "--yes"], &["operator"]),
    (&["schedule", "set", "work", "s", "@daily"], &["operator"]),
    (&["schedule", "run", "work", "s"], &["operator"]),
    (&["schedule", "pause", "work", "s"], &["operator"]),
    (&["schedule", "resume", "work", "s"], &["operator"]),
    (&["schedule", "delete", "work", "s", "--yes"], &["operator"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_command_needs_the_role_that_it_names_and_no_other() {
    let fixture = Fixture::new("roles").await;
    fixture.queue("empty").await.admin().create(readpast::admin::QueueOptions::default()).await.unwrap();
    let queue = fixture.queue("work").await;
    queue.admin().set_schedule(&readpast::admin::Schedule::new("s", "@daily", NewJob::text("x"))).await.unwrap();
    let roles = ["producer", "worker", "operator", "monitor"];
    let mut logins = Vec::new();
    for role in roles {
        logins.push((role, fixture.login(Some(role)).await));
    }
    logins.sort_by_key(|(role, _)| *role == "operator"); // whose commands change what the others look at
    for (role, url) in &logins {
        for (command, allowed) in COMMANDS {
            let batch = queue.create_batch(&readpast::NewBatch::new()).await.unwrap().to_string();
            queue.enqueue(&NewJob::text("x")).await.unwrap();
            let late = NewJob::text("late").delay(std::time::Duration::from_secs(3_600));
            let late = queue.enqueue(&late).await.unwrap().job_id.to_string();
            let cancelled = queue.enqueue(&NewJob::text("cancelled")).await.unwrap().job_id;
            queue.admin().change(&JobChange::cancel(""), cancelled).await.unwrap();
            let cancelled = cancelled.to_string();
            let job = queue.admin().list(&JobState::Ready.into(), None, 1).await.unwrap().jobs[0].job_id.to_string();
            let arguments: Vec<&str> = command
                .iter()
                .map(|word| match *word {
                    "JOB" => job.as_str(),
                    "LATE" => late.as_str(),
                    "CANCELLED" => cancelled.as_str(),
                    "BATCH" => batch.as_str(),
                    "ROLE" => role,
                    word => word,
                })
                .collect();
            let run = run(&mut fixture.command_as(url, &arguments));
            if allowed.contains(role) {
                assert_ne!(run.code, 5, "{role}: {arguments:?}: {run:?}");
                assert!(run.code == 0 || arguments[0] == "wait" && run.code == 8, "{role}: {arguments:?}: {run:?}");
            } else {
                assert_eq!(run.code, 5, "{role}: {arguments:?}: {run:?}");
                assert!(run.stderr.contains("make the login's user a member"), "{role}: {arguments:?}: {run:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_may_go_on_with_its_input() {
    let fixture = Fixture::new("producer").await;
    let url = fixture.login(Some("producer")).await;
    let file = crate::support::temporary_folder("producer").join("state.json");
    let arguments = ["enqueue", "work", "--resume", file.to_str().unwrap()];
    run_with_input(&mut fixture.command_as(&url, &arguments), b"1\n2\n").ok();
}
