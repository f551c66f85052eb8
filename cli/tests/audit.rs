//! What the program does is noted with the user of the operating system, and how it ended.

use readpast::NewJob;
use readpast::admin::{AuditRow, JobState};
use serde_json::{Value, json};

use crate::support::Fixture;

/// The notes of all queues, the oldest first: not what the test has done, in the name of its login.
async fn notes(fixture: &Fixture) -> Vec<AuditRow> {
    let mut notes = fixture.queue("work").await.admin().all_audits(None, 1_000).await.unwrap();
    notes.retain(|note| note.who != note.login);
    notes.reverse();
    notes
}

fn in_short(note: &AuditRow) -> (&str, Option<&str>, Option<&Value>, Option<u64>, Option<&str>) {
    (&note.action, note.queue.as_deref(), note.what.as_ref(), note.jobs, note.outcome.as_deref())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_to_jobs_is_noted_with_the_filter_or_the_ids_and_how_many_they_were() {
    let fixture = Fixture::new("noted_jobs").await;
    let queue = fixture.queue("work").await;
    let job = queue.enqueue(&NewJob::text("1").kind("a")).await.unwrap().job_id;
    queue.enqueue(&NewJob::text("2")).await.unwrap();
    fixture.run(&["cancel", "work", "--kind", "a", "--why", "wrong", "--yes"]).ok();
    fixture.run(&["requeue", "work", &job.to_string(), "--yes"]).ok();
    fixture.run(&["priority", "work", "--all", "--to", "-3", "--yes"]).ok();
    fixture.run(&["purge", "work", "--state", "ready", "--yes"]).ok();
    fixture.run(&["promote", "work", "77"]).failed(3);
    let notes = notes(&fixture).await;
    let expected = [
        ("cancel", json!({ "filter": { "kind": "a" }, "why": "wrong" }), 1),
        ("requeue", json!({ "jobs": [job], "named": 1 }), 1),
        ("set_priority", json!({ "filter": {}, "priority": -3 }), 2),
        ("purge", json!({ "filter": { "state": JobState::Ready } }), 2),
        ("promote", json!({ "jobs": [77], "named": 1 }), 0),
    ];
    assert_eq!(notes.len(), expected.len(), "{notes:?}");
    for (note, (action, what, jobs)) in notes.iter().zip(&expected) {
        assert_eq!(in_short(note), (*action, Some("work"), Some(what), Some(*jobs), None));
        assert!(note.ended_at.is_some() && !note.who.is_empty(), "{note:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_to_queues_schedules_and_batches_is_noted() {
    let fixture = Fixture::new("noted_queues").await;
    let batch = fixture.queue("work").await.create_batch(&readpast::NewBatch::new()).await.unwrap().to_string();
    for command in [
        &["queue", "create", "other", "--max-attempts", "3"][..],
        &["queue", "set", "other", "--keep-done", "60s", "--rate", "none"],
        &["queue", "pause", "other"],
        &["queue", "pause", "other", "--why", "the disk is full"],
        &["queue", "resume", "other"],
        &["schedule", "set", "other", "s", "@daily"],
        &["schedule", "pause", "other", "s"],
        &["schedule", "resume", "other", "s"],
        &["schedule", "run", "other", "s"],
        &["schedule", "delete", "other", "s", "--yes"],
        &["queue", "delete", "other", "--with-jobs", "--yes"],
        &["batch", "cancel", &batch, "--yes"],
    ] {
        fixture.run(command).ok();
    }
    let notes = notes(&fixture).await;
    let schedule = json!({ "schedule": "s" });
    let expected = [
        ("create_queue", json!({ "settings": { "max_attempts": 3 } }), None),
        ("set_queue", json!({ "settings": { "keep_done_s": 60, "rate": null } }), None),
        ("pause", Value::Null, None),
        ("pause", json!({ "why": "the disk is full" }), None),
        ("resume", Value::Null, None),
        ("set_schedule", json!({ "schedule": "s", "cron": "@daily" }), None),
        ("pause_schedule", schedule.clone(), None),
        ("resume_schedule", schedule.clone(), None),
        ("run_schedule", schedule.clone(), None),
        ("delete_schedule", schedule, None),
        ("delete_queue", json!({ "with_jobs": true }), Some(1)),
        ("cancel_batch", json!({ "batch": batch.parse::<i64>().unwrap(), "why": "" }), Some(0)),
    ];
    assert_eq!(notes.len(), expected.len(), "{notes:?}");
    for (note, (action, what, jobs)) in notes.iter().zip(&expected) {
        let queue = if *action == "cancel_batch" { "work" } else { "other" };
        let what = (!what.is_null()).then_some(what);
        assert_eq!(in_short(note), (*action, Some(queue), what, *jobs, None));
        assert!(note.ended_at.is_some(), "{note:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notes_are_shown_the_newest_first_of_all_or_of_one_queue() {
    let fixture = Fixture::new("audit_shown").await;
    fixture.queue("other").await.admin().create(readpast::admin::QueueOptions::default()).await.unwrap();
    let created = fixture.run(&["audit", "--json"]).json();
    assert_eq!(created.len(), 2, "the login has created two queues: {created:?}");
    for (queue, command) in [("work", "pause"), ("other", "pause"), ("work", "resume")] {
        fixture.run(&["queue", command, queue]).ok();
    }
    let actions = |arguments: &[&str]| -> Vec<String> {
        let notes = fixture.run(arguments).json();
        notes.iter().map(|note| format!("{} {}", note["action"], note["queue"]).replace('"', "")).collect()
    };
    assert_eq!(
        actions(&["audit", "--json"]),
        ["resume work", "pause other", "pause work", "create_queue other", "create_queue work"]
    );
    assert_eq!(actions(&["audit", "work", "--json"]), ["resume work", "pause work", "create_queue work"]);
    assert_eq!(actions(&["audit", "--limit", "2", "--json"]), ["resume work", "pause other"]);
    let table = fixture.run(&["audit", "other"]).ok();
    assert!(table.contains("ACTION") && table.contains("pause"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_went_wrong_is_noted_and_what_changes_nothing_is_not() {
    let fixture = Fixture::new("noted_errors").await;
    let queue = fixture.queue("work").await;
    queue.enqueue(&NewJob::text("1")).await.unwrap();
    fixture.run(&["queue", "delete", "work", "--yes"]).failed(4);
    fixture.run(&["queue", "show", "work"]).ok();
    fixture.run(&["jobs", "work"]).ok();
    fixture.run(&["purge", "work", "--state", "ready", "--dry-run"]).ok();
    let notes = notes(&fixture).await;
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    assert_eq!((&note.action[..], note.jobs), ("delete_queue", None));
    assert!(note.outcome.as_ref().is_some_and(|outcome| outcome.contains("the queue has jobs")), "{note:?}");
}
