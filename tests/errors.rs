//! What goes wrong before a job can: each failure has its own error, which says what to do and never shows a password.

use std::time::Duration;

use std::net::TcpListener;

use readpast::admin::{JobChange, JobState};
use readpast::{Config, Error, NewJob, Queue};

use crate::support::{Fixture, server_url};

/// Occurs nowhere else.
const PASSWORD: &str = "Pw1-unmistakable";

/// The error of connecting, after a look at whether it gives the password away.
async fn connect_error(url: &str) -> Error {
    let mut config = Config::default();
    config.connection.url = url.into();
    config.connection.connect_timeout = Duration::from_secs(5);
    let error = Queue::connect(&config).await.expect_err("the connection is refused");
    for shown in [error.to_string(), format!("{error:?}"), format!("{config:?}"), config.connection.url.to_string()] {
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_a_failed_login() {
    let url = format!("{};Password={PASSWORD}", server_url().await);
    let error = connect_error(&url).await;
    assert!(matches!(error, Error::LoginFailed { number: 18456, .. }), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_login_is_a_failed_login() {
    let url = format!("{};User ID=nobody;Password={PASSWORD}", server_url().await);
    let error = connect_error(&url).await;
    assert!(matches!(error, Error::LoginFailed { number: 18456, .. }), "{error}");
    assert!(error.to_string().contains("nobody"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_named_and_worth_another_try() {
    // A port on which nobody listens any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = connect_error(&format!("Server=tcp:127.0.0.1,{port};User ID=sa;Password={PASSWORD}")).await;
    assert!(matches!(&error, Error::Connect { server, .. } if *server == format!("127.0.0.1:{port}")), "{error:?}");
    assert!(error.is_transient());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_trusts_is_refused() {
    let url = format!("{};Encrypt=true;TrustServerCertificate=false", server_url().await);
    let mut config = Config::default();
    config.connection.url = url.into();
    // A real server under READPAST_URL may have a certificate that is trusted.
    match Queue::connect(&config).await {
        Err(error) => {
            assert!(matches!(error, Error::Tls { .. }), "{error:?}");
            let message = error.to_string();
            for key in ["TrustServerCertificateCA=<file>", "TrustServerCertificate=true"] {
                assert!(message.contains(key), "{message}");
            }
            assert!(!message.contains("Config::"), "the driver's own advice is for those who call it: {message}");
        }
        Ok(_) => assert!(std::env::var("READPAST_URL").is_ok(), "the dev server's certificate is its own"),
    }
}

/// As SQL Server's own clients: only the login is encrypted, with a certificate that the server has signed itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_not_looked_at_where_only_the_login_is_encrypted() {
    let mut config = Config::default();
    config.connection.url =
        format!("{};Encrypt=false;TrustServerCertificate=false;HostNameInCertificate=db.example", server_url().await)
            .into();
    Queue::connect(&config).await.expect("nothing asks for the certificate");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_without_a_certificate_in_it_is_no_passing_error() {
    let file = std::env::temp_dir().join(format!("readpast-{}.pem", std::process::id()));
    for content in ["", "nothing of the kind", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&file, content).unwrap();
        let url = server_url().await;
        let authority = format!("TrustServerCertificate=false;TrustServerCertificateCA={}", file.display());
        let error = connect_error(&format!("{url};Encrypt=true;{authority}")).await;
        assert!(matches!(error, Error::Tls { .. }) && !error.is_transient(), "{error:?}");
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_names_the_role_that_has_it() {
    let fixture = Fixture::new("no_role").await;
    let login = fixture.create_login(Some("monitor")).await;
    let queue = fixture.connect_as(&login).await;
    let error = queue.enqueue(&NewJob::text("x")).await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { number: 229, .. }), "{error:?}");
    let schema = fixture.schema();
    let says = format!("one of {schema}_producer, {schema}_operator: ALTER ROLE [role] ADD MEMBER [user]");
    assert!(error.to_string().contains(&says), "{error}");
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_install_learns_who_may() {
    let fixture = Fixture::not_installed("may_not_install").await;
    let login = fixture.create_login(None).await;
    let error = fixture.connect_as(&login).await.admin().install().await.unwrap_err();
    assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}");
    assert!(error.to_string().contains("call Admin::install as a member of db_owner"), "{error}");
    assert!(error.to_string().contains("`readpast install --script`, version "), "{error}");
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_database_is_named() {
    let url = format!("{};Database=no_such_database", server_url().await);
    let error = connect_error(&url).await;
    assert!(matches!(error, Error::Database { number: 4060, .. }), "{error:?}");
    assert!(error.to_string().contains("no_such_database"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_a_user_for_the_login_cannot_be_opened() {
    let fixture = Fixture::in_own_database("no_user").await;
    // The login has a user in the fixture's database only.
    let elsewhere = Fixture::not_installed("elsewhere").await;
    let login = elsewhere.create_login(None).await;
    let url = elsewhere.url_as(&login);
    let database = fixture.database().unwrap();
    let error = connect_error(&format!("{url};Database={database}")).await;
    assert!(matches!(error, Error::Database { number: 4060, .. }), "{error:?}");
    elsewhere.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_connection_string_is_refused_without_connecting() {
    for (url, named) in [
        (format!("User ID=sa;Password={PASSWORD}"), "server"),
        (format!("Server=db;Password={PASSWORD}"), "user"),
        (format!("Server=db;User ID=sa;Password={PASSWORD};Colour=red"), "pair4"),
        (format!("Server=db;User ID=sa;Password={PASSWORD};Encrypt=perhaps"), "encrypt"),
        (format!("Server=db,port;User ID=sa;Password={PASSWORD}"), "server"),
        (format!("Server=db;User ID=sa;Password=\"{PASSWORD}"), ""),
        (format!("Server=db;Integrated Security=true;Password={PASSWORD}"), "integratedsecurity"),
    ] {
        let error = connect_error(&url).await;
        assert!(matches!(error, Error::ConnectionString { .. }), "{error:?}");
        let message = error.to_string().to_lowercase().replace(' ', "");
        assert!(message.contains(named), "{named} in {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_out_of_range_is_named_with_its_range() {
    let mut config = Config::default();
    config.connection.url = format!("Server=db;User ID=sa;Password={PASSWORD}").into();
    config.connection.schema = "no good".to_string();
    let error = Queue::connect(&config).await.unwrap_err();
    assert!(matches!(&error, Error::Config { key, .. } if key == "connection.schema"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_without_readpast_is_named_by_every_call() {
    let fixture = Fixture::not_installed("missing_schema").await;
    for error in [
        fixture.queue.enqueue(&NewJob::text("x")).await.unwrap_err(),
        fixture.queue.enqueue_many(&[NewJob::text("x")]).await.unwrap_err(),
        fixture.queue.admin().stats(None).await.unwrap_err(),
        fixture.queue.admin().verify().await.unwrap_err(),
    ] {
        assert!(matches!(&error, Error::NotInstalled { schema, .. } if schema == fixture.schema()), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_queue_is_named_with_what_to_do() {
    let mut fixture = Fixture::new("unknown_queue").await;
    fixture.config.queue.name = "nowhere".to_string();
    let queue = fixture.connect().await;
    for error in [
        queue.enqueue(&NewJob::text("x")).await.unwrap_err(),
        queue.enqueue_many(&[NewJob::text("x")]).await.unwrap_err(),
        queue.admin().stats(None).await.unwrap_err(),
        queue.admin().pause().await.unwrap_err(),
        queue.admin().change(&JobChange::Requeue, JobState::Dead).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::UnknownQueue { .. }), "{error:?}");
        assert!(
            error.to_string().contains("there is no queue 'nowhere'") && error.to_string().contains("create_queue"),
            "{error}"
        );
    }
    fixture.remove().await;
}

/// THROW reserves %.
#[tokio::test(flavor = "multi_thread")]
async fn a_percent_sign_in_a_name_is_told_as_it_is() {
    let fixture = Fixture::new("percent_sign").await;
    let mut session = fixture.session().await;
    let (number, message) = session.refusal("EXEC [$(schema)].[stats] @queue = N'100%d'").await;
    assert!(number == 58001 && message.contains("no queue '100%d'"), "{message}");
    session.sql("EXEC [$(schema)].[create_queue] @queue = N'100%d'").await;
    session.sql("EXEC [$(schema)].[enqueue] @queue = N'100%d', @text = N'x'").await;
    for (call, number, expected) in [
        ("[purge] @state = '50%s'", 58003, "state is '50%s'; it must be "),
        ("[delete_queue]", 58022, "cannot delete queue '100%d': "),
        ("[pause_schedule] @name = N'5% a'", 58003, "no schedule '5% a' in queue '100%d'"),
        ("[resume_schedule] @name = N'5%'", 58003, "no schedule '5%' in queue '100%d'"),
        ("[run_schedule_now] @name = N'%%'", 58003, "no schedule '%%' in queue '100%d'"),
    ] {
        let (procedure, rest) =
            call.split_once(' ').map_or((call, String::new()), |(name, rest)| (name, format!(", {rest}")));
        let refusal = session.refusal(&format!("EXEC [$(schema)].{procedure} @queue = N'100%d'{rest}")).await;
        assert!(refusal.0 == number && refusal.1.contains(expected), "{call}: {refusal:?}");
    }
    drop(session);
    fixture.remove().await;
}
