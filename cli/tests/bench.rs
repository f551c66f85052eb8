//! `bench`: it measures, and leaves nothing behind.

use crate::support::Fixture;

#[tokio::test(flavor = "multi_thread")]
async fn the_bench_prints_figures_and_deletes_its_queue() {
    let fixture = Fixture::new("bench").await;
    let figures = fixture.run(&["bench", "--jobs", "2500", "--single", "3", "--json"]).json().remove(0);
    assert_eq!(figures["jobs"], 2_500);
    for figure in ["enqueued_per_s", "worked_off_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms"] {
        assert!(figures[figure].as_f64().unwrap() > 0.0, "{figures}");
    }
    let queues = fixture.queue("work").await.admin().all_stats(None).await.unwrap();
    assert_eq!(queues.iter().map(|queue| queue.queue.as_str()).collect::<Vec<_>>(), ["work"]);
}

/// Starts a bench that takes long, and returns it when it has its queue.
#[cfg(unix)]
async fn started(fixture: &Fixture, url: &str) -> (crate::worker_process::WorkerProcess, String) {
    let bench = fixture.command_as(url, &["bench", "--jobs", "10000000"]);
    let bench = crate::worker_process::WorkerProcess::start(bench);
    let queue = fixture.queue("work").await;
    let name = async || {
        let queues = queue.admin().all_stats(None).await.unwrap();
        queues.into_iter().find(|queue| queue.queue.starts_with("readpast-bench-")).map(|queue| queue.queue)
    };
    crate::support::until("the bench's queue", async || name().await.is_some()).await;
    (bench, name().await.unwrap())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_bench_that_is_ended_deletes_its_queue() {
    use rustix::process::Signal;
    let fixture = Fixture::new("bench_ended").await;
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let (bench, _) = started(&fixture, &fixture.url).await;
        bench.signal(signal);
        assert!(bench.end().failed(130).contains("nothing was measured"));
        let queues = fixture.queue("work").await.admin().all_stats(None).await.unwrap();
        assert_eq!(queues.len(), 1, "{signal:?}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_bench_that_cannot_delete_its_queue_says_how_to() {
    use rustix::process::Signal;
    let fixture = Fixture::new("bench_left").await;
    let proxy = crate::proxy::Proxy::start(&fixture.url).await;
    let (bench, name) = started(&fixture, proxy.url()).await;
    proxy.stall();
    // The first is waited for by a deletion that nothing answers, and the next ends that.
    while bench.process().runs() {
        bench.signal(Signal::TERM);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let said = bench.end().failed(130);
    assert!(said.contains(&format!("readpast queue delete {name} --with-jobs")), "{said}");
}
