//! Integrated Security: a ticket of MIT krb5's KDC, and the dev server as the service that it is for.
//!
//!     apt-get install krb5-kdc krb5-admin-server libkrb5-dev libclang-dev
//!     cargo test -p readpast-cli --features gssapi -- --ignored kerberos

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Fixture, Run, run};

const REALM: &str = "READPAST.TEST";

/// A realm of its own, with its files, ended and removed with the value.
struct Realm {
    folder: PathBuf,
    kdc: Child,
    server: Option<Child>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Realm {
    fn start(sql_server_port: u16) -> Realm {
        let folder = std::env::temp_dir().join(format!("readpast-krb5-{}", readpast::crates::uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let (here, port) = (folder.display().to_string(), free_port());
        let client = format!(
            "[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\nudp_preference_limit = 1\ndns_canonicalize_hostname = false\nrdns = false\n\
             [realms]\n{REALM} = {{\nkdc = 127.0.0.1:{port}\n}}\n[domain_realm]\nlocalhost = {REALM}\n"
        );
        std::fs::write(folder.join("krb5.conf"), client).unwrap();
        let kdc = format!(
            "[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n{REALM} = {{\n\
             database_name = {here}/principal\nkey_stash_file = {here}/stash\nacl_file = {here}/acl\n}}\n"
        );
        std::fs::write(folder.join("kdc.conf"), kdc).unwrap();
        let admin = |arguments: &[&str]| {
            let made = krb5(&folder, arguments[0]).args(&arguments[1..]).output().expect("MIT krb5 is installed");
            assert!(made.status.success(), "{arguments:?}: {made:?}");
        };
        admin(&["kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-realm"]);
        let service = format!("MSSQLSvc/localhost:{sql_server_port}");
        for (principal, keytab) in
            [("worker", "worker.keytab"), ("stranger", "stranger.keytab"), (&service, "sql.keytab")]
        {
            admin(&["kadmin.local", "-r", REALM, "-q", &format!("addprinc -randkey {principal}")]);
            admin(&["kadmin.local", "-r", REALM, "-q", &format!("ktadd -k {here}/{keytab} {principal}")]);
        }
        let kdc = krb5(&folder, "krb5kdc").args(["-n", "-r", REALM]).stderr(Stdio::null()).spawn().unwrap();
        let give_up = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < give_up, "the KDC listens");
            std::thread::sleep(Duration::from_millis(10));
        }
        Realm { folder, kdc, server: None }
    }

    /// The dev server with the service's key; its connection string for sa.
    fn start_sql_server(&mut self, port: u16) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_readpast"));
        command.args(["dev", "--json", "--port", &port.to_string()]).env("KRB5_CONFIG", self.folder.join("krb5.conf"));
        command.env("KRB5_KTNAME", self.folder.join("sql.keytab")).env("KRB5RCACHETYPE", "none");
        let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(server.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        self.server = Some(server);
        let started: serde_json::Value = serde_json::from_str(&line).unwrap();
        started["url"].as_str().unwrap().to_owned()
    }

    /// Runs the program with the keytab of a principal, or without any.
    fn enqueue(&self, port: u16, keytab: Option<&str>) -> Run {
        let url =
            format!("Server=localhost,{port};Database=readpast;Integrated Security=SSPI;TrustServerCertificate=true");
        let mut command = Command::new(env!("CARGO_BIN_EXE_readpast"));
        command.args(["enqueue", "default", "x"]).env("READPAST_URL", url);
        command.env("KRB5_CONFIG", self.folder.join("krb5.conf"));
        let cache = format!("FILE:{}/cache-{}", self.folder.display(), keytab.unwrap_or("none"));
        command.env("KRB5CCNAME", cache).env("KRB5_CLIENT_KTNAME", self.folder.join(keytab.unwrap_or("none")));
        run(&mut command)
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        for child in self.server.iter_mut().chain([&mut self.kdc]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A program of MIT krb5's, in the realm of this folder.
fn krb5(folder: &std::path::Path, program: &str) -> Command {
    let path = format!("{}:/usr/sbin:/usr/lib/mit/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.env("PATH", path).env("KRB5_CONFIG", folder.join("krb5.conf"));
    command.env("KRB5_KDC_PROFILE", folder.join("kdc.conf")).stdin(Stdio::null());
    command
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the feature gssapi and MIT krb5 (krb5-kdc, krb5-admin-server)"]
async fn a_ticket_lets_in_and_what_is_missing_is_named() {
    let port = free_port();
    let mut realm = Realm::start(port);
    let fixture = Fixture { url: realm.start_sql_server(port), schema: "readpast".to_owned() };
    fixture.sql("CREATE LOGIN [READPAST\\worker] FROM WINDOWS").await;
    fixture.sql("CREATE USER [READPAST\\worker] FOR LOGIN [READPAST\\worker]").await;
    fixture.sql("ALTER ROLE [readpast_producer] ADD MEMBER [READPAST\\worker]").await;
    realm.enqueue(port, Some("worker.keytab")).ok();
    realm.enqueue(port, Some("worker.keytab")).ok(); // with the ticket that it has now

    let no_ticket = realm.enqueue(port, None).failed(6);
    assert!(no_ticket.contains("cannot log in: Kerberos: "), "{no_ticket}");
    let no_login = realm.enqueue(port, Some("stranger.keytab")).failed(6);
    assert!(no_login.contains("18456") && no_login.contains("FROM WINDOWS"), "{no_login}");
    let _ = realm.kdc.kill();
    let _ = realm.kdc.wait();
    // Without the ticket that it has.
    std::fs::remove_file(realm.folder.join("cache-worker.keytab")).unwrap();
    let no_kdc = realm.enqueue(port, Some("worker.keytab")).failed(6);
    assert!(no_kdc.contains("cannot log in: Kerberos: "), "{no_kdc}");
}
