//! Schedules that somebody makes, changes and deletes on the page.

use std::time::Duration;

use axum::http::StatusCode;
use readpast::admin::{Schedule, ScheduleRow};
use readpast::crates::uuid::Uuid;
use readpast::{Needs, NewJob};
use readpast_web::Options;

use crate::support::Fixture;

const ALL: [(&str, &str); 14] = [
    ("name", "nightly"),
    ("cron", "30 2 * * MON-FRI"),
    ("time_zone", "Europe/Berlin"),
    ("make_up", "3"),
    ("jitter", "10m"),
    ("kind", "report"),
    ("payload", "{\"all\": true}"),
    ("key", "report"),
    ("group", "acme"),
    ("priority", "-5"),
    ("start_within", "2h"),
    ("attempts", "3"),
    ("time_limit", "30s"),
    ("headers", "tenant: acme"),
];

async fn only_schedule(fixture: &Fixture) -> ScheduleRow {
    let mut all = fixture.queue.admin().schedules().await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_set_in_two_steps_and_its_next_ten_times_are_seen_before() {
    let fixture = Fixture::new("new_schedule").await;
    let mut browser = fixture.open();
    assert!(browser.page("schedules").await.values("main a", "href").contains(&"schedule".to_owned()));
    let first = browser.page("schedule").await;
    let second = browser.press(&first, "set_schedule", "check", &ALL).await;
    assert_eq!(second.status, StatusCode::OK, "{}", second.text());
    assert_eq!(second.texts("main li"), ["Queue work gets the schedule nightly."]);
    assert!(second.texts(".warning")[0].contains("No worker of this queue runs"));
    let local = second.texts("tbody th");
    let utc = second.texts("tbody td[data-label=UTC]");
    assert_eq!((local.len(), utc.len()), (10, 10));
    assert!(local.iter().all(|time| time.ends_with(" 02:30:00")), "{local:?}");
    assert!(utc.iter().all(|time| time.ends_with(" 01:30:00") || time.ends_with(" 00:30:00")), "{utc:?}");
    assert_eq!(second.texts("thead th")[0], "In Europe/Berlin");
    assert!(fixture.queue.admin().schedules().await.unwrap().is_empty(), "nothing is done yet");

    let back = browser.press(&second, "set_schedule", "back", &[]).await;
    let again = browser.press(&back, "set_schedule", "check", &[]).await;
    assert_eq!(browser.press(&again, "set_schedule", "do", &[]).await.location(), "schedules");
    assert_eq!(browser.page("schedules").await.texts(".notice"), ["Schedule nightly is set."]);
    let row = only_schedule(&fixture).await;
    assert_eq!((&*row.name, &*row.cron, &*row.time_zone), ("nightly", "30 2 * * MON-FRI", "Europe/Berlin"));
    assert_eq!((row.make_up, row.jitter), (3, Duration::from_secs(600)));
    assert_eq!((row.kind.as_deref(), &*row.payload), (Some("report"), &b"{\"all\": true}"[..]));
    assert_eq!((row.dedup_key.as_deref(), row.group_key.as_deref()), (Some("report"), Some("acme")));
    assert_eq!((row.priority, row.max_attempts, row.time_limit), (-5, Some(3), Some(Duration::from_secs(30))));
    assert_eq!(row.start_within, Some(Duration::from_secs(7_200)));
    assert_eq!(row.headers.unwrap()["tenant"], "acme");
    let audit = fixture.audits().await.remove(0);
    assert_eq!((&*audit.who, &*audit.action), ("local visitor", "set_schedule"));
    let what = audit.what.unwrap();
    assert_eq!((&what["schedule"], &what["cron"]), (&"nightly".into(), &"30 2 * * MON-FRI".into()));
    assert_eq!(what["time_zone"], "Europe/Berlin");
    assert!(audit.ended_at.is_some() && audit.outcome.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_as_the_library_says_it_and_nothing_typed_is_lost() {
    let fixture = Fixture::new("wrong_schedule").await;
    let mut browser = fixture.open();
    fixture.queue.admin().set_schedule(&Schedule::new("taken", "@daily", NewJob::text("x"))).await.unwrap();
    let first = browser.page("schedule?queue=work").await;
    for (name, value) in [
        ("name", ""),
        ("name", " x"),
        ("cron", "0 25 * * *"),
        ("cron", "@reboot"),
        ("cron", ""),
        ("time_zone", "Berlin"),
        ("make_up", "1001"),
        ("jitter", "25h"),
    ] {
        let typed: Vec<_> =
            ALL.iter().map(|(other, text)| (*other, if *other == name { value } else { text })).collect();
        let text = |name| typed.iter().find(|(other, _)| *other == name).unwrap().1;
        let schedule = Schedule::new(text("name"), text("cron"), NewJob::text("x"));
        let schedule = schedule.time_zone(text("time_zone")).make_up(text("make_up").parse().unwrap());
        let jitter = if name == "jitter" { Duration::from_secs(90_000) } else { Duration::ZERO };
        let error = fixture.queue.admin().set_schedule(&schedule.jitter(jitter)).await.unwrap_err().to_string();
        let again = browser.press(&first, "set_schedule", "do", &typed).await;
        assert_eq!(again.status, StatusCode::BAD_REQUEST, "{name} {value}");
        assert_eq!(again.texts(&format!("#{name}-wrong")), [error]);
        assert_eq!(again.values("[aria-invalid=true]", "name"), [name]);
        for (other, value) in again.form("set_schedule", "do") {
            if let Some((_, typed)) = typed.iter().find(|(name, _)| *name == other) {
                assert_eq!(value, *typed, "{other}");
            }
        }
    }
    for (name, value, said) in [
        ("name", "taken", "queue work has a schedule of this name"),
        ("make_up", "-1", "it is '-1'; it must be 0 to 1000"),
        ("jitter", "soon", "write it as 90s, 5m, 1h 30m or 7d"),
        ("kind", "a b", "kind is 'a b'"),
    ] {
        let typed: Vec<_> =
            ALL.iter().map(|(other, text)| (*other, if *other == name { value } else { text })).collect();
        let again = browser.press(&first, "set_schedule", "do", &typed).await;
        let under = again.texts(&format!("#{name}-wrong")).remove(0);
        assert!(under.starts_with(said), "{under}");
    }
    assert_eq!(only_schedule(&fixture).await.cron, "@daily");
    assert!(fixture.audits().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_schedule_keeps_what_the_form_does_not_ask_for() {
    let fixture = Fixture::new("changed_schedule").await;
    let needs = Needs::new().threads(2);
    let job = NewJob::text("SECRET").kind("report").needs(needs.clone()).correlation_id(Uuid::from_u128(7));
    fixture.queue.admin().set_schedule(&Schedule::new("a & b", "@daily", job)).await.unwrap();
    fixture.queue.admin().pause_schedule("a & b").await.unwrap();
    for (options, payload) in [(Options::default(), "SECRET"), (Options::default().hide_payloads(true), "")] {
        let mut browser = fixture.browser(options);
        let links = browser.page("schedules").await.values("td a", "href");
        let first = browser.page(links.iter().find(|link| link.starts_with("schedule?")).unwrap()).await;
        assert_eq!(first.texts("h1"), ["Change schedule a & b"]);
        assert_eq!(first.texts("textarea[name=payload]"), [payload]);
        assert_eq!(first.text().contains("SECRET"), !payload.is_empty());
        let is_hidden = payload.is_empty();
        let kind = if is_hidden { "report" } else { "" };
        if is_hidden {
            // Another handler might show the payload.
            let refused = browser.press(&first, "set_schedule", "do", &[("kind", "other")]).await;
            assert!(refused.texts("#kind-wrong")[0].contains("only within its queue and for its kind"));
        }
        let second = browser.press(&first, "set_schedule", "check", &[("cron", "0 4 * * *"), ("kind", kind)]).await;
        assert_eq!(second.text().contains("SECRET"), !payload.is_empty());
        assert!(second.texts("main li").contains(&"It stays paused.".to_owned()), "{}", second.text());
        let changes = second.texts("[aria-label=Changes] tbody th, [aria-label=Changes] tbody td");
        let expected = ["Times", "@daily", "0 4 * * *", "Kind", "report", "–"];
        assert_eq!(changes, expected[..if is_hidden { 3 } else { 6 }]);
        browser.press(&second, "set_schedule", "do", &[]).await.location();
        let row = only_schedule(&fixture).await;
        assert_eq!((&*row.cron, row.kind.as_deref(), row.paused), ("0 4 * * *", is_hidden.then_some("report"), true));
        assert_eq!((&*row.payload, row.needs.as_ref()), (&b"SECRET"[..], Some(&needs)));
        assert_eq!(row.correlation_id, Some(Uuid::from_u128(7)));
        let same = browser.press(&second, "set_schedule", "check", &[]).await;
        assert_eq!(same.texts("main li")[0], "Nothing changes.");
        // As before, for the other one.
        browser.press(&second, "set_schedule", "do", &[("cron", "@daily"), ("kind", "report")]).await.location();
    }
    let gone = fixture.open().get("schedule?queue=work&schedule=nobody").await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_deleted_when_it_is_confirmed() {
    let fixture = Fixture::new("deleted_schedule").await;
    fixture.queue.admin().set_schedule(&Schedule::new("nightly", "@daily", NewJob::text("x"))).await.unwrap();
    let mut browser = fixture.open();
    let links = browser.page("schedules").await.values("td a", "href");
    let confirm = browser.page(links.iter().find(|link| link.starts_with("delete_schedule?")).unwrap()).await;
    assert_eq!(confirm.texts("h1"), ["Delete schedule nightly?"]);
    assert_eq!((confirm.count("a[autofocus]"), confirm.count("button[autofocus]")), (1, 0));
    assert_eq!(only_schedule(&fixture).await.name, "nightly");
    let done = browser.press(&confirm, "act", "", &[("action", "delete_schedule")]).await;
    assert_eq!(done.location(), "schedules");
    assert!(fixture.queue.admin().schedules().await.unwrap().is_empty());
    assert_eq!(fixture.audits().await[0].action, "delete_schedule");
}
