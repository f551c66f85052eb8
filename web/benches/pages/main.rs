//! How long each page takes at 1,000, 100,000 and 5,000,000 jobs, how large it is, and what browsers cost SQL Server.
//!
//!     cargo bench -p readpast-web --bench pages                     # everything, some minutes
//!     cargo bench -p readpast-web --bench pages -- 1000 100000      # at these numbers of jobs
//!
//! Prints tables in Markdown, as they stand in docs/web.md. The pages are asked for without a socket; what they ask SQL
//! Server goes over one. The server is the dev server, in a process of its own.

mod jobs;
mod server;

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use readpast::Queue;
use readpast::admin::{JobFilter, JobState};
use readpast_web::{Options, router};
use tower::ServiceExt;

use server::Server;

const SCHEMA: &str = "pages";
const SIZES: [u64; 3] = [1_000, 100_000, 5_000_000];

/// Each page is asked for so often after the first time.
const ROUNDS: usize = 7;

/// For so long it is counted what browsers cost.
const WATCH: Duration = Duration::from_secs(8);

const STATES: [JobState; 8] = [
    JobState::Ready,
    JobState::Scheduled,
    JobState::Waiting,
    JobState::Claimed,
    JobState::Dead,
    JobState::Cancelled,
    JobState::Done,
    JobState::Archived,
];

/// What asking for a page took.
struct Times {
    first: Duration,
    median: Duration,
    most: Duration,
    /// The server's CPU time for each time.
    cpu: Duration,
    bytes: usize,
}

fn main() -> ExitCode {
    if server::played_server() {
        return ExitCode::SUCCESS;
    }
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(measure(&sizes));
    ExitCode::SUCCESS
}

async fn measure(sizes: &[u64]) {
    let mut server = Server::start(SCHEMA);
    let queue = jobs::schema(&server.url, SCHEMA).await;
    let mut measured: Vec<Vec<(String, Times)>> = Vec::new();
    let (mut there, mut costs, mut counted) = (0, Vec::new(), Vec::new());
    for size in sizes {
        let begin = Instant::now();
        jobs::fill(&queue, &server.url, size.saturating_sub(there)).await;
        there = *size;
        eprintln!("{size} jobs are there after {:.0?}", begin.elapsed());
        let (cpu, _) = server.used();
        queue.admin().all_stats(None).await.expect("the schema is installed");
        counted.push((*size, server.used().0 - cpu));
        let mut times = Vec::new();
        let page = router(queue.clone(), Options::default());
        for (name, address) in addresses(&queue).await {
            times.push((name, time(&mut server, &page, &address).await));
        }
        measured.push(times);
        for browsers in [1, 20] {
            let page = router(queue.clone(), Options::default());
            costs.push((*size, browsers, cost(&mut server, page, browsers).await));
        }
    }
    print_times(sizes, &measured);
    println!("\n| jobs | browsers | calls/s | CPU of the server, ms/s |\n|---|---|---|---|");
    for (size, browsers, (calls, cpu)) in costs {
        println!("| {size} | {browsers} | {calls:.1} | {cpu:.1} |");
    }
    println!();
    for (size, cpu) in counted {
        println!("Counting all of {size} jobs takes {} ms of the server's CPU time.", cpu.as_millis());
    }
}

fn print_times(sizes: &[u64], measured: &[Vec<(String, Times)>]) {
    let heads: String = sizes.iter().map(|size| format!(" {size} jobs: median, most, first, CPU |")).collect();
    println!("| page |{heads} bytes |\n|---|{}---|", "---|".repeat(sizes.len()));
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    for (index, (name, last)) in measured.last().expect("there is a size").iter().enumerate() {
        let cells: String = measured
            .iter()
            .map(|times| times.get(index).map(|(_, times)| times).unwrap_or(last))
            .map(|times| format!(" {}, {}, {}, {} |", ms(times.median), ms(times.most), ms(times.first), ms(times.cpu)))
            .collect();
        println!("| {name} |{cells} {} |", last.bytes);
    }
    let (name, largest) = measured
        .iter()
        .flatten()
        .max_by_key(|(_, times)| times.bytes)
        .map(|(name, times)| (name, times.bytes))
        .expect("there is a page");
    println!("\nThe largest page: {name}, {largest} bytes.");
}

/// Every page, by a name.
async fn addresses(queue: &Queue) -> Vec<(String, String)> {
    let of = jobs::QUEUE;
    let dead =
        queue.admin().list_ids(&JobFilter::from(JobState::Dead), None, 1).await.expect("the queue exists").jobs[0];
    let mut addresses: Vec<(String, String)> = vec![
        ("overview".to_owned(), "/overview".to_owned()),
        ("queue".to_owned(), format!("/queue?queue={of}")),
        ("queue, a week".to_owned(), format!("/queue?queue={of}&span=week")),
    ];
    let middles: HashMap<JobState, String> = jobs::middles(queue).await;
    for state in STATES {
        addresses.push((format!("jobs: {state}"), format!("/jobs?queue={of}&state={state}")));
        let place = |middle: &String| form(&[("queue", of), ("state", &state.to_string()), ("after", middle)]);
        let middle = middles.get(&state).map_or_else(|| format!("queue={of}&state={state}"), place);
        addresses.push((format!("jobs: {state}, in the middle"), format!("/jobs?{middle}")));
    }
    for (name, query) in [
        ("search: many match", "state=dead&error=full"),
        ("search: none match", "state=dead&error=nothing+like+it"),
        ("search: ready of a kind", "state=ready&kind=blur"),
        ("search: ended since", "state=dead&since=2020-01-01"),
    ] {
        addresses.push((name.to_owned(), format!("/jobs?queue={of}&{query}")));
    }
    addresses.push(("job".to_owned(), format!("/job?queue={of}&id={dead}")));
    addresses.push(("find an id".to_owned(), format!("/find?text={dead}")));
    for page in ["workers", "schedules", "batches", "audit"] {
        addresses.push((page.to_owned(), format!("/{page}")));
    }
    addresses.push(("batches, all".to_owned(), "/batches?all=1".to_owned()));
    for (name, query) in [
        ("requeue all dead: how many", "state=dead&action=requeue&scope=all"),
        ("requeue dead with an error: how many", "state=dead&action=requeue&scope=all&error=full"),
        ("cancel all ready: how many", "state=ready&action=cancel&scope=all"),
    ] {
        addresses.push((name.to_owned(), format!("/confirm?queue={of}&{query}")));
    }
    addresses
}

fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

async fn ask(page: &Router, address: &str) -> (StatusCode, usize) {
    let request = Request::get(address).header(header::HOST, "localhost").body(Body::empty()).expect("a request");
    let answer = page.clone().oneshot(request).await.expect("the router answers");
    let status = answer.status();
    (status, to_bytes(answer.into_body(), usize::MAX).await.expect("a whole page").len())
}

async fn time(server: &mut Server, page: &Router, address: &str) -> Times {
    let (cpu, _) = server.used();
    let begin = Instant::now();
    let (status, bytes) = ask(page, address).await;
    let first = begin.elapsed();
    assert!(status.is_success() || status.is_redirection(), "{address}: {status}");
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        ask(page, address).await;
        times.push(begin.elapsed());
        // As somebody does who reads: what is read once a second meets some of them.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let cpu = (server.used().0 - cpu) / (ROUNDS as u32 + 1);
    times.sort_unstable();
    Times { first, median: times[times.len() / 2], most: times[times.len() - 1], cpu, bytes }
}

/// Calls and milliseconds of CPU time a second, while so many browsers look at the overview.
async fn cost(server: &mut Server, page: Router, browsers: usize) -> (f64, f64) {
    let mut listeners = Vec::new();
    for _ in 0..browsers {
        let page = page.clone();
        listeners.push(tokio::spawn(async move { ask(&page, "/events?part=overview").await }));
    }
    // The first readings, and those of the pages before, are not what a watched page costs.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (begin, (cpu, calls)) = (Instant::now(), server.used());
    tokio::time::sleep(WATCH).await;
    let (cpu_after, calls_after) = server.used();
    let seconds = begin.elapsed().as_secs_f64();
    listeners.iter().for_each(tokio::task::JoinHandle::abort);
    ((calls_after - calls) as f64 / seconds, (cpu_after - cpu).as_secs_f64() * 1e3 / seconds)
}
