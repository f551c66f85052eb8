//! What metrics cost: the three calls that a worker makes for each job, without a recorder and with the exporter's. CPU
//! time, not time: what else the machine does meanwhile does not count.
//!
//!     cargo bench --bench metrics

#[allow(dead_code)] // shared with the bench of the whole, which needs more of it
#[path = "throughput/usage.rs"]
mod usage;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use metrics::{Histogram, Key, Level, Metadata, NoopRecorder, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use readpast::metrics::all;

/// As many jobs as come between two upkeeps, 5 s, at 2,000 jobs a second.
const JOBS: u64 = 10_000;

/// What a worker records for each job, by the names of the metrics.
const OF_EACH_JOB: [&str; 3] = ["readpast_buffer_wait_seconds", "readpast_run_seconds", "readpast_job_age_seconds"];

/// Made once, as a worker makes them.
fn handles(recorder: &dyn Recorder) -> [Histogram; 3] {
    OF_EACH_JOB.map(|name| {
        let metric = all().find(|metric| metric.name == name).expect("it is a metric of a worker");
        let key = Key::from_parts(metric.name, vec![metrics::Label::new("queue", "work")]);
        recorder.register_histogram(&key, &Metadata::new(module_path!(), Level::INFO, None))
    })
}

fn record(handles: &[Histogram; 3]) {
    for _ in 0..JOBS {
        let time = black_box(Duration::from_micros(1_234));
        for histogram in handles {
            histogram.record(time);
        }
    }
}

fn timed(what: impl FnOnce()) -> Duration {
    let before = usage::thread_cpu();
    what();
    usage::thread_cpu() - before
}

fn per_job(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("metrics of a job");
    group.throughput(Throughput::Elements(JOBS));

    let without = handles(&NoopRecorder);
    group.bench_function("no recorder", |bencher| {
        bencher.iter_custom(|times| (0..times).map(|_| timed(|| record(&without))).sum())
    });

    let mut builder = PrometheusBuilder::new();
    for metric in all().filter(|metric| !metric.buckets.is_empty()) {
        let name = Matcher::Full(metric.name.to_string());
        builder = builder.set_buckets_for_metric(name, metric.buckets).expect("there are buckets");
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    let with = handles(&recorder);
    // What the job's own thread spends.
    group.bench_function("metrics-exporter-prometheus", |bencher| {
        bencher.iter_custom(|times| {
            let mut recording = Duration::ZERO;
            for _ in 0..times {
                recording += timed(|| record(&with));
                handle.run_upkeep();
            }
            recording
        });
    });
    // What the exporter does later, on another thread: putting the values into their buckets.
    group.bench_function("its upkeep", |bencher| {
        bencher.iter_custom(|times| {
            let mut upkeep = Duration::ZERO;
            for _ in 0..times {
                record(&with);
                upkeep += timed(|| handle.run_upkeep());
            }
            upkeep
        });
    });
    group.finish();
}

criterion_group!(benches, per_job);
criterion_main!(benches);
