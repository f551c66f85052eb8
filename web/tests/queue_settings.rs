//! The settings of a queue, changed on the page.

use std::time::Duration;

use axum::http::StatusCode;
use readpast::NewJob;
use readpast::admin::{Keep, QueueOptions};

use crate::support::{Browser, Fixture};

/// All settings that can be changed alone, with another value than the default.
const OTHERS: [(&str, &str, &str); 15] = [
    ("claim_order", "fifo", "any"),
    ("age_after", "none", "1m"),
    ("group_limit", "1", "3"),
    ("retry_passes", "no", "yes"),
    ("halt_groups", "no", "yes"),
    ("fair", "no", "yes"),
    ("max_attempts", "5", "4"),
    ("delivery", "at_least_once", "at_most_once"),
    ("dead_queue", "none", "mail"),
    ("max_running", "none", "40"),
    ("rate", "none", "100/1m"),
    ("max_depth", "none", "1000"),
    ("completion", "delete", "archive"),
    ("keep_done", "forever", "90d"),
    ("keep_dead", "forever", "1d 12h"),
];

async fn change(browser: &mut Browser, name: &str, value: &str) {
    let first = browser.page("settings?queue=work").await;
    let second = browser.press(&first, "set_queue", "check", &[(name, value)]).await;
    assert_eq!(second.status, StatusCode::OK, "{name}: {}", second.text());
    let done = browser.press(&second, "set_queue", "do", &[]).await;
    assert_eq!(done.location(), "queue?queue=work", "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_setting_is_changed_and_marked_and_set_back() {
    let fixture = Fixture::new("all_settings").await;
    fixture.queue.named("mail").unwrap().admin().create(QueueOptions::default()).await.unwrap();
    let mut browser = fixture.open();
    let value = |page: &crate::support::Answer, name: &str| {
        let fields = page.form("set_queue", "check");
        fields.into_iter().find(|(other, _)| other == name).unwrap().1
    };
    for (name, default, other) in OTHERS {
        let page = browser.page("settings?queue=work").await;
        assert_eq!((page.count(".typed .pill"), value(&page, name)), (0, default.to_owned()), "{name}");
        change(&mut browser, name, other).await;
        let page = browser.page("settings?queue=work").await;
        assert_eq!(value(&page, name), other);
        assert_eq!(page.texts(&format!("label[for={name}] .pill")), [format!("default: {default}")]);
        assert_eq!(page.count(".typed .pill"), 1, "no other setting is changed: {name}");
        change(&mut browser, name, default).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_step_says_what_is_and_will_be_and_the_audit_has_what_was_changed() {
    let fixture = Fixture::new("settings").await;
    fixture.queue.enqueue_many(&["a", "b"].map(NewJob::text)).await.unwrap();
    let mut browser = fixture.open();
    let links = browser.page("queue?queue=work").await.values("main a", "href");
    assert!(links.contains(&"settings?queue=work".to_owned()));
    let first = browser.page("settings?queue=work").await;
    assert_eq!(first.texts("legend"), ["Order", "Attempts", "Limits", "Keeping"]);
    let typed = [("max_running", " 40 "), ("keep_dead", "7d")];
    let second = browser.press(&first, "set_queue", "check", &typed).await;
    let changes = second.texts("[aria-label=Changes] tbody th, [aria-label=Changes] tbody td");
    let begin = ["Claimed at once", "none", "40", "From the next claim on. Jobs that are claimed are finished."];
    assert_eq!(changes[..4], begin);
    assert_eq!(changes[4..7], ["Dead and cancelled jobs are kept", "forever", "7d"]);
    assert_eq!(second.texts("main li"), ["Queue work has 2 unfinished jobs; 0 of them claimed."]);
    assert!(second.texts(".warning")[0].contains("ended more than 7d ago will be deleted"), "{}", second.text());
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().max_running, None, "nothing is done yet");

    let back = browser.press(&second, "set_queue", "back", &[]).await;
    assert_eq!(back.values("#max_running", "value"), [" 40 "]);
    assert_eq!(back.texts("label[for=max_running] .pill"), ["now: none"]);
    let second = browser.press(&back, "set_queue", "check", &[]).await;
    let done = browser.press(&second, "set_queue", "do", &[]).await;
    let notice = browser.page(done.location()).await.texts(".notice").remove(0);
    let said = "Claimed at once none → 40, Dead and cancelled jobs are kept forever → 7d.";
    assert_eq!(notice, format!("Settings of work are changed: {said}"));
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.max_running, stats.keep_dead), (Some(40), Keep::For(Duration::from_secs(7 * 86_400))));
    let audit = fixture.audits().await.remove(0);
    assert_eq!((&*audit.who, &*audit.action), ("local visitor", "set_queue"));
    assert_eq!(audit.what.unwrap()["settings"].to_string(), r#"{"keep_dead_s":604800,"max_running":40}"#);
    assert!(audit.ended_at.is_some() && audit.outcome.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_stands_under_its_setting_also_if_sql_server_says_so() {
    let fixture = Fixture::new("wrong_settings").await;
    let mut browser = fixture.open();
    let first = browser.page("settings?queue=work").await;
    for (name, value, said) in [
        ("claim_order", "sorted", "it must be fifo, lifo or any"),
        ("age_after", "soon", "write it as 90s, 5m, 1h 30m or 7d"),
        ("age_after", "", "it is empty; write none"),
        ("group_limit", "many", "it is 'many'; it must be 1 to 1000"),
        ("group_limit", "", "it is ''; it must be 1 to 1000"),
        ("group_limit", "1001", "group_limit is 1001; it must be 1 to 1000"),
        ("max_attempts", "0", "max_attempts is 0; it must be 1 or more"),
        ("max_running", "0", "max_running is 0; it must be 1 to 100000"),
        ("rate", "100", "write it as 100/60s, or none"),
        ("rate", "0/60s", "rate has 0 jobs"),
        ("rate", "1/1ms", "rate_jobs is 1, rate_ms 1"),
        ("max_depth", "-1", "it is '-1'; it must be 1 or more, or none"),
        ("fair", "perhaps", "it must be yes or no"),
        ("keep_done", "20000d", "keep_done is 1728000000 s"),
        ("sink", "dbo.nobody", "sink is 'dbo.nobody'; it must be a procedure"),
        ("dead_queue", "work", "dead_queue is 'work'; it must be another queue"),
    ] {
        let again = browser.press(&first, "set_queue", "do", &[("max_depth", "7"), (name, value)]).await;
        assert_eq!(again.status, StatusCode::BAD_REQUEST, "{name} {value}");
        let under = again.texts(&format!("#{name}-wrong"));
        assert!(
            under.first().is_some_and(|text| text.starts_with(said)),
            "{name} {value}: {under:?}, {}",
            again.text()
        );
        if name != "max_depth" {
            assert_eq!(again.values("#max_depth", "value"), ["7"]);
        }
    }
    // What several settings have to do with each other is said above them.
    let both = [("fair", "yes"), ("max_running", "4")];
    let again = browser.press(&first, "set_queue", "do", &both).await;
    assert!(again.texts("main .error")[0].contains("fair"), "{}", again.text());
    let nothing = browser.press(&first, "set_queue", "check", &[]).await;
    assert_eq!(nothing.texts("main .error"), ["Nothing is changed."]);
    assert_eq!(fixture.queue.admin().stats(None).await.unwrap().max_depth, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_has_changed_meanwhile_is_not_set_back_unseen() {
    let fixture = Fixture::new("stale_settings").await;
    let mut browser = fixture.open();
    let first = browser.page("settings?queue=work").await;
    let second = browser.press(&first, "set_queue", "check", &[("max_depth", "7")]).await;
    fixture.queue.admin().create(QueueOptions::default().max_running(9)).await.unwrap();
    for step in ["check", "do"] {
        let again = browser.press(&second, "set_queue", step, &[]).await;
        assert_eq!(again.status, StatusCode::BAD_REQUEST);
        assert!(again.texts("main .error")[0].starts_with("Somebody has changed these settings"), "{}", again.text());
        assert_eq!(again.texts("label[for=max_running] .pill"), ["now: 9"]);
        let checked = browser.press(&again, "set_queue", "check", &[("max_running", "9")]).await;
        assert_eq!(checked.count("[aria-label=Changes] tbody tr"), 1);
    }
    let stats = fixture.queue.admin().stats(None).await.unwrap();
    assert_eq!((stats.max_running, stats.max_depth), (Some(9), None));
}
