//! `readpast web`: from where it may be reached without a log-in.

use crate::support::Fixture;

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
    assert!(said.contains("fewer than 16 characters"), "{said}");
    assert!(!said.contains("short"), "the token is not shown: {said}");
}
