//! The audit: each entry is a sentence, the same on its page and on a job's.

use readpast::admin::{JobChange, JobFilter, JobState, NewAudit};
use readpast::crates::serde_json::{Value, json};
use readpast::{JobId, NewJob};

use crate::support::{Answer, Fixture};

/// The sentences, the newest first, without their times.
fn sentences(page: &Answer, css: &str) -> Vec<String> {
    page.texts(css).into_iter().map(|text| text.replace(", just now", "")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_entry_is_a_sentence() {
    let fixture = Fixture::new("sentences").await;
    let queue = &fixture.queue;
    let note = |action: &str, what: Value| NewAudit::new("maria", action).what(what);
    let bare = |action: &str| NewAudit::new("maria", action);
    let filter = JobFilter::from(JobState::Dead).kind("resize").error("timeout");
    let (one, two) = (&[JobId(42)][..], &[JobId(42), JobId(43)][..]);
    let dead = JobFilter::from(JobState::Dead);
    let of = |change: JobChange| NewAudit::of("maria", &change);
    let cases = [
        (bare("pause"), None, "paused work"),
        (note("pause", json!({ "why": "the disk is full" })), None, "paused work, because “the disk is full”"),
        (bare("delete_queue"), Some(0), "deleted work"),
        (bare("resume"), None, "resumed work"),
        (bare("pause_all").of_no_queue(), None, "paused all queues"),
        (bare("confirm_copy").of_no_queue(), None, "let this copy of a database run its jobs"),
        (note("delete_queue", json!({ "with_jobs": true })), Some(3), "deleted work with its jobs"),
        (
            note("set_queue", json!({ "settings": { "max_attempts": 5, "fair": true } })),
            None,
            "changed the settings of work (fair true, max attempts 5)",
        ),
        (
            note("set_group_weight", json!({ "group_key": "acme", "weight": 3 })),
            None,
            "set the weight of group acme of work to 3",
        ),
        (
            note("enqueue", json!({ "kind": "price", "key": "k" })),
            Some(1),
            "enqueued a job in work (key k, kind price)",
        ),
        (
            note("enqueue", json!({ "key": "k" })),
            Some(0),
            "tried to enqueue a job in work (key k); nothing was changed",
        ),
        (
            of(JobChange::Requeue).filter(&filter),
            Some(17),
            "requeued 17 jobs of work (dead, error timeout, kind resize)",
        ),
        (of(JobChange::Requeue).filter(&dead), Some(0), "requeued 0 jobs of work (dead)"),
        (of(JobChange::Requeue).jobs(one), Some(1), "requeued job 42 of work"),
        (of(JobChange::Requeue).jobs(one), Some(0), "tried to requeue job 42 of work; nothing was changed"),
        (of(JobChange::Purge).jobs(two), Some(1), "deleted 1 job of work (jobs 42, 43)"),
        (of(JobChange::Promote).jobs(one), Some(1), "made job 42 of work ready"),
        (of(JobChange::RunAgain).jobs(one), Some(1), "enqueued job 42 of work again"),
        (of(JobChange::cancel("too old")).jobs(one), Some(1), "cancelled job 42 of work, because “too old”"),
        (of(JobChange::SetPriority(-3)).filter(&dead), Some(2), "gave 2 jobs of work priority -3 (dead)"),
        (
            note("set_schedule", json!({ "schedule": "night", "cron": "@daily" })),
            None,
            "set schedule night of work (cron @daily)",
        ),
        (note("run_schedule", json!({ "schedule": "night" })), None, "ran schedule night of work"),
        (
            note("run_schedule", json!({ "schedule": "night" })),
            Some(0),
            "tried to run schedule night of work; nothing was changed",
        ),
        (note("cancel_batch", json!({ "batch": 7, "why": "" })), Some(3), "cancelled batch 7 of work"),
        (note("cancel_batch", json!({ "batch": 7, "why": "" })), Some(0), "cancelled batch 7 of work"),
        (
            note("quiet_worker", json!({ "worker": "w1", "worker_id": "x", "asked": "claim no more jobs" })),
            None,
            "asked worker w1 of work to claim no more jobs",
        ),
        (
            note("stop_worker", json!({ "worker": "w1", "asked": "stop" })).of_no_queue(),
            None,
            "asked worker w1 to stop",
        ),
        // As the procedure says it.
        (note("ask_worker", json!({ "worker": "w1", "threads": 3 })), None, "asked worker w1 of work (threads 3)"),
        // Another program's.
        (note("re-index", json!([1, "two"])), None, ": re-index, work (1, two)"),
        (bare("tidy_up").of_no_queue(), Some(0), ": tidy up"),
    ];
    let mut expected = vec!["sa created work".to_owned()];
    for (note, jobs, sentence) in cases {
        let id = queue.admin().begin_audit(&note).await.unwrap();
        queue.admin().end_audit(id, jobs, None).await.unwrap();
        let space = if sentence.starts_with(':') { "" } else { " " };
        expected.insert(0, format!("maria{space}{sentence}"));
    }
    for (jobs, outcome, sentence) in [
        (None, "no <room>", "maria tried to requeue jobs of work (dead): no <room>"),
        (Some(1_000), "stopped by ann", "maria requeued 1,000 jobs of work (dead): stopped by ann"),
        (Some(0), "stopped by ann", "maria tried to requeue 0 jobs of work (dead): stopped by ann"),
    ] {
        let id = queue.admin().begin_audit(&of(JobChange::Requeue).filter(&dead)).await.unwrap();
        queue.admin().end_audit(id, jobs, Some(outcome)).await.unwrap();
        expected.insert(0, sentence.to_owned());
    }
    queue.admin().begin_audit(&of(JobChange::Requeue).jobs(two)).await.unwrap();
    expected.insert(0, "maria began to requeue 2 jobs of work (jobs 42, 43); in progress, or interrupted".to_owned());
    let page = fixture.open().page("audit").await;
    assert_eq!(sentences(&page, ".entry > span"), expected);
    assert_eq!(page.count(".entry .bad"), 3);
    // The details are there as they were noted.
    let details = page.texts(".entry pre");
    assert!(details.contains(&r#"{"schedule":"night"}"#.to_owned()), "{details:?}");
    assert_eq!(page.count(".entry details[open]"), 0);
    let jobs = page.values(".entry a[href^=job]", "href");
    assert!(jobs.iter().all(|link| link == "job?queue=work&id=42"), "{jobs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_any_size_is_bounded_on_the_page() {
    let fixture = Fixture::new("large_entry").await;
    let jobs: Vec<JobId> = (1_000_000..1_001_000).map(JobId).collect();
    let requeue = NewAudit::of("maria", &JobChange::Requeue);
    fixture.queue.admin().begin_audit(&requeue.jobs(&jobs)).await.unwrap();
    let long = NewAudit::new("maria", "import").what(json!({ "file": "ü".repeat(90_000) }));
    fixture.queue.admin().begin_audit(&long).await.unwrap();
    let page = fixture.open().page("audit").await;
    assert!(page.body.len() < 30_000, "{}", page.body.len());
    assert!(page.texts(".entry > span")[1].contains("1,000 jobs of work (jobs 1000000, 1000001"), "{}", page.text());
    let x = "x".repeat(40_000);
    let long = [
        ("pause", json!({ "why": x })),
        ("run_schedule", json!({ "schedule": x })),
        ("ask_worker", json!({ "worker": x, "asked": x })),
        ("set_group_weight", json!({ "group_key": x, "weight": 3 })),
        ("cancel_batch", json!({ "batch": x })),
        ("set_priority", json!({ "jobs": [x], "priority": x })),
        ("re-index", json!([x])),
    ];
    for (action, what) in &long {
        let note = NewAudit::new("maria", *action).what(what.clone());
        let id = fixture.queue.admin().begin_audit(&note).await.unwrap();
        fixture.queue.admin().end_audit(id, None, Some(&x)).await.unwrap();
    }
    let page = fixture.open().page("audit").await;
    for sentence in &page.texts(".entry > span")[..long.len()] {
        assert!(sentence.len() < 1_100 && sentence.contains("xxx…"), "{}: {sentence}", sentence.len());
    }
    assert!(page.body.len() < 60_000, "{}", page.body.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_s_page_has_the_same_sentences() {
    let fixture = Fixture::new("same_words").await;
    let id = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let mut browser = fixture.open();
    let text = id.to_string();
    let fields = [("action", "cancel"), ("queue", "work"), ("state", "ready"), ("id", &*text)];
    browser.post("act", &fields).await.location();
    let sentence = format!("local visitor cancelled job {id} of work");
    let job = browser.page(&format!("job?queue=work&id={id}")).await;
    assert_eq!(sentences(&job, "[aria-labelledby=acts] li"), [&*sentence]);
    assert_eq!(sentences(&browser.page("audit").await, ".entry > span")[0], sentence);
}
