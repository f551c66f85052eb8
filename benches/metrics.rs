//! What metrics cost: the three calls that a worker makes for each job, without a recorder and with the exporter's. CPU time, not time:
//! what else the machine does meanwhile does not count.
//!
//!     cargo bench --bench metrics

#[allow(dead_code)] // shared with the bench of the whole, which needs more of it
#[path = "throughput/usage.rs"]
mod usage;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use readpast::metrics::{KindMetrics, WorkerMetrics, all};

/// As many jobs as come between two upkeeps, 5 s, at 2,000 jobs a second.
const JOBS: u64 = 10_000;

fn record((metrics, kind): &(WorkerMetrics, KindMetrics)) {
    for _ in 0..JOBS {
        let time = black_box(Duration::from_micros(1_234));
        metrics.started(time);
        kind.run_done(time);
        metrics.job_done(time);
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

    let handles = || (WorkerMetrics::new("work"), KindMetrics::new("work", ""));
    let without = handles();
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
    let with = metrics::with_local_recorder(&recorder, handles);
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
