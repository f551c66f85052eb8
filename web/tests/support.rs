//! What every test stands on: one server for all, a schema of its own on it, and a browser without a screen: it keeps
//! its cookie, follows no redirect by itself, and reads pages with a real parser.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use futures_util::StreamExt;
use readpast::admin::{AuditRow, QueueOptions};
use readpast::crates::tiberius::{Client, Config as DriverConfig};
use readpast::{Config, Context, Handlers, Job, JobError, Queue, Worker};
use readpast_web::{Options, router};
use scraper::{Html, Selector};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};
use tower::ServiceExt;

use crate::server::{self, real_server_url, server_url, unique};

/// What the history says of a minute.
#[derive(Default)]
pub struct Minute {
    pub ago: u32,
    pub ready: u32,
    pub dead: u32,
    pub done: u32,
    pub failed: u32,
    pub died: u32,
}

/// A schema of a test's own, with a queue `work`.
pub struct Fixture {
    pub url: String,
    pub schema: String,
    /// On the dev server, a copy (`server.rs`).
    database: Option<String>,
    pub queue: Queue,
}

impl Fixture {
    pub async fn new(test_name: &str) -> Fixture {
        Fixture::with(test_name, QueueOptions::default()).await
    }

    /// With these settings of the queue.
    pub async fn with(test_name: &str, options: QueueOptions) -> Fixture {
        let name = unique(&format!("web_{test_name}"));
        let (url, schema, database) = match real_server_url() {
            Some(_) => (server_url().await, name, None),
            None => (server::installed_database(&name).await, server::SCHEMA.to_owned(), Some(name)),
        };
        let queue = connect(&url, &schema, "work").await;
        if database.is_none() {
            queue.admin().install().await.expect("the schema is installed");
        }
        queue.admin().create(options).await.expect("the queue is created");
        Fixture { url, schema, database, queue }
    }

    /// The name of one of the schema's procedures as the dev server's faults know it.
    pub fn procedure_to_fail(&self, procedure: &str) -> String {
        let database = self.database.as_ref().expect("faults are the dev server's");
        format!("{database}.{}.{procedure}", self.schema)
    }

    /// A browser in front of a page for this schema.
    pub fn browser(&self, options: Options) -> Browser {
        Browser::new(router(self.queue.clone(), options))
    }

    /// Everybody on this machine may do everything.
    pub fn open(&self) -> Browser {
        self.browser(Options::default())
    }

    /// The queue as a new login sees it that is a member of one role of the schema.
    pub async fn queue_as(&self, role: &str) -> Queue {
        let name = unique(&format!("login_{role}"));
        let password = "Ab1!4rdvark-9zebra";
        self.sql(&format!("CREATE LOGIN [{name}] WITH PASSWORD = '{password}'")).await;
        self.sql(&format!("CREATE USER [{name}] FOR LOGIN [{name}]")).await;
        self.sql(&format!("ALTER ROLE [$(schema)_{role}] ADD MEMBER [{name}]")).await;
        connect(&format!("{};User ID={name};Password={password}", self.url), &self.schema, "work").await
    }

    /// One statement of another program's.
    pub async fn sql(&self, statement: &str) {
        self.begin(statement).await;
    }

    /// As `sql`; a transaction that it begins stays open, with its locks, until what is returned is dropped.
    pub async fn begin(&self, statement: &str) -> Client<Compat<TcpStream>> {
        let config = DriverConfig::from_ado_string(&self.url).expect("a connection string");
        let socket = TcpStream::connect(config.get_addr()).await.expect("the server listens");
        let mut client: Client<Compat<TcpStream>> =
            Client::connect(config, socket.compat_write()).await.expect("it lets us in");
        let statement = statement.replace("$(schema)", &self.schema);
        let answer = client.simple_query(statement.as_str()).await.expect(&statement);
        answer.into_results().await.expect(&statement);
        client
    }

    /// The history, as workers write it for each minute, of the queues with these names; what was there is deleted.
    pub async fn write_history<'a>(&self, minutes: impl IntoIterator<Item = (&'a str, Minute)>) {
        let values = |(queue, minute): (&str, Minute)| {
            let Minute { ago, ready, dead, done, failed, died } = minute;
            format!("(N'{queue}', {ago}, {ready}, {dead}, {done}, {failed}, {died})")
        };
        let rows = minutes.into_iter().map(values).collect::<Vec<_>>().join(", ");
        let batch = format!(
            "DECLARE @epoch datetime2(0) = '20000101';
             DECLARE @now datetime2(0) = DATEADD(MINUTE, DATEDIFF(MINUTE, @epoch, SYSUTCDATETIME()), @epoch);
             DELETE [$(schema)].[history];
             INSERT [$(schema)].[history] (queue_id, at, minutes, ready, scheduled, waiting, claimed, dead, cancelled,
                                           workers, done, failed, died)
             SELECT q.queue_id, DATEADD(MINUTE, -v.ago, @now), 1, v.ready, 0, 0, 0, v.dead, 0, 1, v.done, v.failed,
                    v.died
             FROM (VALUES {rows}) AS v (queue, ago, ready, dead, done, failed, died)
             INNER JOIN [$(schema)].[queues] AS q ON q.name = v.queue"
        );
        self.sql(&batch).await;
    }

    /// Runs what is ready with a handler that refuses all of it for good, with this error.
    pub async fn kill_all(&self, error: &'static str) {
        let refuse =
            move |_: &Job, _: &Context| -> Result<(), readpast::BoxError> { Err(JobError::dead(error).into()) };
        let worker = Worker::builder(&self.queue, Handlers::any(refuse)).start().await.unwrap();
        worker.drain().await.unwrap();
    }

    /// What visitors have done, the newest first: not what the test has, in the name of its login.
    pub async fn audits(&self) -> Vec<AuditRow> {
        let rows = self.queue.admin().all_audits(None, 100).await.unwrap();
        rows.into_iter().filter(|row| row.who != row.login).collect()
    }
}

/// A queue of a schema.
pub async fn connect(url: &str, schema: &str, name: &str) -> Queue {
    let mut config = Config::default();
    config.connection.url = url.into();
    config.connection.schema = schema.to_owned();
    config.queue.name = name.to_owned();
    Queue::connect(&config).await.expect("the library connects")
}

/// Something that asks for pages.
#[derive(Clone)]
pub struct Browser {
    pub page: Router,
    /// What it sends with each request.
    pub headers: HeaderMap,
    /// Where the page is mounted.
    pub base: &'static str,
}

/// What it got.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Browser {
    pub fn new(page: Router) -> Browser {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        Browser { page, headers, base: "/" }
    }

    /// With another header, in place of one of the same name.
    pub fn with(&self, name: &'static str, value: &str) -> Browser {
        let mut browser = self.clone();
        browser.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        browser
    }

    async fn send(&mut self, request: Request<Body>) -> axum::response::Response {
        let answer = self.page.clone().oneshot(request).await.unwrap();
        if let Some(cookie) = answer.headers().get(header::SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap().to_owned();
            self.headers.insert(header::COOKIE, HeaderValue::from_str(&pair).unwrap());
        }
        answer
    }

    fn request(&self, method: &str, address: &str, body: impl Into<Body>) -> Request<Body> {
        let mut request = Request::builder().method(method).uri(format!("{}{address}", self.base));
        *request.headers_mut().unwrap() = self.headers.clone();
        request.body(body.into()).unwrap()
    }

    /// Any request to an address beside the overview.
    pub async fn ask(&mut self, method: &str, address: &str, body: &str) -> Answer {
        self.ask_with(method, address, body.to_owned()).await
    }

    async fn ask_with(&mut self, method: &str, address: &str, body: impl Into<Body>) -> Answer {
        let request = self.request(method, address, body);
        let answer = self.send(request).await;
        let (status, headers) = (answer.status(), answer.headers().clone());
        Answer { status, headers, body: to_bytes(answer.into_body(), usize::MAX).await.unwrap().to_vec() }
    }

    pub async fn get(&mut self, address: &str) -> Answer {
        self.ask("GET", address, "").await
    }

    /// A page that is there.
    pub async fn page(&mut self, address: &str) -> Answer {
        let answer = self.get(address).await;
        assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text());
        answer
    }

    /// Sends a form as it is.
    pub async fn send_form(&mut self, address: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask("POST", address, &form(fields)).await
    }

    /// Sends a form with a file, as browsers do: with an empty one if none is chosen.
    pub async fn send_file(&mut self, address: &str, fields: &[(String, String)], file: Option<&[u8]>) -> Answer {
        let mut body = Vec::new();
        for (name, value) in fields {
            let part = format!("--AaB03x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            body.extend(part.into_bytes());
        }
        let file_name = if file.is_some() { "a \u{fc}.bin" } else { "" };
        let head = format!(
            "--AaB03x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{file_name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        body.extend(head.into_bytes());
        body.extend(file.unwrap_or_default());
        body.extend(b"\r\n--AaB03x--\r\n");
        let mut sender = self.with("content-type", "multipart/form-data; boundary=AaB03x");
        sender.ask_with("POST", address, body).await
    }

    /// Sends a form with the session's token, as the page's own forms do.
    pub async fn post(&mut self, address: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.token().await;
        let mut fields = fields.to_vec();
        fields.push(("csrf", &token));
        self.send_form(address, &fields).await
    }

    /// Presses the button of a step of a form, with some fields typed anew.
    pub async fn press(&mut self, page: &Answer, action: &str, step: &str, typed: &[(&str, &str)]) -> Answer {
        let mut fields = page.form(action, step);
        assert!(fields.iter().any(|(name, _)| name == "csrf"), "{action}: {}", page.text());
        for (name, value) in typed {
            fields.retain(|(other, _)| other != name);
            fields.push(((*name).to_owned(), (*value).to_owned()));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.send_form(action, &fields).await
    }

    /// The token of the session's forms, from the form at which everybody may look.
    pub async fn token(&mut self) -> String {
        self.page("login").await.values("input[name=csrf]", "value").remove(0)
    }

    /// Logs in; the answer to the form.
    pub async fn log_in(&mut self, name: &str, secret: &str) -> Answer {
        self.post("login", &[("name", name), ("secret", secret)]).await
    }

    /// Listens to a live part.
    pub async fn listen(&mut self, address: &str) -> Live {
        let request = self.request("GET", address, String::new());
        let answer = self.send(request).await;
        assert_eq!(answer.status(), StatusCode::OK);
        Live { headers: answer.headers().clone(), body: answer.into_body(), read: String::new() }
    }
}

pub fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// The parts as they come.
pub struct Live {
    pub headers: HeaderMap,
    body: Body,
    read: String,
}

impl Live {
    /// The next part's HTML; `None`: it has ended.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let html = self.event().await?;
            if !html.is_empty() {
                return Some(html);
            }
        }
    }

    /// The next event's HTML, which is empty if it only keeps the connection alive; `None`: it has ended.
    pub async fn event(&mut self) -> Option<String> {
        let mut frames = std::mem::replace(&mut self.body, Body::empty()).into_data_stream();
        let read = async {
            loop {
                if let Some((event, rest)) = self.read.split_once("\n\n") {
                    // In events each of \r and \n ends a line.
                    let lines = event.split(['\r', '\n']).filter_map(|line| line.strip_prefix("data:"));
                    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
                    let (html, rest) = (lines.join("\n"), rest.to_owned());
                    self.read = rest;
                    return Some(html);
                }
                let bytes = frames.next().await?.ok()?;
                self.read.push_str(std::str::from_utf8(&bytes).unwrap());
            }
        };
        let next = tokio::time::timeout(Duration::from_secs(60), read).await.expect("a part comes");
        self.body = Body::from_stream(frames);
        next
    }

    /// The first part that this holds for.
    pub async fn until(&mut self, holds: impl Fn(&str) -> bool) -> String {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            let html = self.next().await.expect("the parts go on");
            if holds(&html) {
                return html;
            }
            assert!(Instant::now() < give_up, "{html}");
        }
    }
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn html(&self) -> Html {
        Html::parse_document(&self.text())
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Where it leads.
    pub fn location(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{}", self.text());
        self.header("location")
    }

    /// An attribute of each element that has it.
    pub fn values(&self, selector: &str, attribute: &str) -> Vec<String> {
        let (html, selector) = (self.html(), Selector::parse(selector).unwrap());
        html.select(&selector).filter_map(|element| element.attr(attribute)).map(str::to_owned).collect()
    }

    /// The text of each element.
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let (html, selector) = (self.html(), Selector::parse(selector).unwrap());
        html.select(&selector).map(|element| element.text().collect()).collect()
    }

    /// The fields of the form with this target, as a browser sends them when this step's button is pressed.
    pub fn form(&self, action: &str, step: &str) -> Vec<(String, String)> {
        let html = self.html();
        let all = |selector: &str| {
            let form = format!("form[action={action}] ");
            let selector =
                Selector::parse(&selector.split(", ").map(|one| format!("{form}{one}")).collect::<Vec<_>>().join(", "));
            let elements: Vec<_> = html.select(&selector.unwrap()).collect();
            elements
        };
        let mut fields = vec![("step".to_owned(), step.to_owned())];
        for field in all("input[name]:not([type=checkbox]), input[type=checkbox][checked], textarea, select") {
            let value = match field.value().name() {
                "textarea" => field.text().collect::<String>().replace('\n', "\r\n"),
                "select" => {
                    let chosen = |css| field.select(&Selector::parse(css).unwrap()).next();
                    let chosen = chosen("option[selected]").or_else(|| chosen("option"));
                    chosen.and_then(|option| option.attr("value")).unwrap_or_default().to_owned()
                }
                _ => field.attr("value").unwrap_or_default().to_owned(),
            };
            fields.push((field.attr("name").unwrap().to_owned(), value));
        }
        fields
    }

    pub fn count(&self, selector: &str) -> usize {
        self.html().select(&Selector::parse(selector).unwrap()).count()
    }
}

/// Waits until a condition holds, looking again and again; fails the test after a minute.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < give_up, "waited for this in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
