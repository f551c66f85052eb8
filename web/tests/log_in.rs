//! Tokens, users, cookies, and how often somebody may try.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use readpast::{BoxError, Context, Handlers, Job, NewJob, Worker};
use readpast_web::{Access, Options, User, hash_password};

use crate::support::{Answer, Browser, Fixture, until};

const TOKEN: &str = "correct-horse-battery";

fn with_token(token: &str) -> Options {
    Options::default().access(Access::Token(token.to_owned()))
}

fn with_users() -> Options {
    let user = |name: &str| User::new(name, hash_password(&format!("{name}'s password"))).unwrap();
    Options::default().access(Access::Users(vec![user("ann"), user("bob").read_only(true)]))
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_token_no_page_is_shown_and_nothing_done() {
    let fixture = Fixture::new("token").await;
    let mut browser = fixture.browser(with_token(TOKEN));
    for page in ["overview", "jobs?queue=work", "events?part=overview", "bytes?queue=work&id=1&of=payload", "audit"] {
        let answer = browser.get(page).await;
        assert!(answer.location().starts_with("login?then="), "{page}: {}", answer.location());
        assert_eq!(answer.header("set-cookie"), "", "{page}: no session is begun for who is sent to the form");
    }
    for (page, fields) in [("act", vec![("action", "pause"), ("queue", "work")]), ("stop", vec![("id", "1")])] {
        assert_eq!(browser.post(page, &fields).await.status, StatusCode::FORBIDDEN, "{page}");
        let answer = Browser::new(browser.page.clone()).send_form(page, &fields).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (StatusCode::FORBIDDEN, ""), "{page}");
    }
    assert!(!fixture.queue.admin().stats(None).await.unwrap().paused);
    assert_eq!(browser.log_in("", "correct-horse-batterz").await.status, StatusCode::FORBIDDEN);
    assert!(browser.get("overview").await.location().starts_with("login"));
    assert_eq!(browser.log_in("", TOKEN).await.location(), "overview");
    browser.page("overview").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_token_lets_nobody_in() {
    let fixture = Fixture::new("empty_token").await;
    let mut browser = fixture.browser(with_token(""));
    assert_eq!(browser.log_in("", "").await.status, StatusCode::FORBIDDEN);
    assert!(browser.get("overview").await.location().starts_with("login"));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_with_their_passwords_and_stand_in_the_audit_by_their_names() {
    let fixture = Fixture::new("users").await;
    let mut browser = fixture.browser(with_users());
    for (name, password) in [("ann", "bob's password"), ("nobody", "ann's password"), ("ann", ""), ("", "")] {
        assert_eq!(browser.log_in(name, password).await.status, StatusCode::FORBIDDEN, "{name} {password}");
    }
    assert_eq!(browser.log_in("ann", "ann's password").await.location(), "overview");
    let page = browser.page("overview").await;
    assert_eq!(page.texts(".who"), ["ann"]);
    browser.post("act", &[("action", "pause"), ("queue", "work")]).await.location();
    assert_eq!(fixture.audits().await[0].who, "ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_logged_in_sends_small_forms_and_sees_no_frame() {
    let fixture = Fixture::new("stranger").await;
    let mut browser = fixture.browser(with_users());
    let forged = browser.send_form("login", &[("name", "ann")]).await;
    assert_eq!((forged.status, forged.count("nav")), (StatusCode::FORBIDDEN, 0));
    let large = browser.post("login", &[("name", &"a".repeat(9_000))]).await;
    assert_eq!(large.status, StatusCode::BAD_REQUEST);
    assert!(large.text().contains("it must be at most 8 KiB"), "{}", large.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_five_wrong_passwords_even_the_right_one_is_refused_for_a_while() {
    let fixture = Fixture::new("attempts").await;
    let mut browser = fixture.browser(with_users());
    for _ in 0..5 {
        assert_eq!(browser.log_in("ann", "a guess").await.status, StatusCode::FORBIDDEN);
    }
    // From another browser, too.
    let mut other = Browser::new(browser.page.clone());
    let answer = other.log_in("ann", "ann's password").await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.text().contains("Try again in"), "{}", answer.text());
    assert_eq!(other.log_in("bob", "bob's password").await.status, StatusCode::SEE_OTHER, "it is ann who must wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_beside_it_gives_no_further_guesses_at_the_token() {
    let fixture = Fixture::new("token_names").await;
    let mut browser = fixture.browser(with_token(TOKEN));
    for number in 0..5 {
        assert_eq!(browser.log_in(&format!("name {number}"), "a guess").await.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(browser.log_in("another name", "a guess").await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_is_for_this_site_and_for_no_script_and_with_https_for_https_only() {
    let fixture = Fixture::new("cookie").await;
    let cookie = fixture.browser(with_token(TOKEN)).get("login").await.header("set-cookie").to_owned();
    let attributes: Vec<&str> = cookie.split("; ").skip(1).collect();
    assert_eq!(attributes, ["HttpOnly", "SameSite=Strict"]);
    let value = cookie.split("; ").next().unwrap().split_once('=').unwrap().1;
    assert!(value.len() == 64 && value.bytes().all(|digit| digit.is_ascii_hexdigit()), "{value}");
    let options = with_token(TOKEN).secure_cookie(true);
    let cookie = fixture.browser(options).log_in("", TOKEN).await.header("set-cookie").to_owned();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_begins_another_session_and_a_log_out_ends_it() {
    let fixture = Fixture::new("sessions").await;
    let mut browser = fixture.browser(with_token(TOKEN));
    let token_before = browser.token().await;
    let mut before = browser.clone();
    browser.log_in("", TOKEN).await.location();
    assert_ne!(browser.headers["cookie"], before.headers["cookie"]);
    assert!(before.get("overview").await.location().starts_with("login"), "the cookie from before is worth nothing");
    assert_ne!(browser.token().await, token_before);

    let mut copy = browser.clone();
    assert_eq!(browser.post("logout", &[]).await.location(), "login");
    assert!(copy.get("overview").await.location().starts_with("login"), "who has copied the cookie is out, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_that_this_page_has_not_given_is_replaced() {
    let fixture = Fixture::new("fixation").await;
    let mut browser = fixture.browser(with_token(TOKEN));
    let given = browser.get("login").await.header("set-cookie").to_owned();
    let chosen = format!("{}={}", given.split_once('=').unwrap().0, "a".repeat(64));
    let mut browser = browser.with("cookie", &chosen);
    browser.get("login").await;
    assert_ne!(browser.headers["cookie"], chosen.as_str());
}

/// The cookie that an answer gives, as a browser sends it.
fn cookie_of(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_pages_on_a_host_leave_each_other_s_log_in_alone() {
    let fixture = Fixture::new("two_pages").await;
    let (mut one, mut other) = (fixture.browser(with_token(TOKEN)), fixture.browser(with_token(TOKEN)));
    // A browser keeps one cookie of each name, and sends all of a host's to all its ports.
    let (of_one, of_other) = (cookie_of(&one.log_in("", TOKEN).await), cookie_of(&other.log_in("", TOKEN).await));
    assert_ne!(of_one.split_once('=').unwrap().0, of_other.split_once('=').unwrap().0);
    let both = format!("{of_one}; {of_other}");
    for page in [one, other] {
        let answer = page.with("cookie", &both).page("overview").await;
        assert_eq!(answer.header("set-cookie"), "", "it was logged in");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_of_pages_that_have_ended_do_not_pile_up() {
    let fixture = Fixture::new("old_cookies").await;
    for (count, removed) in [(20, 0), (21, 21)] {
        let old = (0..count).map(|number| format!("readpast_session_{number}=x; another_{number}=x"));
        let old = old.collect::<Vec<_>>().join("; ");
        let answer = fixture.browser(with_token(TOKEN)).with("cookie", &old).get("login").await;
        let given: Vec<&str> = answer.headers.get_all("set-cookie").iter().map(|it| it.to_str().unwrap()).collect();
        assert_eq!(given.len(), 1 + removed, "{given:?}");
        assert!(given[1..].iter().all(|it| it.starts_with("readpast_session_") && it.ends_with("=; Max-Age=0")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_parts_end_with_the_log_out() {
    let fixture = Fixture::new("live_log_out").await;
    let mut browser = fixture.browser(with_token(TOKEN));
    browser.log_in("", TOKEN).await.location();
    // This one reports nothing, and is sent nevertheless.
    let job = fixture.queue.enqueue(&NewJob::text("x")).await.unwrap().job_id;
    let worker = Worker::builder(&fixture.queue, Handlers::any(until_it_stops)).start().await.unwrap();
    let claimed = async || fixture.queue.admin().stats(None).await.unwrap().claimed == 1;
    until("it is claimed", claimed).await;
    let part = browser.page(&format!("job?queue=work&id={job}")).await.values("[data-live]", "data-live").remove(0);
    let mut lives = [browser.listen("events?part=overview").await, browser.listen(&part).await];
    for live in &mut lives {
        live.next().await.unwrap();
    }
    browser.post("logout", &[]).await.location();
    for mut live in lives {
        // One may have been under way.
        let mut more = 0;
        while live.next().await.is_some() {
            more += 1;
            assert!(more < 3, "it goes on");
        }
    }
    worker.shutdown().await.unwrap();
}

fn until_it_stops(_: &Job, context: &Context) -> Result<(), BoxError> {
    while !context.is_stopping() {
        std::thread::sleep(Duration::from_millis(5)); // its work
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_log_in_comes_the_page_that_was_asked_for_and_never_another_site() {
    let fixture = Fixture::new("then").await;
    let mut browser = fixture.browser(with_token(TOKEN));
    let address = browser.get("jobs?queue=a%26b&state=dead").await.location().to_owned();
    let then = browser.page(&address).await.values("input[name=then]", "value").remove(0);
    assert_eq!(then, "jobs?queue=a%26b&state=dead");
    #[rustfmt::skip]
    let elsewhere = [
        "//evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example", "https:evil.example",
        "javascript:alert(1)", "evil.example", "overview\r\nSet-Cookie: a=b", " //evil.example", "%2f%2fevil.example",
        "..//evil.example", "@evil.example", "overview@evil.example", "\u{fe6b}evil", "?then=//evil.example", "",
    ];
    for then in elsewhere {
        let answer = browser.post("login", &[("secret", TOKEN), ("then", then)]).await;
        assert_eq!(answer.location(), "overview", "{then:?}");
        browser.post("logout", &[]).await;
    }
    let answer = browser.post("login", &[("secret", TOKEN), ("then", &then)]).await;
    assert_eq!(answer.location(), then);
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_the_proxy_names_stands_in_the_audit() {
    let fixture = Fixture::new("proxy").await;
    let options =
        Options::default().access(Access::Trusted { user_header: Some(HeaderName::from_static("x-forwarded-user")) });
    let browser = fixture.browser(options);
    let browser = browser.with("host", "queues.example.com");
    let named = |name: &[u8]| {
        let mut browser = browser.clone();
        browser.headers.insert("x-forwarded-user", HeaderValue::from_bytes(name).unwrap());
        browser
    };
    for (name, who) in [("maria@example.com", "maria@example.com"), ("Jürgen Łukasz", "Jürgen Łukasz")] {
        let mut browser = named(name.as_bytes());
        browser.post("act", &[("action", "pause"), ("queue", "work")]).await.location();
        assert_eq!(fixture.audits().await[0].who, who);
    }
    let long = "x".repeat(5_000);
    let mut browser = browser.with("x-forwarded-user", &long);
    browser.post("act", &[("action", "pause"), ("queue", "work")]).await.location();
    assert_eq!(fixture.audits().await[0].who, "x".repeat(256));
    // What cannot be read is nobody's name, and must not become somebody's.
    let answer = named(b"J\xfcrgen").get("overview").await;
    assert_eq!((answer.status, answer.header("set-cookie")), (StatusCode::BAD_REQUEST, ""));
    assert_eq!(answer.texts("main p")[0], "x-forwarded-user is 'J\\xfcrgen': it must be UTF-8");
}
