//! What metrics cost: the three calls that a worker makes for each job, with the exporter's recorder and without any.
//!
//!     cargo bench --bench metrics

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use readpast::metrics::{WorkerMetrics, all};

/// As many jobs as the exporter has to hold between two upkeeps at 100,000 jobs a second would be 500,000; with a thousand the
/// bench looks at recording, not at how fast memory can be had.
const JOBS: u64 = 1_000;

fn record(metrics: &WorkerMetrics) {
    for _ in 0..JOBS {
        let time = black_box(Duration::from_micros(1_234));
        metrics.started(time);
        metrics.run_done(time);
        metrics.job_done(time);
    }
}

fn per_job(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("metrics of a job");
    group.throughput(Throughput::Elements(JOBS));

    let without = WorkerMetrics::new("work");
    group.bench_function("no recorder", |bencher| bencher.iter(|| record(&without)));

    let mut builder = PrometheusBuilder::new();
    for metric in all().filter(|metric| !metric.buckets.is_empty()) {
        let name = Matcher::Full(metric.name.to_string());
        builder = builder.set_buckets_for_metric(name, metric.buckets).expect("there are buckets");
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    let with = metrics::with_local_recorder(&recorder, || WorkerMetrics::new("work"));
    // With what the exporter does later, on a thread of its own: sorting the samples into their buckets.
    group.bench_function("metrics-exporter-prometheus, upkeep included", |bencher| {
        bencher.iter(|| {
            record(&with);
            handle.run_upkeep();
        });
    });
    group.finish();
}

criterion_group!(benches, per_job);
criterion_main!(benches);
