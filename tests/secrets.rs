//! Passwords show nowhere: not in errors, not in Debug output, not in a log at any level, the driver's included.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use readpast::admin::QueueOptions;
use readpast::config::{AccessToken, TokenSource};
use readpast::{Config, Handlers, JobError, Queue, Worker};
use readpast_devserver::DevServer;
use readpast_devserver::access_token::now;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use crate::support::proxy::Proxy;
use crate::support::{Fixture, numbers};

/// Everything that anybody says on this thread, at every level.
#[derive(Clone, Default)]
struct Everything(Arc<Mutex<String>>);

impl Visit for Everything {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{} = {value:?}", field.name()).unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Everything {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        attributes.record(&mut self.clone());
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut self.clone());
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

impl Everything {
    fn note(&self, shown: impl std::fmt::Debug) {
        writeln!(self.0.lock().unwrap(), "{shown:?}").unwrap();
    }
}

#[test]
fn a_password_or_token_shows_in_no_error_no_debug_output_and_no_log() {
    let everything = Everything::default();
    // While there is one subscriber only, tracing asks the thread that comes by an event first whether anybody listens:
    // another test's thread would silence it for good. Of two it asks both.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::registry().with(everything.clone());
    // One thread, so that every task speaks to this test's subscriber.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let secrets = tracing::subscriber::with_default(subscriber, || runtime.block_on(one_life(&everything)));
    let said = everything.0.lock().unwrap();
    for expected in ["registered", "sending TDS prelogin", "Login failed"] {
        assert!(said.contains(expected), "everything was captured, the driver's words too: {expected}");
    }
    for secret in secrets.iter().map(String::as_str).chain(["wrong-secret"]) {
        let place = said.find(secret);
        assert!(place.is_none(), "{}", &said[place.unwrap().saturating_sub(300)..]);
    }
}

/// Everything a worker and a producer meet, good and bad. Returns the secrets.
async fn one_life(everything: &Everything) -> Vec<String> {
    let fixture = Fixture::new("secrets").await;
    let login = fixture.create_login(Some("worker")).await;
    for role in ["producer", "operator"] {
        fixture.sql(&format!("ALTER ROLE [$(schema)_{role}] ADD MEMBER [{}]", login.name)).await;
    }
    let proxy = Proxy::start(&fixture.url_as(&login)).await;
    let mut config = Config::default();
    for url in [fixture.url_as(&login), proxy.connection_string()] {
        config.connection.url = url.into();
        config.connection.schema = fixture.schema().to_string();
        config.queue.name = "work".to_string();
        everything.note((&config, config.connection.url.to_string(), config.validate()));
        let queue = Queue::connect(&config).await.unwrap();
        everything.note((&queue, queue.admin().verify().await, queue.admin().install().await));
        everything.note((queue.admin().create(QueueOptions::default()).await, queue.enqueue_many(&numbers(20)).await));
        let handlers = Handlers::any(|job, context| {
            let shown = format!("{job:?} {context:?}");
            Err::<(), _>(JobError::dead(shown).into())
        });
        let worker = Worker::builder(&queue, handlers).start().await.unwrap();
        everything.note((worker.stop_handle(), worker.monitor(), worker.stats()));
        proxy.cut();
        everything.note(worker.drain().await);
    }

    // A server that is gone, one that refuses the password, and strings that are wrong around it.
    proxy.block();
    everything.note(Queue::connect(&config).await.map(|_| ()));
    let wrong = fixture.url_as(&login).replace(&login.password, "wrong-secret");
    for url in [
        wrong.clone(),
        format!("{wrong};Encrypt=perhaps"),
        format!("{wrong};TrustServerCertificate=false"),
        format!("{wrong};Database=nowhere"),
        wrong.replace("Password=", "Passwort="),
        wrong.replace("Password=", "Password='"),
        wrong.replace("Password=", "Password"),
    ] {
        config.connection.url = url.as_str().into();
        let refused = Queue::connect(&config).await.map(|_| ()).expect_err("it is wrong");
        everything.note((&refused, refused.to_string()));
        everything.note(Config::from_toml(&format!("[connection]\nurl = \"{url}\nname = 1")));
        everything.note(Config::from_toml(&format!("[connection]\nurl = [\"{url}\"]")));
        for of_a_program in ["[queue.connection]\nur =", "[queue.connection]\nurl = [", "queue.connection.url = 1 #"] {
            let settings = format!("greeting = 'hello'\n{of_a_program} \"{url}\"\n");
            let refused = Config::from_section(&settings, "queue").expect_err("it is wrong");
            everything.note((&refused, refused.to_string()));
        }
        everything.note(Config::from_toml(&format!("connection = \"{url}\"")));
    }
    fixture.drop_login(&login).await;
    fixture.remove().await;
    vec![login.password.clone(), login.password[..login.password.len() - 2].to_string(), with_a_token(everything).await]
}

/// Logs in with a token, which is taken and then refused. Returns it.
async fn with_a_token(everything: &Everything) -> String {
    let server = DevServer::start().await.unwrap();
    let fixture = Fixture::on(&server, "token", QueueOptions::default()).await;
    fixture.sql("CREATE USER [secretive] FROM EXTERNAL PROVIDER").await;
    let token = server.access_token("secretive", Duration::from_secs(3600));
    let mut config = fixture.config.clone();
    config.connection.url = fixture.url().replace("User ID=sa;Password=readpast;", "").into();
    let given = token.clone();
    config.connection.token_source = Some(TokenSource::new(move || {
        let token = AccessToken::new(&given, now() + Duration::from_secs(3600));
        async move { Ok(token) }
    }));
    let queue = Queue::connect(&config).await.unwrap();
    everything.note((&config, &queue, queue.admin().verify().await));
    fixture.sql("DROP USER [secretive]").await;
    fixture.sql("DROP LOGIN [secretive]").await;
    everything.note(Queue::connect(&config).await.map(|_| ()).expect_err("its login is gone"));
    token
}
