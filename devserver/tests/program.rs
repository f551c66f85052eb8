//! The program `readpast-devserver`, as somebody at a terminal meets it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_readpast-devserver"))
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn help_says_what_it_is_and_names_every_option() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    assert!(help.contains("It is not SQL Server"), "{help}");
    for option in [
        "--port",
        "--database",
        "--user",
        "--password",
        "--tls",
        "--edition",
        "--azure",
        "--log-sql",
        "--help",
        "--version",
    ] {
        assert!(help.contains(option), "{option} in {help}");
    }
    assert!(text(&run(&["--version"]).stdout).starts_with("readpast-devserver "));
}

#[test]
fn wrong_arguments_and_a_taken_port_are_clear_errors() {
    let output = run(&["--verbose"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--verbose is not an option"));

    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let output = run(&["--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains(&format!("port {port} of 127.0.0.1")) && message.contains("in use"), "{message}");

    let output = run(&["--version", "2014"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--version must be 2016, 2017, 2019, 2022 or 2025, not 2014"));

    let output = run(&["--port", "0", "--database", ""]);
    assert!(text(&output.stderr).contains("the database name must have 1 to 128 characters"));
}

/// A server that is killed if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn it_serves_the_user_it_was_given_and_ends_at_sigterm() {
    use tokio_util::compat::TokioAsyncWriteCompatExt;

    let arguments = [
        "--port",
        "0",
        "--user",
        "ann",
        "--password",
        "s;cret",
        "--database",
        "work",
        "--log-sql",
        "--version",
        "2017",
        "--edition",
        "express",
    ];
    let child = program().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut server = Running(child);
    let mut said = BufReader::new(server.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(said.next().expect("a first line").contains("it is not SQL Server"));
    let connection_string = said.find(|line| line.starts_with("Server=")).expect("a connection string");

    let config = tiberius::Config::from_ado_string(&connection_string).expect("it can be pasted");
    let socket = tokio::net::TcpStream::connect(config.get_addr()).await.expect("it listens");
    let mut client = tiberius::Client::connect(config, socket.compat_write()).await.expect("the login is there");
    let row = client.query("SELECT SUSER_SNAME() + N' ' + DB_NAME() + @P1", &[&"!"]).await.unwrap();
    let row = row.into_row().await.unwrap().expect("a row");
    assert_eq!(row.get(0), Some("ann work!"));
    let row = client.query("SELECT LEFT(@@VERSION, 25), SERVERPROPERTY('EngineEdition')", &[]).await.unwrap();
    let row = row.into_row().await.unwrap().expect("a row");
    assert_eq!((row.get(0), row.get(1)), (Some("Microsoft SQL Server 2017"), Some(4_i32)));
    client.simple_query("CREATE TABLE dbo.t (id int)").await.expect("the login may do everything");

    let killed = Command::new("kill").arg(server.0.id().to_string()).status().expect("kill");
    assert!(killed.success());
    assert!(server.0.wait().expect("it ends").success());
    let log = std::io::read_to_string(server.0.stderr.take().expect("piped")).expect("UTF-8");
    assert!(log.contains("EXEC sp_executesql @stmt = N'SELECT SUSER_SNAME() + N'' '' + DB_NAME() + @P1'"), "{log}");
    assert!(log.contains("@P1 = N'!'") && log.contains("CREATE TABLE dbo.t (id int)"), "{log}");
}
