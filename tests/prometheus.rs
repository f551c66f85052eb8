//! With a real Prometheus: what a worker serves is valid, every expression of the dashboard and of the alerts returns
//! data from a worker under load, and every alert fires when it should and only then. Ignored where `prometheus` and
//! `promtool` may be missing; `.ci/check-grafana` installs them and runs these tests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use readpast::admin::QueueOptions;
use readpast::{Handlers, JobError, NewJob, Queue, Usage, Worker};
use serde_json::Value;

use crate::support::Fixture;
use crate::support::http::get;
use crate::support::proxy::Proxy;
use crate::support::shipped::{alerts, dashboard, expressions};

/// Expressions that return nothing while all is well: nothing is compared in them that could be left out.
const EMPTY_WHEN_WELL: [&str; 2] = ["ReadpastNoWorker", "ReadpastDutiesUndone"];

fn checkout(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Runs promtool; it must be content.
fn promtool(arguments: &[&str], input: &str) {
    let mut promtool = Command::new("promtool")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    std::io::Write::write_all(&mut promtool.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
}

#[test]
#[ignore = "needs promtool (Debian: prometheus); .ci/check-grafana runs it where it is"]
fn the_alerts_fire_when_they_should_and_only_then() {
    promtool(&["check", "rules", "grafana/alerts.yaml"], "");
    promtool(&["test", "rules", "grafana/alerts.test.yaml"], "");
    promtool(&["check", "config", "--syntax-only", "grafana/prometheus.yaml"], "");
}

/// A Prometheus that scrapes one address every half second and loads the alerts.
struct Prometheus {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
}

impl Prometheus {
    async fn start(target: SocketAddr) -> Prometheus {
        let folder = std::env::temp_dir().join(format!("readpast-prometheus-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = format!(
            "global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n\
             - job_name: readpast\n\
             \x20 static_configs: [{{ targets: ['{target}'] }}]\n",
            checkout("grafana/alerts.yaml").display()
        );
        let config_file = folder.join("prometheus.yaml");
        std::fs::write(&config_file, config).unwrap();
        // Prometheus cannot say which port it was given: take one that is free at this moment.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut prometheus = Prometheus { process: spawn_prometheus(&config_file, &folder, address), address, folder };
        let give_up = Instant::now() + Duration::from_secs(60);
        while tokio::net::TcpStream::connect(address).await.is_err() || get(address, "/-/ready").await.0 != 200 {
            assert!(prometheus.process.try_wait().unwrap().is_none(), "prometheus has ended");
            assert!(Instant::now() < give_up, "prometheus does not become ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        prometheus
    }

    /// The result of an instant query.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let (status, body) = get(self.address, &format!("/api/v1/query?query={}", percent_encoded(expression))).await;
        assert_eq!(status, 200, "{expression}: {body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        answer["data"]["result"].as_array().unwrap().clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn spawn_prometheus(config: &Path, folder: &Path, address: SocketAddr) -> Child {
    Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=error")
        .spawn()
        .expect("prometheus runs")
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| {
        let is_plain = byte.is_ascii_alphanumeric();
        if is_plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(encode).collect()
}

/// An expression of the dashboard as Grafana would send it, over seconds instead of minutes.
fn with_variables(expression: &str) -> String {
    expression.replace("$__rate_interval", "10s").replace("$queue", ".*").replace("$instance", ".*")
}

/// An alert's expression without its thresholds: what it compares must be there.
fn without_thresholds(expression: &str) -> String {
    expression.replace(" > ", " > bool -1e9 + ").replace("[30m:1m]", "[10s:1s]").replace("[1d:1m]", "[10s:1s]")
}

/// Keeps jobs of all kinds coming until it is told to stop.
async fn keep_enqueueing(queue: Queue, stop: Arc<AtomicBool>) {
    let mut number = 0_u64;
    while !stop.load(Ordering::Acquire) {
        let jobs: Vec<NewJob> = (0..50)
            .map(|_| {
                number += 1;
                let job = NewJob::json(&number).unwrap();
                if number.is_multiple_of(10) { job.delay(Duration::from_millis(20)) } else { job }
            })
            .chain([NewJob::json(&1).unwrap().dedup_key("once").delay(Duration::from_secs(3_600))])
            .collect();
        // The way to the server is cut now and then.
        let _ = queue.enqueue_many(&jobs).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_number(sample: &Value) -> bool {
    sample["value"][1].as_str().and_then(|value| value.parse::<f64>().ok()).is_some_and(f64::is_finite)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus and promtool (Debian: prometheus); .ci/check-grafana runs it where they are"]
async fn every_expression_returns_data_from_a_worker_under_load() {
    let fixture = Fixture::new("prometheus").await;
    let proxy = Proxy::start(fixture.url()).await;
    let mut config = fixture.config.clone();
    config.connection.url = proxy.connection_string().into();
    config.metrics.listen = "127.0.0.1:0".to_string();
    config.worker.sample_interval = Duration::from_secs(1);
    config.worker.promote_interval = Duration::from_millis(100);
    config.worker.retry.base = Duration::from_millis(10);
    let queue = Queue::connect(&config).await.unwrap();
    queue.admin().create(QueueOptions::default().max_attempts(2)).await.unwrap();
    let handlers = Handlers::any(|job, context| match job.json::<u64>()? % 100 {
        13 => Err(JobError::dead("thirteen").into()),
        14 => Err(JobError::retry("fourteen").into()),
        15 => panic!("fifteen"),
        _ => {
            context.report_usage(Usage { cpu: Some(Duration::from_millis(1)), peak_memory: Some(1 << 20) });
            Ok(())
        }
    });
    let worker = Worker::builder(&queue, handlers).start().await.unwrap();
    let stop = worker.stop_handle();
    let running = tokio::spawn(worker.run());
    let no_more = Arc::new(AtomicBool::new(false));
    let producer = tokio::spawn(keep_enqueueing(queue.clone(), no_more.clone()));
    let address = queue.metrics_address().unwrap();
    let prometheus = Prometheus::start(address).await;

    let mut wanted: Vec<(String, String)> =
        expressions(&dashboard()).iter().map(|expression| (expression.clone(), with_variables(expression))).collect();
    for alert in alerts() {
        prometheus.query(&alert.expression).await; // as it stands it must at least be understood
        if !EMPTY_WHEN_WELL.contains(&alert.name.as_str()) {
            wanted.push((alert.name.clone(), without_thresholds(&alert.expression)));
        }
    }
    assert!(wanted.len() > 60);
    let give_up = Instant::now() + Duration::from_secs(120);
    let mut cut_at = Instant::now();
    while !wanted.is_empty() {
        if Instant::now() >= cut_at {
            proxy.cut(); // something to see in errors and reconnects
            cut_at = Instant::now() + Duration::from_secs(3);
        }
        let mut empty = Vec::new();
        for (name, expression) in wanted {
            if !prometheus.query(&expression).await.iter().any(is_number) {
                empty.push((name, expression));
            }
        }
        wanted = empty;
        assert!(Instant::now() < give_up, "these return no data: {wanted:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    let (_, rules) = get(prometheus.address, "/api/v1/rules").await;
    let rules: Value = serde_json::from_str(&rules).unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.iter().filter(|rule| rule["type"] == "alerting").count(), alerts().len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let (_, served) = get(address, "/metrics").await;
    promtool(&["check", "metrics"], &served);

    no_more.store(true, Ordering::Release);
    producer.await.unwrap();
    stop.stop();
    running.await.unwrap().unwrap();
    drop(queue);
    fixture.remove().await;
}
