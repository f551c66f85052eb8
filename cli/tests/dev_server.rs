//! `dev` and `demo`: what somebody runs who has no SQL Server.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use readpast::{NewJob, Queue};

use crate::pty::Terminal;
use crate::support::run;

/// The program, with nothing set up.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_readpast"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("READPAST_")) {
        command.env_remove(name);
    }
    command.env("TZ", "UTC").env("NO_COLOR", "1").stdin(Stdio::null()).args(arguments);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_prints_a_connection_string_that_works_and_ends_on_sigterm() {
    let mut dev = command(&["dev", "--password", "it's; so"]);
    let mut child = dev.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let export = { lines }.find(|line| line.starts_with("export ")).expect("a line to copy");
    // As a shell reads it.
    let shell = Command::new("sh").args(["-c", &format!("{export}; printf %s \"$READPAST_URL\"")]).output().unwrap();
    let url = String::from_utf8(shell.stdout).unwrap();
    let queue = Queue::from_url(url.as_str(), "default").await.unwrap();
    queue.enqueue(&NewJob::text("x")).await.unwrap();
    assert!(run(command(&["stats", "default"]).env("READPAST_URL", &url)).ok().contains("default"));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_tells_a_program_where_it_is() {
    let mut dev = command(&["dev", "--json", "--schema", "work", "--tls", "off"]);
    let mut child = dev.stdout(Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let started: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!([&started["schema"], &started["queue"]], ["work", "default"]);
    let url = started["url"].as_str().unwrap();
    assert!(url.contains("Encrypt=false"), "{url}");
    let stats = run(command(&["stats", "--json"]).env("READPAST_URL", url).env("READPAST_SCHEMA", "work")).json();
    assert_eq!(stats[0]["queue"], "default");
    // Where its port is taken, another one says so.
    let port = started["address"].as_str().unwrap().rsplit(':').next().unwrap();
    assert!(run(&mut command(&["dev", "--port", port])).failed(1).contains(port));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn demo_without_a_terminal_prints_a_line_a_second_and_a_summary() {
    // Whatever is set up is none of its business.
    let mut demo = command(&["demo", "--seconds", "3"]);
    let text = run(demo.env("READPAST_URL", "nonsense").env("READPAST_WORKER_THREADS", "none")).ok();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 5 && lines[2].starts_with("  3 s  hash: ") && lines[2].contains("|  sort: "), "{text}");
    let done: u64 = lines[3].split(' ').next().unwrap().replace(',', "").parse().unwrap();
    assert!(done > 0 && lines[3].contains("jobs done in 3."), "{text}");
}

#[test]
fn demo_in_a_terminal_is_the_screen_of_top() {
    let mut terminal = Terminal::start(&command(&["demo"]), 80, 24);
    let busy = |line: &str| line.starts_with("hash") || line.starts_with("sort");
    let screen = terminal.until(|screen| screen.lines().filter(|line| busy(line)).count() == 2);
    assert!(screen.contains("readpast demo") && screen.contains("2 workers"), "{screen}");
    // A worker has reported something.
    terminal.press("\r");
    terminal.until(|screen| {
        screen.lines().any(|line| line.starts_with("demo") && line.split_whitespace().nth(3) != Some("-"))
    });
    terminal.press("q");
    let (code, left) = terminal.end();
    assert_eq!(code, 0);
    assert!(left.contains("jobs done in"), "{left}");
}

#[test]
fn demo_in_a_terminal_ends_after_its_time() {
    let terminal = Terminal::start(&command(&["demo", "--seconds", "1"]), 80, 24);
    let (code, left) = terminal.end();
    assert_eq!(code, 0);
    assert!(left.contains("jobs done in"), "{left}");
}
