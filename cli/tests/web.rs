//! `readpast web`: from where it may be reached without a log-in, and whom its file of users lets in.

#[cfg(unix)]
use std::io::{BufRead, BufReader, Read, Write};
#[cfg(unix)]
use std::net::TcpStream;
#[cfg(unix)]
use std::process::{Command, Stdio};

#[cfg(unix)]
use crate::pty::Terminal;
use crate::support::Fixture;
#[cfg(unix)]
use crate::support::temporary_folder;

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_can_reach_needs_a_log_in() {
    let fixture = Fixture::new("web").await;
    for address in ["0.0.0.0:0", "[::]:0"] {
        let said = fixture.run(&["web", "--listen", address]).failed(2);
        for way in ["--token-file", "READPAST_WEB_TOKEN", "--users", "--behind-proxy"] {
            assert!(said.contains(way), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_could_be_guessed_is_refused() {
    let fixture = Fixture::new("web_token").await;
    let mut command = fixture.command(&["web", "--listen", "0.0.0.0:0"]);
    let run = crate::support::run(command.env("READPAST_WEB_TOKEN", "short"));
    let said = run.failed(2);
    assert!(said.contains("at least 16 characters"), "{said}");
    assert!(!said.contains("short"), "the token is not shown: {said}");
}

/// Asks a page that runs for its overview, and ends it.
#[cfg(unix)]
fn overview_of(mut command: Command) -> String {
    let mut page = command.stdout(Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(page.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let started: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = started["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/');
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /overview HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(Command::new("kill").args(["-TERM", &page.id().to_string()]).status().unwrap().success());
    assert_eq!(page.wait().unwrap().code(), Some(0));
    answer
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_environment_is_asked_for() {
    let fixture = Fixture::new("web_token_works").await;
    let mut command = fixture.command(&["web", "--listen", "127.0.0.1:0", "--json"]);
    command.env("READPAST_WEB_TOKEN", "a token of 24 characters");
    let answer = overview_of(command);
    assert!(answer.starts_with("HTTP/1.1 303") && answer.contains("login?then="), "{answer}");
    // And whatever else runs where it is set does not mind.
    let mut command = fixture.command(&["queues"]);
    crate::support::run(command.env("READPAST_WEB_TOKEN", "a token of 24 characters")).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_the_file_of_users_shows_nothing_of_it() {
    let fixture = Fixture::new("web_users_wrong").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.toml");
    for wrong in [
        "[[user]]\nname = \"ann\"\npassword_hash = \"$argon2id$hunter2",
        "[[user]]\nname = \"ann\"\npassword = \"hunter2\"",
        "[[user]]\nname = \"ann\"\nhunter2 = true",
        "[[user]]\nname = \"ann\"\nread_only = \"hunter2\"",
        "user = \"hunter2\"",
        "hunter2",
        "[[user]]\nname = \"ann\"\npassword_hash = \"hunter2\"",
    ] {
        std::fs::write(&file, wrong).unwrap();
        let run = fixture.run(&["web", "--listen", "127.0.0.1:0", "--users", file.to_str().unwrap()]);
        assert_ne!(run.code, 0);
        assert!(!run.stderr.contains("hunter2") && !run.stdout.contains("hunter2"), "{wrong}: {}", run.stderr);
        assert!(run.stderr.contains("password_hash") || run.stderr.contains("password hash"), "{}", run.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_by_a_pipe_becomes_a_hash() {
    let fixture = Fixture::new("hash").await;
    let hash = fixture.run_with_input(&["hash-password"], b"a password\r\n").ok();
    assert!(readpast_web::User::new("ann", hash.trim_end()).is_ok(), "{hash}");
    let json = fixture.run_with_input(&["hash-password", "--json"], b"a password").json().remove(0);
    assert!(readpast_web::User::new("ann", json["password_hash"].as_str().unwrap()).is_ok(), "{json}");
    let said = fixture.run_with_input(&["hash-password"], b"\n").failed(2);
    assert!(said.contains("no password"), "{said}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_password_at_a_terminal_is_asked_for_twice_and_not_shown() {
    let fixture = Fixture::new("hash_terminal").await;
    let asked = |keys: [&str; 2]| {
        let mut terminal = Terminal::start(&fixture.command(&["hash-password"]), 200, 20);
        terminal.until_it_says("Password:");
        terminal.press(keys[0]);
        if keys[0].ends_with('\r') {
            terminal.until_it_says("password:");
            terminal.press(keys[1]);
        }
        let (code, text) = terminal.end();
        assert!(!text.contains("open"), "{text}");
        (code, text)
    };
    let (code, text) = asked(["open sexame\u{7f}\u{7f}\u{7f}\u{7f}same\r", "open sesame\r"]);
    let hash = text.lines().find(|line| line.starts_with("$argon2id$")).unwrap_or_default();
    assert!(code == 0 && readpast_web::User::new("ann", hash).is_ok(), "{code}: {text}");
    let (code, text) = asked(["open sesame\r", "open sesane\r"]);
    assert!(code == 2 && text.contains("the passwords differ") && !text.contains("argon2"), "{code}: {text}");
    let (code, _) = asked(["open\u{3}", ""]);
    assert_eq!(code, 130);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_users_in_the_documentation_is_taken() {
    let fixture = Fixture::new("users").await;
    let docs = include_str!("../../docs/web.md");
    let (_, rest) = docs.split_once("```toml\n").expect("a file of users");
    let (example, _) = rest.split_once("```").expect("its end");
    let shown = "$argon2id$v=19$m=19456,t=2,p=1$…$…";
    assert_eq!(example.matches(shown).count(), 2, "{example}");
    let folder = temporary_folder("users");
    let file = folder.join("users.toml");
    std::fs::write(&file, example.replace(shown, &readpast_web::hash_password("a password"))).unwrap();
    let mut command = fixture.command(&["web", "--listen", "127.0.0.1:0", "--json", "--users", file.to_str().unwrap()]);
    let mut page = command.stdout(Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(page.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(line.starts_with("{\"url\":\"http://127.0.0.1:"), "{line}");
    assert!(Command::new("kill").args(["-TERM", &page.id().to_string()]).status().unwrap().success());
    assert_eq!(page.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_cannot_show_stands_in_the_log() {
    let fixture = Fixture::new("web_log").await;
    let login = fixture.login(Some("producer")).await;
    let mut command = fixture.command_as(&login, &["web", "--listen", "127.0.0.1:0", "--json"]);
    let mut page = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let line = BufReader::new(page.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let started: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = started["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/');
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /queue?queue=work HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("_monitor"), "{answer}");
    assert!(Command::new("kill").args(["-TERM", &page.id().to_string()]).status().unwrap().success());
    let mut log = String::new();
    page.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("cannot show a page") && log.contains("permission denied"), "{log}");
    assert_eq!(page.wait().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_header_that_no_request_can_have_is_refused() {
    let fixture = Fixture::new("web_header").await;
    let said = fixture.run(&["web", "--behind-proxy", "--user-header", "forwarded user"]).failed(2);
    assert!(said.contains("--user-header") && said.contains("forwarded user"), "{said}");
}
