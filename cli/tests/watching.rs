//! `stats --watch`: queues in numbers, again and again.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use readpast::NewJob;

use crate::proxy::Proxy;
use crate::pty::Terminal;
use crate::support::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn watching_prints_again_and_again_also_after_the_server_was_away() {
    let fixture = Fixture::new("stats_watch").await;
    let queue = fixture.queue("work").await;
    let proxy = Proxy::start(&fixture.url).await;
    let mut command = fixture.command_as(proxy.url(), &["stats", "--watch", "0.2", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut ready = || {
        let row: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(row["queue"] == "work" && row["at"].as_str().unwrap().ends_with('Z'), "{row}");
        row["ready"].as_u64().unwrap()
    };
    assert_eq!([ready(), ready()], [0, 0]);
    proxy.close();
    let error = errors.next().unwrap().unwrap();
    assert!(error.contains("retrying"), "{error}");
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    proxy.open();
    while ready() == 0 {}
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_repaints_a_terminal() {
    let fixture = Fixture::new("stats_repaint").await;
    let queue = fixture.queue("work").await;
    let command = fixture.command(&["stats", "--watch", "0.2"]);
    let mut terminal = Terminal::start(&command, 120, 30);
    let is_row = |line: &str, ready: &str| line.starts_with("work") && line[4..].trim_start().starts_with(ready);
    terminal.until(|screen| screen.lines().any(|line| is_row(line, "0 ")));
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    let screen = terminal.until(|screen| screen.lines().any(|line| is_row(line, "1 ")));
    assert_eq!(screen.matches("QUEUE").count(), 1, "{screen}");
    terminal.press("\x03");
    assert_eq!(terminal.end().0, 0);
}
