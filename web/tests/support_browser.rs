//! What the browser's tests stand on: the page over the dev server, and a Chromium that looks at it.
//!
//! [`Site`] is a schema on the dev server, also where READPAST_URL is set (one test holds up a procedure), with a queue
//! `work`, and the page as a server on a port of this machine. [`browse`] starts
//! chromedriver and a Chromium with a profile of its own, hands a [`Browser`] to a test, and ends both however the test
//! ends. What a test says is what a person would do: open, click, press, type, see.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::http::Method;
use fantoccini::elements::Element;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use futures_util::FutureExt;
use hyper_util::client::legacy::connect::HttpConnector;
use readpast::admin::QueueOptions;
use readpast::crates::tiberius::{Client as SqlClient, Config as SqlConfig};
use readpast::{Config, Handlers, Queue, Worker};
use readpast_web::Options;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::compat::TokioAsyncWriteCompatExt;
use url::Url;

use crate::server::{dev_server, unique};

/// What a person waits for at the most; the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page over a schema of its own with a queue `work`.
pub struct Site {
    pub queue: Queue,
    pub config: Config,
    address: SocketAddr,
    options: Options,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Site {
    pub async fn start(name: &str) -> Site {
        let site = Site::empty(name, Options::default()).await;
        site.queue.admin().create(QueueOptions::default()).await.expect("the queue is created");
        site
    }

    /// Without any queue yet.
    pub async fn empty(name: &str, options: Options) -> Site {
        let mut config = Config::default();
        config.connection.url = dev_server().await.connection_string().as_str().into();
        config.connection.schema = unique(&format!("web_{name}"));
        config.queue.name = "work".to_owned();
        config.worker.name = "tester".to_owned();
        // What a worker reports is on the page a second later, and its end does not wait.
        config.worker.heartbeat_interval = Duration::from_secs(1);
        config.worker.shutdown_deadline = Duration::from_secs(1);
        let queue = Queue::connect(&config).await.expect("the library connects");
        queue.admin().install().await.expect("the schema is installed");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut site = Site { queue, config, address, options, server: None };
        site.serve().await;
        site
    }

    /// Serves the page where it was before, or on any port that is free.
    pub async fn serve(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the address is free");
        self.address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let (queue, options) = (self.queue.clone(), self.options.clone());
        let task = tokio::spawn(async move {
            let ended = async move {
                let _ = ended.await; // an error: the test has ended
            };
            readpast_web::serve(listener, queue, options, ended).await.expect("the page is served");
        });
        self.server = Some((end, task));
    }

    /// The page's server goes away.
    pub async fn stop_serving(&mut self) {
        let (end, task) = self.server.take().expect("it is served");
        end.send(()).expect("it has not ended");
        task.await.expect("it ends well");
    }

    pub fn url(&self, page: &str) -> String {
        format!("http://{}/{page}", self.address)
    }

    /// Another queue of the schema.
    pub async fn create_queue(&self, name: &str, options: QueueOptions) -> Queue {
        let queue = self.queue.named(name).expect("a name of a queue");
        queue.admin().create(options).await.expect("the queue is created");
        queue
    }

    pub async fn work(&self, queue: &Queue, handlers: Handlers) -> Worker {
        Worker::builder(queue, handlers).config(&self.config.worker).start().await.expect("the worker starts")
    }

    /// Runs T-SQL in which `$(schema)` is the schema.
    pub async fn sql(&self, statements: &str) {
        let config = SqlConfig::from_ado_string(&dev_server().await.connection_string()).expect("a connection string");
        let socket = TcpStream::connect(config.get_addr()).await.expect("the server listens");
        let mut client = SqlClient::connect(config, socket.compat_write()).await.expect("it lets us in");
        let statements = statements.replace("$(schema)", &self.config.connection.schema);
        let answer = client.simple_query(statements.as_str()).await.expect(&statements);
        answer.into_results().await.expect(&statements);
    }
}

/// How a browser is started.
#[derive(Default)]
pub struct Settings {
    /// It runs no page's scripts.
    pub without_scripts: bool,
}

/// Starts a browser for a test, and ends it whether the test passes or fails.
pub async fn browse(site: &Site, test: impl AsyncFnOnce(&Browser)) {
    browse_with(site, Settings::default(), test).await;
}

pub async fn browse_with(site: &Site, settings: Settings, test: impl AsyncFnOnce(&Browser)) {
    browse_at(&site.url(""), settings, test).await;
}

/// For a site that the test starts and stops.
pub async fn browse_at(site: &str, settings: Settings, test: impl AsyncFnOnce(&Browser)) {
    let driver = Driver::start();
    let client = driver.open(&settings).await;
    let browser = Browser { client: client.clone(), site: site.to_owned() };
    let outcome = AssertUnwindSafe(test(&browser)).catch_unwind().await;
    if outcome.is_err() {
        let url = client.current_url().await.map(String::from).unwrap_or_default();
        let text = browser.text("body").await;
        eprintln!("the browser was at {url}, which showed:\n{text}");
    }
    let closed = client.close().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    closed.expect("the browser ends");
}

/// chromedriver, with the profile of its Chromium.
struct Driver {
    process: Child,
    /// (Closed, chromedriver could not write its log.)
    _output: BufReader<ChildStdout>,
    port: u16,
    profile: PathBuf,
}

impl Driver {
    fn start() -> Driver {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = format!("chromium-{}-{number}", std::process::id());
        let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("chromedriver is installed");
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        let port = loop {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("it can be read"), 0, "chromedriver says its port");
            let port = line.trim_end().trim_end_matches('.').rsplit_once("successfully on port ");
            if let Some((_, port)) = port {
                break port.parse().expect("a port");
            }
        };
        Driver { process, _output: output, port, profile }
    }

    /// A Chromium that asks nobody but the page for anything.
    async fn open(&self, settings: &Settings) -> Client {
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage", // (in a container it has 64 MiB)
            "--hide-scrollbars",
            "--lang=en-GB",
            "--window-size=1280,800",
        ];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
        arguments.push(format!("--user-data-dir={}", self.profile.display()));
        let scripts = if settings.without_scripts { 2 } else { 1 };
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {
                "args": arguments,
                "prefs": { "profile.managed_default_content_settings.javascript": scripts },
            },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let Value::Object(capabilities) = capabilities else { unreachable!() };
        let capabilities: Capabilities = capabilities;
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        builder.connect(&format!("http://127.0.0.1:{}", self.port)).await.expect("Chromium starts")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill(); // an error: it has ended
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// What a person sees and does. Elements are named by CSS selectors.
pub struct Browser {
    client: Client,
    site: String,
}

impl Browser {
    /// Goes to a page of the site.
    pub async fn open(&self, page: &str) {
        self.client.goto(&format!("{}{page}", self.site)).await.expect("the page opens");
    }

    /// Goes on in another tab; what was seen so far is behind it.
    pub async fn new_tab(&self) {
        let tab = self.client.new_window(true).await.expect("a tab opens");
        self.client.switch_to_window(tab.handle).await.expect("it is there");
    }

    /// What a script in the page returns.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect(script)
    }

    /// What an asynchronous script in the page hands to its last argument.
    pub async fn run_async(&self, script: &str) -> Value {
        self.client.execute_async(script, Vec::new()).await.expect("the script ends")
    }

    /// The text as it is shown of the first element; empty: there is none, or it is not shown.
    pub async fn text(&self, css: &str) -> String {
        // Between the two the page may have put another element there.
        match self.client.find(Locator::Css(css)).await {
            Ok(element) => element.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    pub async fn count(&self, css: &str) -> usize {
        self.client.find_all(Locator::Css(css)).await.expect(css).len()
    }

    /// Waits until the first element shows this text, and perhaps more.
    pub async fn sees(&self, css: &str, text: &str) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let shown = self.text(css).await;
            if !shown.is_empty() && shown.contains(text) {
                return;
            }
            assert!(Instant::now() < give_up, "{css} did not show “{text}” but “{shown}”");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until no such element is shown.
    pub async fn sees_no(&self, css: &str) {
        until(&format!("no {css}"), async || self.text(css).await.is_empty()).await;
    }

    pub async fn click(&self, css: &str) {
        self.element(Locator::Css(css)).await.click().await.expect(css);
    }

    /// Clicks the button that says this.
    pub async fn press(&self, button: &str) {
        let path = format!("//main//button[normalize-space() = '{button}']");
        self.element(Locator::XPath(&path)).await.click().await.expect(button);
    }

    /// Types into an element; `\u{E007}` is Enter.
    pub async fn write(&self, css: &str, text: &str) {
        self.element(Locator::Css(css)).await.send_keys(text).await.expect(css);
    }

    /// Types into whatever has the focus.
    pub async fn key(&self, key: &str) {
        let element = self.client.active_element().await.expect("there is always one");
        element.send_keys(key).await.expect("it takes keys");
    }

    /// Waits until it is there.
    async fn element(&self, locator: Locator<'_>) -> Element {
        let found = self.client.wait().at_most(PATIENCE).for_element(locator).await;
        found.unwrap_or_else(|error| panic!("{locator:?}: {error}"))
    }

    /// From now on as in a window of this size.
    pub async fn size(&self, width: u32, height: u32) {
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", screen).await;
    }

    /// From now on as where the system is dark, or light.
    pub async fn scheme(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// From now on it writes times as they do there.
    pub async fn locale(&self, locale: &str) {
        self.devtools("Emulation.setLocaleOverride", json!({ "locale": locale })).await;
    }

    /// From now on as in this time zone.
    pub async fn time_zone(&self, zone: &str) {
        self.devtools("Emulation.setTimezoneOverride", json!({ "timezoneId": zone })).await;
    }

    pub async fn screenshot(&self) -> Vec<u8> {
        self.client.screenshot().await.expect("it can be drawn")
    }

    /// What the console said since it was last asked, warnings and errors.
    pub async fn complaints(&self) -> Vec<String> {
        let entries = self.log("browser").await;
        let entries = entries.into_iter().filter(|entry| ["WARNING", "SEVERE"].contains(&entry.0.as_str()));
        entries.map(|(_, message)| message).collect()
    }

    /// Where requests went since it was last asked.
    pub async fn requests(&self) -> Vec<Url> {
        let messages = self.log("performance").await.into_iter();
        let messages = messages.map(|(_, message)| serde_json::from_str::<Value>(&message).expect("JSON"));
        let sent = messages.filter(|message| message["message"]["method"] == "Network.requestWillBeSent");
        let url = |message: Value| message["message"]["params"]["request"]["url"].as_str().map(str::to_owned);
        sent.filter_map(url).map(|url| url.parse().expect("an address")).collect()
    }

    /// Level and message of each entry.
    async fn log(&self, kind: &'static str) -> Vec<(String, String)> {
        let entries = self.send("se/log", json!({ "type": kind })).await;
        let entries = entries.as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, name| entry[name].as_str().unwrap_or_default().to_owned();
        entries.iter().map(|entry| (text(entry, "level"), text(entry, "message"))).collect()
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        self.send("goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await;
    }

    async fn send(&self, path: &'static str, body: Value) -> Value {
        self.client.issue_cmd(Extension { path, body }).await.expect(path)
    }
}

/// What chromedriver has beyond WebDriver.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base_url: &Url, session_id: Option<&str>) -> Result<Url, url::ParseError> {
        base_url.join(&format!("session/{}/{}", session_id.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

/// Waits until a condition holds, looking again and again; fails the test after a minute.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < give_up, "waited for this in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
