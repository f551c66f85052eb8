//! `readpast health` asks over HTTP, as a container's health check does.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::support::{Run, run};

/// Answers one question with these bytes; returns what to ask.
pub fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/readyz", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut asked = [0; 1_024];
        let read = connection.read(&mut asked).unwrap();
        assert!(asked[..read].starts_with(b"GET /readyz HTTP/1.0\r\nHost: 127.0.0.1:"), "{asked:?}");
        connection.write_all(answer.as_bytes()).unwrap();
    });
    url
}

/// It needs no settings.
fn health(arguments: &[&str]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_readpast")).env_clear().arg("health").args(arguments))
}

#[test]
fn the_exit_code_says_what_the_worker_says() {
    let well = answering("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nready\n");
    assert_eq!(health(&[&well]).ok(), "ready\n");
    let unwell = answering("HTTP/1.1 503 Service Unavailable\r\n\r\nnot ready: no worker is running\n");
    let unwell = health(&[&unwell]);
    assert_eq!((unwell.code, unwell.stdout.as_str()), (1, "not ready: no worker is running\n"), "{unwell:?}");
}

#[test]
fn who_does_not_answer_is_not_well() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let message = health(&[&format!("http://{nobody}/healthz")]).failed(1);
    assert!(message.contains("does not respond"), "{message}");
    let message = health(&[&answering("220 mail.example.com ESMTP\r\n")]).failed(1);
    assert!(message.contains("not HTTP"), "{message}");
    // Somebody listens, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let message = health(&[&format!("http://{}/healthz", silent.local_addr().unwrap())]).failed(1);
    assert!(message.contains("does not respond"), "{message}");
    health(&["https://localhost/healthz"]).failed(2);
}
