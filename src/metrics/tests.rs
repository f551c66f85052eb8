use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Metadata, Recorder, SharedString, Unit, with_local_recorder,
};
use parking_lot::Mutex;

use crate::error::Error;
use crate::job::{Outcome, Usage};

use super::definitions::{Kind, STAGES, all};
use super::labels::{ERRORS, PROCEDURES};
use super::worker_levels::{Scale, WorkerLevels};
use super::{KindMetrics, QueueMetrics, SampleMetrics, WorkerMetrics};

/// Remembers which metrics were registered, and stores their values in its own atomics.
#[derive(Default)]
struct Ledger {
    described: Mutex<HashSet<String>>,
    registered: Mutex<Vec<(String, Kind, Vec<Label>)>>,
}

impl Ledger {
    fn register(&self, key: &Key, kind: Kind) -> Arc<AtomicU64> {
        let labels = key.labels().cloned().collect();
        self.registered.lock().push((key.name().to_string(), kind, labels));
        Arc::default()
    }
}

impl Recorder for Ledger {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_gauge(name, unit, help);
    }
    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        assert!(unit.is_some() && !help.is_empty());
        self.described.lock().insert(name.as_str().to_string());
    }
    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_gauge(name, unit, help);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.register(key, Kind::Counter))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.register(key, Kind::Gauge))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(LastValue(self.register(key, Kind::Histogram))))
    }
}

struct LastValue(Arc<AtomicU64>);

impl metrics::HistogramFn for LastValue {
    fn record(&self, value: f64) {
        self.0.store(value.to_bits(), std::sync::atomic::Ordering::Relaxed);
    }
}

fn sql_error(number: i32) -> Error {
    Error::Sql { number, severity: 16, message: String::new(), procedure: String::new(), line: 0 }
}

/// Records a value in each histogram, because a histogram is registered with its first value.
fn record_all(worker: &WorkerMetrics, kind: &KindMetrics, queue: &QueueMetrics) {
    let time = Duration::from_millis(3);
    worker.claimed(500, time);
    worker.started(time);
    worker.job_done(time);
    worker.confirmed(500, time);
    queue.enqueued(&[], time);
    for procedure in PROCEDURES {
        queue.answered(procedure, time);
    }
    let (delay, error) = (Duration::ZERO, String::new());
    kind.run_done(time);
    kind.used(Usage { cpu: Some(time), peak_memory: Some(1 << 20) });
    kind.run_ended(&Outcome::Retry { delay, error: error.clone(), needs: None }, time);
    kind.run_ended(&Outcome::Snooze { delay, error: error.clone() }, time);
    kind.run_ended(&Outcome::Move { queue: "large".to_owned(), error: error.clone() }, time);
    kind.run_ended(&Outcome::Dead { error }, time);
}

fn ledger() -> Ledger {
    let ledger = Ledger::default();
    with_local_recorder(&ledger, || {
        let (worker, kind) = (WorkerMetrics::new("work"), KindMetrics::new("work", "resize"));
        SampleMetrics::new("work");
        let queue = QueueMetrics::new("work");
        record_all(&worker, &kind, &queue);
        queue.failed("claim", &sql_error(1205));
        queue.failed("claim", &sql_error(-17));
        queue.failed("claim", &sql_error(37396));
        queue.failed("connect", &Error::Credentials { source_name: "the vault".into(), message: String::new() });
        queue.failed("nonsense", &Error::LeaseLost);
    });
    ledger
}

#[test]
fn what_is_registered_is_what_is_defined() {
    let ledger = ledger();
    let defined: BTreeSet<&str> = all().map(|metric| metric.name).collect();
    assert_eq!(defined.len(), all().count(), "every name is defined once");
    let registered = ledger.registered.lock();
    let names: BTreeSet<&str> = registered.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, defined);
    assert_eq!(ledger.described.lock().iter().map(String::as_str).collect::<BTreeSet<_>>(), defined);
    for (name, kind, labels) in registered.iter() {
        let metric = all().find(|metric| metric.name == name).unwrap();
        assert_eq!(metric.kind, *kind, "{name}");
        assert_eq!(labels.len(), metric.labels.len(), "{name}");
        for (label, (key, values)) in labels.iter().zip(metric.labels) {
            assert_eq!(label.key(), *key, "{name}");
            assert!(
                values.is_empty() && ["work", "resize"].contains(&label.value()) || values.contains(&label.value()),
                "{name}: {label:?}"
            );
        }
    }
}

/// A histogram without a value is in no scrape.
#[test]
fn histograms_are_registered_with_their_first_value() {
    let ledger = Ledger::default();
    let histograms = || {
        let registered = ledger.registered.lock();
        let histograms = registered.iter().filter(|(_, kind, _)| *kind == Kind::Histogram);
        histograms.map(|(name, _, labels)| (name.clone(), labels.len())).collect::<Vec<_>>()
    };
    with_local_recorder(&ledger, || {
        let queue = QueueMetrics::new("work");
        let _others = (WorkerMetrics::new("work"), KindMetrics::new("work", "resize"));
        assert_eq!(histograms(), []);
        for _ in 0..2 {
            queue.answered("claim", Duration::ZERO);
        }
    });
    assert_eq!(histograms(), [("readpast_call_seconds".to_owned(), 2)]);
}

#[test]
fn names_follow_the_rules_of_prometheus() {
    for metric in all() {
        let name = metric.name;
        assert!(name.starts_with("readpast_"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert_eq!(name.ends_with("_seconds"), metric.unit == Unit::Seconds, "{name}");
        assert_eq!(name.ends_with("_bytes"), metric.unit == Unit::Bytes, "{name}");
        assert_eq!(name.ends_with("_ratio"), metric.unit == Unit::Percent, "{name}");
        assert_eq!(metric.buckets.is_empty(), metric.kind != Kind::Histogram, "{name}");
        assert!(metric.buckets.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
        assert_eq!(metric.labels[0].0, "queue", "{name}");
    }
}

/// Procedures that the library does not call, such as those for other scripts or, `backlog`, for an autoscaler.
const INTERNAL_PROCEDURES: [&str; 44] = [
    "check_home",
    "set_hold",
    "do_duties",
    "backlog",
    "unknown_queue",
    "refuse",
    "mend_text",
    "raise",
    "check_text",
    "check_needs",
    "check_job",
    "latest_start",
    "room",
    "next_priority",
    "widen_gap",
    "lower_marks",
    "note_attempts",
    "sweep",
    "cancel_expired",
    "look",
    "call_sink",
    "move_jobs",
    "wake_moved",
    "finish_mended",
    "tend",
    "claim_once",
    "claim_runs",
    "claim_limited",
    "claim_aged",
    "claim_fair",
    "link_queue",
    "lock_batch",
    "end_batch",
    "note_ends",
    "note_requeued",
    "lock_groups",
    "advance_groups",
    "advance_edges",
    "note_edges",
    "watch_parents",
    "delete_empty_queue",
    "note_action",
    "note_history",
    "thin_history",
];

/// Label values are bounded: every error has one of the listed values.
#[test]
fn errors_and_procedures_that_nobody_knows_are_other() {
    let ledger = ledger();
    let registered = ledger.registered.lock();
    let errors: Vec<(&str, &str)> = registered
        .iter()
        .filter(|(name, ..)| name == "readpast_call_errors_total")
        .map(|(_, _, labels)| (labels[1].value(), labels[2].value()))
        .collect();
    let expected = [("claim", "1205"), ("claim", "other"), ("claim", "37396"), ("connect", "credentials")];
    assert_eq!(errors, [expected.as_slice(), &[("other", "58002")]].concat());
    assert_eq!(ERRORS.iter().collect::<HashSet<_>>().len(), ERRORS.len());
    for script in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap() {
        let path = script.unwrap().path();
        if path.is_dir() {
            continue; // changes of these scripts
        }
        let text = std::fs::read_to_string(path).unwrap();
        for (_, rest) in
            text.match_indices("CREATE OR ALTER PROCEDURE [$(schema)].[").map(|(at, it)| text.split_at(at + it.len()))
        {
            let procedure = rest.split(']').next().unwrap();
            if INTERNAL_PROCEDURES.contains(&procedure) {
                continue;
            }
            assert!(PROCEDURES.contains(&procedure), "{procedure} is missing in PROCEDURES");
        }
    }
}

/// Recording metrics of a job or a batch allocates nothing: handles are created once, labels never formatted. A
/// recorder may allocate: metrics-exporter-prometheus takes a block for every 64 samples of a histogram.
#[test]
fn recording_allocates_nothing() {
    let ledger = Ledger::default();
    let (worker, kind, queue, sample) = with_local_recorder(&ledger, || {
        let (worker, kind) = (WorkerMetrics::new("work"), KindMetrics::new("work", "resize"));
        let queue = QueueMetrics::new("work");
        record_all(&worker, &kind, &queue);
        (worker, kind, queue, SampleMetrics::new("work"))
    });
    let time = Duration::from_millis(3);
    worker.begin(Scale::default());
    let allocated = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            worker.started(time);
            kind.run_done(time);
            kind.used(Usage { cpu: Some(time), peak_memory: Some(1 << 20) });
            worker.job_done(time);
        }
        worker.claimed(500, time);
        worker.claimed(0, time);
        worker.confirmed(500, time);
        worker.finished(500);
        worker.levels(&WorkerLevels::default());
        queue.answered("claim", time);
        queue.answered("finish", time);
        queue.enqueued(&[], time);
        sample.sampled([0; 6], None, 0, 0, false);
        sample.aged(Duration::ZERO);
    });
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn the_levels_of_two_workers_of_a_queue_add_up_and_go_with_them() {
    let recorder = Series::default();
    let [first, second, other] =
        ["two", "two", "one"].map(|queue| with_local_recorder(&recorder, || WorkerMetrics::new(queue)));
    let value = |name: &str, labels: &[&str]| recorder.value(name, labels);
    let scale =
        Scale { threads: 2, buffer: 10, max_in_flight: 100, max_in_flight_bytes: 1, lease: Duration::from_secs(30) };
    first.begin(scale);
    second.begin(Scale { threads: 6, lease: Duration::from_secs(20), ..scale });
    other.begin(scale);
    first.levels(&WorkerLevels {
        running: 2,
        lease_age: Duration::from_secs(9),
        limited: [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ..WorkerLevels::default()
    });
    second.levels(&WorkerLevels {
        running: 5,
        lease_age: Duration::from_secs(8),
        limited: [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ..WorkerLevels::default()
    });
    other.levels(&WorkerLevels { running: 1, ..WorkerLevels::default() });
    assert_eq!(value("readpast_running_jobs", &["two"]), 7.0);
    assert_eq!(value("readpast_running_jobs", &["one"]), 1.0);
    assert_eq!(value("readpast_run_threads", &["two"]), 8.0);
    let lease = || (value("readpast_lease_age_seconds", &["two"]), value("readpast_lease_seconds", &["two"]));
    assert_eq!(lease(), (8.0, 20.0), "the lease that is nearest to its end, not the oldest");
    assert_eq!(value("readpast_limited_ratio", &["two", "idle"]), 0.25);
    assert_eq!(value("readpast_limited_ratio", &["two", "busy"]), 0.75);
    second.end();
    second.levels(&WorkerLevels { running: 3, ..WorkerLevels::default() }); // too late
    assert_eq!(lease(), (9.0, 30.0));
    assert_eq!(value("readpast_running_jobs", &["two"]), 2.0);
    drop(first);
    assert_eq!(value("readpast_running_jobs", &["two"]), 0.0);
    assert_eq!(value("readpast_run_threads", &["two"]), 0.0, "none is left");
    assert_eq!(value("readpast_lease_seconds", &["two"]), 30.0, "the scale stays as it was last");
    other.drains();
    drop(other);
    assert_eq!((value("readpast_draining", &["one"]), value("readpast_draining", &["two"])), (1.0, 0.0));
}

/// Gauges by name and labels, like an exporter's.
#[derive(Default)]
struct Series(Mutex<HashMap<SeriesKey, Arc<AtomicU64>>>);

type SeriesKey = (String, Vec<String>);

impl Series {
    fn value(&self, name: &str, labels: &[&str]) -> f64 {
        let labels = labels.iter().map(|label| label.to_string()).collect();
        let value = self.0.lock()[&(name.to_string(), labels)].load(std::sync::atomic::Ordering::Relaxed);
        f64::from_bits(value)
    }
}

impl Recorder for Series {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let labels = key.labels().map(|label| label.value().to_string()).collect();
        Gauge::from_arc(self.0.lock().entry((key.name().to_string(), labels)).or_default().clone())
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn documentation() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         With `[metrics] listen = \"127.0.0.1:9464\"` a worker serves these metrics at `/metrics`. The [runbook](runbook.md)\n\
         has a section for each alert.\n\n\
         - All times are in seconds. Every metric has the label `queue`. Prometheus adds `instance`, one per process.\n\
         - A histogram appears with its first value.\n\
         - The worker serves at most 32 connections, each for one request and at most ten seconds. A further one closes the\n\
         \u{20} oldest.\n\
         - A program with its own recorder for the [`metrics`](https://docs.rs/metrics) facade installs it before\n\
         \u{20} `Queue::connect`, leaves `listen` empty, and takes the buckets from `readpast::metrics::all()`.\n\n\
         This page is generated from `src/metrics/definitions.rs`.\n",
    );
    for (stage, metrics) in STAGES {
        write!(text, "\n## {stage}\n\n| name | type | labels | what it tells |\n|---|---|---|---|\n").unwrap();
        for metric in metrics {
            let kind = format!("{:?}", metric.kind).to_lowercase();
            let labels: Vec<String> = metric.labels[1..].iter().map(|(label, _)| format!("`{label}`")).collect();
            writeln!(text, "| `{}` | {kind} | {} | {} |", metric.name, labels.join(", "), metric.help).unwrap();
        }
    }
    let list = |values: &[&str]| values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
    text.push_str(
        "\n## Values of the labels\n\n| label | values |\n|---|---|\n| `queue` | `queue.name` of the configuration |\n",
    );
    let mut labels: Vec<_> = all().flat_map(|metric| &metric.labels[1..]).collect();
    labels.sort();
    labels.dedup();
    for (label, values) in labels {
        let values = if *label == "kind" {
            "the kinds that the worker has a handler for; no label: all others".to_owned()
        } else {
            list(values)
        };
        writeln!(text, "| `{label}` | {values} |").unwrap();
    }
    text.push_str("\n## Buckets of the histograms\n\n| name | upper bounds |\n|---|---|\n");
    for metric in all().filter(|metric| metric.kind == Kind::Histogram) {
        let bounds: Vec<String> = metric.buckets.iter().map(f64::to_string).collect();
        writeln!(text, "| `{}` | {} |", metric.name, bounds.join(", ")).unwrap();
    }
    text
}

#[test]
fn the_documentation_is_what_is_defined() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let expected = documentation();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/metrics.md is out of date; write it anew: UPDATE_DOCS=1 cargo test --lib documentation"
    );
}
