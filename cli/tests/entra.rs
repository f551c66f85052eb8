//! Logins by Microsoft Entra ID: the program asks for its token as it does on Azure, and logs in to the dev server with
//! it.
//!
//! Of Entra's ways only the managed identity asks a place that a test can be ("How to use managed identities for App
//! Service and Azure Functions", the REST endpoint): the others ask login.microsoftonline.com over HTTPS.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, UNIX_EPOCH};

use readpast_devserver::DevServer;
use readpast_devserver::access_token::now;

use crate::support::{Fixture, run};

const HOUR: Duration = Duration::from_secs(3600);

/// The platform's endpoint of tokens: answers each request so, and notes it.
struct Endpoint {
    url: String,
    requests: mpsc::Receiver<String>,
}

impl Endpoint {
    fn start(status: &'static str, answer: String) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/msi/token", listener.local_addr().unwrap());
        let (note, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
                let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let _ = note.send(request.join("\n"));
                let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n");
                let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{answer}", answer.len());
            }
        });
        Endpoint { url, requests }
    }
}

struct Setup {
    server: DevServer,
    fixture: Fixture,
}

impl Setup {
    async fn new() -> Setup {
        let server = DevServer::start().await.unwrap();
        let fixture = Fixture { url: server.connection_string(), schema: "entra".to_owned() };
        let queue = fixture.queue("work").await;
        queue.admin().install().await.unwrap();
        queue.admin().create(readpast::admin::QueueOptions::default()).await.unwrap();
        fixture.sql("CREATE USER [readpast-worker] FROM EXTERNAL PROVIDER").await;
        fixture.sql("ALTER ROLE [entra_producer] ADD MEMBER [readpast-worker]").await;
        Setup { server, fixture }
    }

    /// The program as it runs on App Service.
    fn enqueue(&self, authentication: &str, endpoint: &Endpoint) -> Command {
        let url = self.fixture.url.replace("User ID=sa;Password=readpast;", "");
        let url = format!("{url};Authentication={authentication}");
        let mut command = self.fixture.command_as(&url, &["enqueue", "work", "x"]);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AZURE_")) {
            command.env_remove(name);
        }
        command.env("IDENTITY_ENDPOINT", &endpoint.url).env("IDENTITY_HEADER", "of-the-platform");
        command.env("NO_PROXY", "127.0.0.1");
        command
    }

    /// The endpoint's answer with a token for this login.
    fn token(&self, login: &str) -> String {
        let expires_at = now() + HOUR;
        let seconds = expires_at.duration_since(UNIX_EPOCH).unwrap().as_secs();
        serde_json::json!({
            "access_token": self.server.access_token(login, HOUR),
            "expires_on": seconds.to_string(),
            "resource": "https://database.windows.net",
            "token_type": "Bearer",
        })
        .to_string()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_identity_gets_a_token_and_is_let_in() {
    let setup = Setup::new().await;
    let endpoint = Endpoint::start("200 OK", setup.token("readpast-worker"));
    let user_assigned = "Active Directory Managed Identity;User ID=11111111-2222-3333-4444-555555555555";
    run(&mut setup.enqueue(user_assigned, &endpoint)).ok();
    let request = endpoint.requests.recv().unwrap().to_lowercase();
    for asked in ["resource=https%3a%2f%2fdatabase.windows.net", "client_id=11111111-2222-", "of-the-platform"] {
        assert!(request.contains(asked), "{request}");
    }
    run(&mut setup.enqueue("Active Directory Default", &endpoint)).ok();
    assert!(!endpoint.requests.recv().unwrap().contains("client_id"));
    assert_eq!(endpoint.requests.try_iter().count(), 0, "one token for all connections of a run");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_without_a_token_or_without_a_user_is_named() {
    let setup = Setup::new().await;
    let managed = "Active Directory Managed Identity";
    let refused = Endpoint::start(
        "400 Bad Request",
        r#"{"error":"invalid_request","error_description":"Identity not found"}"#.into(),
    );
    let message = run(&mut setup.enqueue(managed, &refused)).failed(6);
    assert!(
        message.contains("cannot log in: the managed identity: ") && message.contains("has not been assigned"),
        "{message}"
    );
    let stranger = Endpoint::start("200 OK", setup.token("stranger"));
    let message = run(&mut setup.enqueue(managed, &stranger)).failed(6);
    assert!(message.contains("18456") && message.contains("FROM EXTERNAL PROVIDER"), "{message}");
}
