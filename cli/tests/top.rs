//! `top`: the live screen in a terminal, what its keys do in the database, and how it ends.

use std::time::Duration;

use readpast::admin::JobState;
use readpast::{Handlers, JobError, NewJob, Queue, Worker};

use crate::proxy::Proxy;
use crate::pty::Terminal;
use crate::support::{Fixture, until};

/// Keys as a terminal sends them.
const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";
const DOWN: &str = "\x1b[B";

/// `top` that asks often.
fn top(fixture: &Fixture, url: &str) -> Terminal {
    Terminal::start(&fixture.command_as(url, &["top", "--interval", "200ms"]), 100, 30)
}

/// Lets so many jobs die, each with its payload in its error.
async fn die(queue: &Queue, payloads: &[&str]) {
    let jobs: Vec<NewJob> = payloads.iter().map(|payload| NewJob::text(*payload).kind("resize")).collect();
    queue.enqueue_many(&jobs).await.unwrap();
    let handlers = Handlers::new().kind("resize", |job: &readpast::Job, _context: &readpast::Context| {
        Err::<(), _>(JobError::dead(format!("cannot read {}", job.text()?)).into())
    });
    Worker::builder(queue, handlers).start().await.unwrap().drain().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_screen_shows_queues_and_pauses_one() {
    let fixture = Fixture::new("top_pause").await;
    let queue = fixture.queue("work").await;
    queue.enqueue_many(&[NewJob::text("a"), NewJob::text("b")]).await.unwrap();
    let mut terminal = top(&fixture, &fixture.url);
    let screen = terminal.until_it_says("no worker");
    assert!(screen.contains("QUEUE") && screen.contains("work"), "{screen}");
    terminal.press("p");
    terminal.until_it_says("Pause work? Its jobs are then no longer claimed. y/n");
    assert!(!queue.admin().stats(None).await.unwrap().paused, "it asks first");
    terminal.press("y");
    terminal.until_it_says("work is paused; running jobs continue");
    assert!(queue.admin().stats(None).await.unwrap().paused);
    terminal.press("py");
    terminal.until_it_says("work is resumed");
    assert!(!queue.admin().stats(None).await.unwrap().paused);
    // What others do is seen too.
    queue.enqueue(&NewJob::text("c")).await.unwrap();
    terminal.until(|screen| screen.lines().any(|line| line.starts_with("work") && line.contains(" 3 ")));
    terminal.press("q");
    let (code, left) = terminal.end();
    assert_eq!((code, left.as_str()), (0, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_goes_down_to_a_dead_job_and_requeues_it() {
    let fixture = Fixture::new("top_dead").await;
    let queue = fixture.queue("work").await;
    die(&queue, &["cat.png", "dog.png"]).await;
    let mut terminal = top(&fixture, &fixture.url);
    terminal.until_it_says("no worker");
    terminal.press(ENTER);
    let screen = terminal.until_it_says("cannot read dog.png");
    assert!(screen.contains("DEAD 2") && screen.contains("WORKERS 0") && screen.contains("RUNNING 0"), "{screen}");
    terminal.press(DOWN);
    terminal.press(ENTER);
    let screen = terminal.until_it_says("FAILED ATTEMPTS");
    assert!(screen.contains("PAYLOAD\ncat.png"), "{screen}");
    terminal.press("r");
    terminal.until_it_says("requeued 1 job of work");
    terminal.until(|screen| screen.lines().any(|line| line.starts_with("state") && line.contains("ready")));
    terminal.press(ESCAPE);
    terminal.until_it_says("DEAD 1");
    terminal.press("Ry");
    terminal.until_it_says("DEAD 0");
    assert_eq!(queue.admin().list(&JobState::Ready.into(), None, 10).await.unwrap().jobs.len(), 2);
    terminal.press("\x03");
    assert_eq!(terminal.end().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_shown_with_what_it_holds_and_what_limits_it() {
    let fixture = Fixture::new("top_worker").await;
    let queue = fixture.queue("work").await;
    let mut config = fixture.config("work").worker;
    config.name = "node-7".to_owned();
    config.heartbeat_interval = Duration::from_millis(100);
    config.threads = 1;
    queue.enqueue(&NewJob::text("long").kind("long")).await.unwrap();
    let handlers = Handlers::new().kind("long", |_job: &readpast::Job, context: &readpast::Context| {
        context.progress(0.25, "page 1 of 4");
        while !context.is_stopping() {
            std::thread::park_timeout(Duration::from_millis(10)); // until the test has seen it
        }
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&config).start().await.unwrap();
    let mut terminal = top(&fixture, &fixture.url);
    terminal.until_it_says("busy");
    terminal.press(ENTER);
    let screen = terminal.until_it_says("25% page 1 of 4");
    let line = screen.lines().find(|line| line.starts_with("node-7")).expect("the worker's line");
    assert!(line.contains(" 1     1 ") && line.contains("busy"), "it holds and runs one: {line}");
    worker.shutdown().await.unwrap();
    terminal.until_it_says("WORKERS 0");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_said_and_mended() {
    let fixture = Fixture::new("top_lost").await;
    let queue = fixture.queue("work").await;
    let proxy = Proxy::start(&fixture.url).await;
    let mut terminal = top(&fixture, proxy.url());
    terminal.until_it_says("no worker");
    proxy.close();
    let screen = terminal.until_it_says("no response, retrying");
    assert!(screen.contains("no worker"), "what was read stays: {screen}");
    // It answers keys meanwhile.
    terminal.press("?");
    terminal.until_it_says("KEYS");
    terminal.press("?");
    queue.enqueue_many(&vec![NewJob::text("while away"); 7]).await.unwrap();
    proxy.open();
    terminal.until(|screen| !screen.contains("no response") && screen.contains(" 7 "));
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_answered_while_the_server_is_not_answering() {
    let fixture = Fixture::new("top_stalled").await;
    let proxy = Proxy::start(&fixture.url).await;
    let mut terminal = top(&fixture, proxy.url());
    terminal.until_it_says("no worker");
    proxy.stall();
    terminal.until_it_says("waiting for the server for");
    terminal.press(ENTER);
    terminal.until_it_says("Reading its jobs");
    terminal.press("py");
    terminal.until_it_says("waiting for the server");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_sees_all_and_is_told_which_role_acts() {
    let fixture = Fixture::new("top_monitor").await;
    let queue = fixture.queue("work").await;
    die(&queue, &["cat.png"]).await;
    let monitor = fixture.login(Some("monitor")).await;
    let mut terminal = top(&fixture, &monitor);
    terminal.until_it_says("no worker");
    terminal.press("py");
    let screen = terminal.until_it_says("your login may not do this");
    assert!(screen.contains(&format!("{}_operator", fixture.schema)), "{screen}");
    assert!(!queue.admin().stats(None).await.unwrap().paused);
    terminal.press(ENTER);
    terminal.until_it_says("cannot read cat.png");
    terminal.press(ENTER);
    terminal.until_it_says("FAILED ATTEMPTS");
    terminal.press("q");
    assert_eq!(terminal.end().0, 0);
    // Who may not even look is told before there is a screen.
    let producer = fixture.login(Some("producer")).await;
    let (code, left) = top(&fixture, &producer).end();
    assert_eq!(code, 5, "{left}");
    assert!(left.contains("permission denied"), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_gives_the_terminal_back_and_any_size_will_do() {
    let fixture = Fixture::new("top_sigterm").await;
    let terminal = top(&fixture, &fixture.url);
    terminal.until_it_says("no worker");
    terminal.resize(20, 3);
    terminal.until(|screen| screen.starts_with("QUEUE") && screen.contains("work"));
    terminal.resize(100, 30);
    terminal.until_it_says("no worker");
    terminal.signal("TERM");
    assert_eq!(terminal.end().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_signals_that_end_it_give_the_terminal_back_too() {
    let fixture = Fixture::new("top_signals").await;
    for signal in ["QUIT", "HUP", "INT"] {
        let terminal = top(&fixture, &fixture.url);
        terminal.until_it_says("no worker");
        terminal.signal(signal);
        assert_eq!(terminal.end().0, 0, "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_show_a_screen_is_told_what_can() {
    let fixture = Fixture::new("top_dumb").await;
    assert!(fixture.run(&["top"]).failed(2).contains("readpast stats --watch"));
    assert!(fixture.run(&["top", "--interval", "1ms"]).failed(2).contains("at least 100ms"));
    assert!(fixture.run(&["stats", "--watch", "0"]).failed(2).contains("at least 0.1"));
    let mut dumb = fixture.command(&["top"]);
    dumb.env("TERM", "dumb");
    let (code, left) = Terminal::start(&dumb, 80, 24).end();
    assert_eq!(code, 2);
    assert!(left.contains("readpast stats --watch"), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_and_sigterm_end_it_while_it_connects() {
    let fixture = Fixture::new("top_connects").await;
    let proxy = Proxy::start(&fixture.url).await;
    proxy.stall();
    let mut terminal = top(&fixture, proxy.url());
    // Before the signals are taken over, they end it themselves; the connection comes after that.
    until("it connects", async || proxy.connections() == 1).await;
    terminal.press("\x03");
    assert_eq!(terminal.end().0, 0);
    let terminal = top(&fixture, proxy.url());
    until("it connects again", async || proxy.connections() == 2).await;
    terminal.signal("TERM");
    assert_eq!(terminal.end().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_held_asks_once_at_a_time() {
    let fixture = Fixture::new("top_held").await;
    let proxy = Proxy::start(&fixture.url).await;
    let mut terminal = top(&fixture, proxy.url());
    terminal.until_it_says("no worker");
    proxy.stall();
    terminal.until_it_says("waiting for the server for");
    let before = proxy.connections();
    terminal.press(&"g".repeat(50));
    terminal.press("?"); // drawn when all of them were read
    terminal.until_it_says("KEYS");
    // Each question would need connections of its own.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(proxy.connections() <= before + 1, "{} after {before}", proxy.connections());
    terminal.press("qq");
    assert_eq!(terminal.end().0, 0);
}
