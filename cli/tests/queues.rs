//! `queues` and `queue`: settings, the switch, deleting.

use readpast::NewJob;
use serde_json::json;

use crate::support::{Fixture, snapshot};

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_created_changed_and_shown() {
    let fixture = Fixture::new("queue").await;
    let created = [
        "queue",
        "create",
        "mail",
        "--order",
        "lifo",
        "--completion",
        "archive",
        "--max-attempts",
        "3",
        "--keep-done",
        "30d",
        "--keep-dead",
        "90d",
        "--max-running",
        "8",
        "--rate",
        "100/60s",
    ];
    snapshot("queue_create", &fixture.run(&created).ok());
    let message = fixture.run(&created).failed(4);
    assert!(message.contains("queue 'mail' already exists"), "{message}");
    let changed = [
        "queue",
        "set",
        "mail",
        "--rate",
        "none",
        "--keep-done",
        "forever",
        "--group-limit",
        "4",
        "--max-depth",
        "1000",
        "--halt-groups",
        "true",
        "--json",
    ];
    let shown = fixture.run(&changed).json().remove(0);
    assert_eq!((&shown["rate"], &shown["keep_done_s"], &shown["max_running"]), (&json!(null), &json!(null), &json!(8)));
    assert_eq!((&shown["group_limit"], &shown["claim_order"]), (&json!(4), &json!("lifo")), "what is not named stays");
    assert_eq!((&shown["max_depth"], &shown["halt_groups"]), (&json!(1000), &json!(true)));
    snapshot("queues", &fixture.run(&["queues"]).ok());
    let message = fixture.run(&["queue", "set", "male", "--max-attempts", "3"]).failed(3);
    assert!(message.contains("there is no queue 'male'; did you mean 'mail'?"), "{message}");
    for (option, value) in
        [("--rate", "100"), ("--max-running", "many"), ("--keep-dead", "a while"), ("--order", "random")]
    {
        let message = fixture.run(&["queue", "set", "mail", option, value]).failed(2);
        assert!(message.contains(option) && message.contains(value), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_goes_on_when_it_is_resumed() {
    let fixture = Fixture::new("pause").await;
    let queue = fixture.queue("work").await;
    assert_eq!(fixture.run(&["queue", "pause", "work"]).ok(), "work is paused\n");
    assert!(queue.admin().stats(None).await.unwrap().paused);
    assert_eq!(fixture.run(&["queue", "resume", "work", "--json"]).json(), [json!({"queue": "work", "paused": false})]);
    assert!(!queue.admin().stats(None).await.unwrap().paused);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_jobs_is_deleted_only_when_told_so() {
    let fixture = Fixture::new("delete").await;
    fixture.queue("work").await.enqueue_many(&[NewJob::text("1"), NewJob::text("2")]).await.unwrap();
    let message = fixture.run(&["queue", "delete", "work"]).failed(4);
    assert!(message.contains("to delete queue work, pass --yes"), "{message}");
    let message = fixture.run(&["queue", "delete", "work", "--yes"]).failed(4);
    assert!(message.contains("--with-jobs") || message.contains("jobs"), "{message}");
    let answer = fixture.run(&["queue", "delete", "work", "--yes", "--with-jobs", "--json"]).json();
    assert_eq!(answer, [json!({"queue": "work", "deleted_jobs": 2})]);
    fixture.run(&["queue", "show", "work"]).failed(3);
    assert_eq!(fixture.run(&["queues"]).ok(), "there are no queues; run `readpast queue create NAME` to create one\n");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn on_a_narrow_terminal_lists_leave_out_columns_and_cut_no_word() {
    use crate::pty::Terminal;

    let fixture = Fixture::new("narrow").await;
    let queue = fixture.queue("work").await;
    queue.enqueue(&readpast::NewJob::text("a payload of some length")).await.unwrap();
    for (list, always) in [
        (&["queues"][..], &["QUEUE", "COMPLETION", "ATTENTION"][..]),
        (&["stats"], &["QUEUE", "READY", "DEAD", "WORKERS"]),
        (&["jobs", "work"], &["ID", "STATE", "ERROR"]),
        (&["audit"], &["BEGAN", "WHO", "ACTION", "QUEUE"]),
    ] {
        for width in [80, 60] {
            let (code, screen) = Terminal::start(&fixture.command(list), width, 24).end();
            let lines: Vec<&str> = screen.trim_end().lines().collect();
            assert_eq!((code, lines.len()), (0, 2), "{list:?} {width}\n{screen}");
            assert!(always.iter().all(|column| lines[0].contains(column)), "{list:?} {width}\n{screen}");
            assert!(!screen.contains("at_lea") || screen.contains("at_least_once"), "{list:?} {width}\n{screen}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_groups_of_a_fair_queue_have_weights() {
    let fixture = Fixture::new("weights").await;
    let unused = fixture.run(&["queue", "weight", "work", "b", "3"]).ok();
    assert_eq!(unused, "group b of work has the weight 3; it has no effect until the queue is fair\n");
    assert!(fixture.run(&["queue", "set", "work", "--fair", "true"]).ok().contains("fair          true"));
    for group in ["a", "b", "b"] {
        fixture.run(&["enqueue", "work", "x", "--group", group]).ok();
    }
    assert_eq!(fixture.run(&["queue", "weight", "work", "a", "2"]).ok(), "group a of work has the weight 2\n");
    let groups = fixture.run(&["queue", "groups", "work"]).ok();
    assert_eq!(groups, "GROUP  WEIGHT  IN TURN  WAITING\na      2       0        1\nb      3       0        2\n");
    fixture.run(&["queue", "weight", "work", "a", "1001"]).failed(2);
    fixture.run(&["queue", "set", "work", "--max-running", "2"]).failed(2);
}
