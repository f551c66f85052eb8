//! Logins that change while workers run: passwords in files, access tokens; and TDS 8.0.
//!
//! On the dev server alone: SQL Server outside of Azure knows no tokens of ours, and its certificate is not at hand.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use readpast::admin::QueueOptions;
use readpast::config::{AccessToken, TokenSource};
use readpast::{BoxError, Error, Handlers, Queue, Summary, Worker};
use readpast_devserver::DevServer;
use readpast_devserver::access_token::now;
use readpast_devserver::error::SqlError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::proxy::Proxy;
use crate::support::{Fixture, numbers, until};

const HOUR: Duration = Duration::from_secs(3600);

/// A file with this text, removed with the value.
struct TemporaryFile(std::path::PathBuf);

impl TemporaryFile {
    fn new(extension: &str, text: &str) -> TemporaryFile {
        let file = std::env::temp_dir().join(format!("readpast-{}.{extension}", uuid::Uuid::new_v4()));
        std::fs::write(&file, text).unwrap();
        TemporaryFile(file)
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A worker that runs until its stop handle is called.
struct Running {
    stop: readpast::StopHandle,
    monitor: readpast::WorkerMonitor,
    ended: JoinHandle<Result<Summary, Error>>,
}

impl Running {
    async fn start(queue: &Queue) -> Running {
        let worker = Worker::builder(queue, Handlers::any(|_, _| Ok(()))).start().await.unwrap();
        let (stop, monitor) = (worker.stop_handle(), worker.monitor());
        Running { stop, monitor, ended: tokio::spawn(worker.run()) }
    }

    async fn has_done(&self, jobs: u64) {
        until("the jobs are done", || self.monitor.stats().done == jobs).await;
    }

    async fn end(self, jobs: u64) {
        assert!(!self.ended.is_finished(), "nothing has stopped it");
        self.has_done(jobs).await;
        self.stop.stop();
        let stats = self.ended.await.unwrap().unwrap().stats;
        assert_eq!((stats.done, stats.lost, stats.dead), (jobs, 0, 0));
    }
}

mod strict_encryption {
    use super::*;

    fn url(server: &DevServer, rest: &str) -> String {
        format!("{};TrustServerCertificate=false;Encrypt=Strict;{rest}", server.connection_string())
    }

    async fn connect(url: String) -> Result<Queue, Error> {
        let mut config = readpast::Config::default();
        config.connection.url = url.into();
        Queue::connect(&config).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_run_over_tds_8() {
        let server = DevServer::start().await.unwrap();
        let authority = TemporaryFile::new("pem", server.certificate());
        let mut fixture = Fixture::on(&server, "strict", QueueOptions::default()).await;
        fixture.config.connection.url = url(&server, &format!("TrustServerCertificateCA={}", authority.path())).into();
        let queue = fixture.connect().await;
        queue.enqueue_many(&numbers(10)).await.unwrap();
        let worker = Running::start(&queue).await;
        worker.end(10).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_certificate_is_checked_with_its_name() {
        let server = DevServer::start().await.unwrap();
        let authority = TemporaryFile::new("crt", server.certificate());
        let trusted = format!("TrustServerCertificateCA={}", authority.path());
        let unknown = connect(url(&server, "")).await.map(|_| ()).unwrap_err();
        assert!(matches!(unknown, Error::Tls { .. }), "{unknown:?}");
        let port = server.address().port();
        connect(url(&server, &format!("{trusted};Server=localhost,{port}"))).await.unwrap();
        connect(url(&server, &format!("{trusted};HostNameInCertificate=localhost"))).await.unwrap();
        let other = format!("{trusted};HostNameInCertificate=db1.contoso.com");
        let other = connect(url(&server, &other)).await.map(|_| ()).unwrap_err();
        assert!(other.to_string().contains("HostNameInCertificate=<name>"), "{other}");
    }

    /// "TDS 8.0" (MicrosoftDocs/sql-docs, docs/relational-databases/security/networking/tds-8.md): TLS comes before
    /// anything else. TDS 7.4 begins with PRELOGIN, 0x12.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_first_byte_is_tls_s() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepting = std::thread::spawn(move || {
            let mut first = [0];
            listener.accept().unwrap().0.read_exact(&mut first).unwrap();
            first[0]
        });
        let refused = connect(format!("Server=127.0.0.1,{port};UID=u;PWD=p;Encrypt=Strict")).await;
        assert!(refused.is_err());
        assert_eq!(accepting.join().unwrap(), 0x16);
    }
}

mod password_file {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_password_that_changes_stops_no_worker() {
        let server = DevServer::start().await.unwrap();
        let mut fixture = Fixture::on(&server, "password_file", QueueOptions::default()).await;
        fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
        let login = fixture.create_login(Some("worker")).await;
        let file = TemporaryFile::new("txt", &format!("{}\n", login.password));
        let proxy = Proxy::start(&fixture.url().replace("Password=readpast;", "")).await;
        fixture.config.connection.url = format!("{};User ID={}", proxy.connection_string(), login.name).into();
        fixture.config.connection.password_file = file.path();
        let worker = Running::start(&fixture.connect().await).await;
        worker.has_done(5).await;

        fixture.sql(&format!("ALTER LOGIN [{}] WITH PASSWORD = N'Pw2-new'", login.name)).await;
        // The file follows later than the connections break.
        proxy.cut();
        let connections_before = proxy.connections();
        fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
        until("the old password is tried", || proxy.connections() > connections_before).await;
        let error = fixture.connect_error().await;
        assert!(!error.is_transient(), "somebody who starts now hears of it at once: {error}");
        assert!(error.to_string().contains(&file.path()), "{error}");
        file.write("Pw2-new");
        worker.end(10).await;
        assert!(proxy.connections() - connections_before < 20, "the wrong password is not sent again and again");
    }

    /// "Password policy" (MicrosoftDocs/sql-docs, docs/relational-databases/security/password-policy.md): SQL Server
    /// locks a login after some wrong passwords.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_wrong_password_is_sent_once_however_many_want_a_connection() {
        let server = DevServer::start().await.unwrap();
        let mut fixture = Fixture::on(&server, "sent_once", QueueOptions::default()).await;
        let login = fixture.create_login(Some("producer")).await;
        let file = TemporaryFile::new("txt", &login.password);
        let proxy = Proxy::start(&fixture.url().replace("Password=readpast;", "")).await;
        fixture.config.connection.url = format!("{};User ID={}", proxy.connection_string(), login.name).into();
        fixture.config.connection.password_file = file.path();
        let queue = fixture.connect().await;
        queue.enqueue_many(&numbers(1)).await.unwrap(); // which asks for the schema's version first
        fixture.sql(&format!("ALTER LOGIN [{}] WITH PASSWORD = N'Pw2-new'", login.name)).await;
        file.write("not yet");
        proxy.cut();
        until("the connection is closed", || proxy.is_closed()).await;
        let connections_before = proxy.connections();
        // Time for all to connect, before the first has its answer.
        proxy.delay_connections(Duration::from_millis(200));

        let enqueueing: Vec<_> = (0..8)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.enqueue_many(&numbers(1)).await })
            })
            .collect();
        until("it is sent", || proxy.connections() > connections_before).await;
        for wrong in 2..=4 {
            file.write(&format!("not yet {wrong}"));
            until("another is sent at once", || proxy.connections() >= connections_before + wrong).await;
        }
        assert_eq!(proxy.connections() - connections_before, 4);
        proxy.delay_connections(Duration::ZERO);
        file.write("Pw2-new");
        for enqueued in enqueueing {
            enqueued.await.unwrap().unwrap();
        }
        assert_eq!(fixture.job_counts().await.ready, 9);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_is_not_there_is_named() {
        let server = DevServer::start().await.unwrap();
        let mut fixture = Fixture::on(&server, "no_file", QueueOptions::default()).await;
        fixture.config.connection.url = fixture.url().replace("Password=readpast;", "").into();
        fixture.config.connection.password_file = "/no/such/secret".into();
        let error = fixture.connect_error().await;
        assert!(matches!(error, Error::Credentials { .. }), "{error:?}");
        assert!(error.to_string().contains("the password file /no/such/secret"), "{error}");
    }
}

mod tokens {
    use super::*;

    /// Gives what `next` says, once it is open.
    struct Source {
        asked: Arc<AtomicUsize>,
        answer: Arc<Mutex<Result<AccessToken, String>>>,
        open: watch::Sender<bool>,
        tokens: TokenSource,
    }

    impl Source {
        fn new(first: AccessToken) -> Source {
            let asked = Arc::new(AtomicUsize::new(0));
            let answer = Arc::new(Mutex::new(Ok(first)));
            let open = watch::Sender::new(true);
            let (counted, next, opened) = (asked.clone(), answer.clone(), open.subscribe());
            let tokens = TokenSource::new(move || {
                counted.fetch_add(1, Ordering::AcqRel);
                let (next, mut opened) = (next.clone(), opened.clone());
                async move {
                    opened.wait_for(|open| *open).await?;
                    let answer = next.lock().clone();
                    answer.map_err(BoxError::from)
                }
            });
            Source { asked, answer, open, tokens }
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Acquire)
        }

        fn gives(&self, answer: Result<AccessToken, &str>) {
            *self.answer.lock() = answer.map_err(str::to_string);
        }
    }

    /// A queue whose connections go through a proxy and log in with the source's tokens.
    struct Setup {
        server: DevServer,
        fixture: Fixture,
        proxy: Proxy,
        source: Source,
    }

    impl Setup {
        async fn new(name: &str) -> Setup {
            let server = DevServer::start().await.unwrap();
            let mut fixture = Fixture::on(&server, name, QueueOptions::default()).await;
            for user in ["render-service", "render-service-2"] {
                fixture.sql(&format!("CREATE USER [{user}] FROM EXTERNAL PROVIDER")).await;
                for role in ["worker", "producer"] {
                    fixture.sql(&format!("ALTER ROLE [$(schema)_{role}] ADD MEMBER [{user}]")).await;
                }
            }
            let proxy = Proxy::start(&fixture.url().replace("User ID=sa;Password=readpast;", "")).await;
            fixture.config.connection.url = format!("{};Encrypt=true", proxy.connection_string()).into();
            let source = Source::new(token(&server, "render-service", HOUR));
            fixture.config.connection.token_source = Some(source.tokens.clone());
            Setup { server, fixture, proxy, source }
        }
    }

    fn token(server: &DevServer, user: &str, lives_for: Duration) -> AccessToken {
        AccessToken::new(server.access_token(user, lives_for), now() + lives_for)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn all_connections_share_one_token() {
        let setup = Setup::new("one_token").await;
        let queue = setup.fixture.connect().await;
        let worker = Running::start(&queue).await;
        let enqueueing: Vec<_> = (0..30)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.enqueue_many(&numbers(2)).await.unwrap() })
            })
            .collect();
        for enqueued in enqueueing {
            enqueued.await.unwrap();
        }
        worker.end(60).await;
        assert!(setup.proxy.connections() >= 8, "{}", setup.proxy.connections());
        assert_eq!(setup.source.asked(), 1);
    }

    /// dotnet/SqlClient#2792: Azure SQL looks at the token of an open connection again after hours.
    /// dotnet/SqlClient#617,
    /// #1333 and #3245: it may then say what it says to a login, with state 233 (azuredatastudio#14497).
    #[tokio::test(flavor = "multi_thread")]
    async fn a_token_that_runs_out_in_mid_run_costs_a_connection() {
        let setup = Setup::new("mid_run").await;
        setup.source.gives(Ok(token(&setup.server, "render-service", Duration::from_secs(4))));
        let queue = setup.fixture.connect().await;
        let worker = Running::start(&queue).await;
        queue.enqueue_many(&numbers(5)).await.unwrap();
        worker.has_done(5).await;
        setup.source.gives(Ok(token(&setup.server, "render-service", HOUR)));
        let errors = [
            SqlError::new(37396, "Query cannot be executed, access token is expired.").severity(16),
            SqlError::new(18456, "Login failed for user '<token-identified principal>'. Token is expired.")
                .severity(14),
            SqlError::new(18456, "Login failed for user '<token-identified principal>'.").severity(14).state(233),
        ];
        let mut jobs = 5;
        for error in errors {
            let refused = Arc::new(AtomicUsize::new(0));
            for procedure in ["claim", "finish", "enqueue_batch"] {
                let (procedure, refused) = (format!("{}.{procedure}", setup.fixture.schema()), refused.clone());
                let error = error.clone();
                setup.server.faults().on_call(&procedure, move |call| {
                    let is_first = call == 1;
                    refused.fetch_add(usize::from(is_first), Ordering::AcqRel);
                    is_first.then(|| error.clone())
                });
            }
            queue.enqueue_many(&numbers(5)).await.unwrap();
            jobs += 5;
            worker.has_done(jobs).await;
            assert_eq!(refused.load(Ordering::Acquire), 3);
        }
        worker.end(jobs).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_source_that_hangs_or_fails_is_named_and_waited_for() {
        let setup = Setup::new("waiting").await;
        let queue = setup.fixture.connect().await;
        let worker = Running::start(&queue).await;
        queue.enqueue_many(&numbers(5)).await.unwrap();
        worker.has_done(5).await;

        // No token is kept any more, and there is none to be had.
        let mut config = setup.fixture.config.clone();
        config.connection.url = setup.fixture.url().into();
        config.connection.token_source = None;
        let admin = Queue::connect(&config).await.unwrap();
        setup.source.gives(Err("the vault is sealed"));
        setup.fixture.sql("DROP USER [render-service]").await;
        setup.fixture.sql("DROP LOGIN [render-service]").await;
        let asked_before = setup.source.asked();
        setup.proxy.cut();
        admin.enqueue_many(&numbers(5)).await.unwrap();
        until("the source has failed", || setup.source.asked() > asked_before + 1).await;
        let error = setup.fixture.connect_error().await;
        assert!(error.is_transient(), "{error:?}");
        assert!(error.to_string().contains("the program's token source: the vault is sealed"), "{error}");

        setup.source.open.send_replace(false);
        let mut hasty = setup.fixture.config.clone();
        hasty.connection.connect_timeout = Duration::from_millis(100);
        loop {
            let error = Queue::connect(&hasty).await.map(|_| ()).unwrap_err();
            assert!(error.is_transient(), "{error:?}");
            if error.to_string().contains("the program's token source: no response within 100 ms") {
                break;
            }
            assert!(error.to_string().contains("the vault is sealed"), "the pause after the last failure: {error}");
        }

        setup.source.gives(Ok(token(&setup.server, "render-service-2", HOUR)));
        setup.source.open.send_replace(true);
        worker.end(10).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_fetch_outlives_those_who_have_no_time_for_it() {
        let setup = Setup::new("outlives").await;
        setup.source.open.send_replace(false);
        let mut hasty = setup.fixture.config.clone();
        hasty.connection.connect_timeout = Duration::from_millis(100);
        for _ in 0..3 {
            let error = Queue::connect(&hasty).await.map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("no response within 100 ms"), "{error}");
        }
        setup.source.open.send_replace(true);
        setup.fixture.connect().await;
        assert_eq!(setup.source.asked(), 1);
    }

    /// Azure SQL under maintenance, or a user who is made anew.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_new_token_that_is_refused_stops_no_worker() {
        let setup = Setup::new("stops_none").await;
        let queue = setup.fixture.connect().await;
        queue.enqueue_many(&numbers(5)).await.unwrap();
        let worker = Running::start(&queue).await;
        worker.has_done(5).await;
        setup.fixture.sql("DROP USER [render-service]").await;
        setup.fixture.sql("DROP LOGIN [render-service]").await;
        setup.proxy.cut();
        until("another token is fetched", || setup.source.asked() == 2).await;
        let mut error = queue.admin().stats(None).await.unwrap_err();
        if matches!(error, Error::ConnectionLost { .. }) {
            error = queue.admin().stats(None).await.unwrap_err(); // the end of the one that was cut had not come yet
        }
        assert!(matches!(error, Error::LoginFailed { number: 18456, .. }) && error.is_transient(), "{error:?}");
        let error = setup.fixture.connect_error().await;
        assert!(!error.is_transient(), "somebody who starts now hears of it at once: {error}");
        setup.source.gives(Ok(token(&setup.server, "render-service-2", HOUR)));
        setup.fixture.queue.enqueue_many(&numbers(5)).await.unwrap();
        worker.end(10).await;
    }

    /// A statement may log in elsewhere, as one over a linked server does.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_login_that_fails_in_a_statement_is_not_ours() {
        let setup = Setup::new("in_a_statement").await;
        let queue = setup.fixture.connect().await;
        let procedure = format!("{}.enqueue_batch", setup.fixture.schema());
        setup.server.faults().on_call(&procedure, |call| {
            (call == 1).then(|| SqlError::new(18456, "Login failed for user 'remote'.").severity(14))
        });
        let error = queue.enqueue_many(&numbers(2)).await.unwrap_err();
        assert!(matches!(error, Error::Sql { number: 18456, .. }) && !error.is_transient(), "{error:?}");
        queue.enqueue_many(&numbers(2)).await.unwrap();
        assert_eq!(setup.source.asked(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_token_that_is_refused_is_replaced_at_once() {
        let setup = Setup::new("replaced").await;
        let queue = setup.fixture.connect().await;
        queue.enqueue_many(&numbers(1)).await.unwrap();
        setup.source.gives(Ok(token(&setup.server, "render-service-2", HOUR)));
        setup.fixture.sql("DROP USER [render-service]").await;
        setup.fixture.sql("DROP LOGIN [render-service]").await;
        setup.proxy.cut();
        until("the connection is closed", || setup.proxy.is_closed()).await;
        queue.enqueue_many(&numbers(1)).await.unwrap();
        assert_eq!(setup.source.asked(), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_new_token_that_is_refused_is_an_error_that_says_what_the_database_needs() {
        let setup = Setup::new("refused").await;
        let (server, soon) = (&setup.server, now() + HOUR);
        let nobody = server.access_token("nobody", HOUR);
        let elsewhere = server.access_token_for("render-service", "https://vault.azure.net", soon);
        let expired = server.access_token_for("render-service", "https://database.windows.net/", now());
        for (given, says) in [
            (nobody, "not currently configured"),
            (elsewhere, "not currently configured"),
            (expired, "Token is expired"),
            ("what".to_string(), "not valid"),
        ] {
            setup.source.gives(Ok(AccessToken::new(given.clone(), soon)));
            let asked_before = setup.source.asked();
            let error = setup.fixture.connect_error().await;
            assert!(matches!(error, Error::LoginFailed { number: 18456, .. }) && !error.is_transient(), "{error:?}");
            assert_eq!(setup.source.asked(), asked_before + 1, "one that was fetched just now is not worth another");
            let message = error.to_string();
            assert!(message.contains(says) && message.contains("FROM EXTERNAL PROVIDER"), "{message}");
            assert!(!format!("{error:?}").contains(&given), "{error:?}");
        }
    }
}

/// Every address of 127.0.0.0/8 is this machine's on Linux only, and SQL Server Browser has a port of its own (1434).
#[cfg(target_os = "linux")]
mod redirects {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

    use super::*;

    /// A TDS message of the server's ("2.2.3.1 Packet Header" of MS-TDS).
    fn message(payload: &[u8]) -> Vec<u8> {
        let length = (8 + payload.len()) as u16;
        [&[0x04, 0x01], length.to_be_bytes().as_slice(), &[0, 0, 1, 0], payload].concat()
    }

    fn read_message(stream: &mut TcpStream) {
        let mut header = [0; 8];
        stream.read_exact(&mut header).unwrap();
        let length = u16::from_be_bytes([header[2], header[3]]);
        stream.read_exact(&mut vec![0; usize::from(length) - 8]).unwrap();
    }

    /// "2.2.7.9 ENVCHANGE" of MS-TDS, type 20, and a DONE.
    fn redirect_to(address: SocketAddr) -> Vec<u8> {
        let host: Vec<u8> = address.ip().to_string().encode_utf16().flat_map(u16::to_le_bytes).collect();
        let units = (host.len() / 2) as u16;
        let routing = [&[0], address.port().to_le_bytes().as_slice(), &units.to_le_bytes(), &host].concat();
        let routing_length = routing.len() as u16;
        let change = [&[20], routing_length.to_le_bytes().as_slice(), &routing, &[0, 0]].concat();
        let change_length = change.len() as u16;
        let done = [&[0xFD], [0; 12].as_slice()].concat();
        [&[0xE3], change_length.to_le_bytes().as_slice(), &change, &done].concat()
    }

    /// A named instance on a host of its own, with the Browser that tells its port ("2.2.5 SVR_RESP" of MC-SQLR), which
    /// sends on whoever logs in.
    fn start_instance(host: Ipv4Addr, to: SocketAddr) {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let browser = UdpSocket::bind((host, 1434)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (_, client) = browser.recv_from(&mut [0; 64]).unwrap();
            let text = format!("ServerName;DB1;InstanceName;QUEUES;IsClustered;No;Version;16.0.0.0;tcp;{port};;");
            let answer = [&[0x05], (text.len() as u16).to_le_bytes().as_slice(), text.as_bytes()].concat();
            browser.send_to(&answer, client).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            read_message(&mut stream);
            // PRELOGIN: a version, and no encryption.
            let options = [0, 0, 11, 0, 6, 1, 0, 17, 0, 1, 0xFF];
            stream.write_all(&message(&[options.as_slice(), &[16, 0, 0, 0, 0, 0], &[2]].concat())).unwrap();
            read_message(&mut stream);
            stream.write_all(&message(&redirect_to(to))).unwrap();
            let _ = stream.read(&mut [0]); // until the client has read it
        });
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_named_instance_that_redirects_is_left_behind() {
        let server = DevServer::start().await.unwrap();
        let mut fixture = Fixture::on(&server, "redirected", QueueOptions::default()).await;
        let [.., third, fourth] = std::process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, 77, third, fourth);
        start_instance(host, server.address());
        fixture.config.connection.url =
            format!("{};Server={host}\\QUEUES;Encrypt=DANGER_PLAINTEXT", fixture.url()).into();
        let queue = fixture.connect().await;
        queue.enqueue_many(&numbers(1)).await.unwrap();
    }
}
