//! What a worker's calls cost the dev server: claim of 500, finish of 500, enqueue of 1,000, by the procedures in
//! `sql/`.
//!
//! Four questions: does the cost depend on how many jobs wait; how many rows a second go through one connection and
//! through eight; how many if some connections claim while others finish, as a worker's do; how much memory does a
//! waiting job take. Times are CPU times of the server (of everything in this process but the clients' threads), which
//! other programs on the machine disturb little; rates are by the clock.
//!
//! `cargo bench -p readpast-devserver`. Without `--bench`, as `cargo test --benches` starts it, it does all of it once
//! with few jobs.

mod in_process;
mod wire;

use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use in_process::{ENQUEUE, InProcess, PAYLOAD, QUEUE, WORKER};
use readpast_devserver::DevServer;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use wire::{Claimed, Client, OWN_SCHEMA};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLAIM: i32 = 500;

/// How much is done.
struct Scale {
    /// The numbers of waiting jobs.
    backlogs: [i64; 3],
    /// How often 1,000 jobs go through, at each backlog.
    rounds: usize,
}

const FULL: Scale = Scale { backlogs: [1_000, 100_000, 1_000_000], rounds: 60 };
const ONCE: Scale = Scale { backlogs: [1_000, 2_000, 16_000], rounds: 1 };

fn main() {
    let scale = if std::env::args().any(|argument| argument == "--bench") { FULL } else { ONCE };
    // A client that fails must not leave the others waiting for it.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(1);
    }));
    let runtime = Runtime::new().expect("a runtime");
    let memory_before = resident_bytes();
    let server = runtime.block_on(DevServer::start()).expect("a server");
    let mut session = InProcess::open(&server, &runtime);
    session.install();

    println!("In process, CPU time in microseconds a row:");
    println!("{:<34}{:>10}{:>10}{:>10}", "waiting jobs", "claim", "finish", "enqueue");
    let mut waiting = 0;
    let mut bytes_a_job = 0;
    for backlog in scale.backlogs {
        session.fill(backlog - waiting, None);
        waiting = backlog;
        bytes_a_job = resident_bytes().saturating_sub(memory_before) / backlog as u64;
        report_calls(&mut session, &grouped(backlog), scale.rounds);
    }
    session.fill(waiting, Some(3_600_000));
    report_calls(&mut session, &format!("{} and as many scheduled", grouped(waiting)), scale.rounds);
    println!();
    println!("Memory: {bytes_a_job} bytes a job of {PAYLOAD}, {} waiting", grouped(waiting));
    println!();

    println!("Over a socket, at {} waiting jobs, by turns:", grouped(waiting));
    println!("{:<34}{:>12}{:>12}{:>12}{:>16}", "connections", "claimed/s", "finished/s", "jobs/s", "server us/job");
    for connections in [1, 8] {
        let rates = through_sockets(server.address(), connections, scale.rounds);
        println!(
            "{connections:<34}{:>12}{:>12}{:>12}{:>16.2}",
            grouped(rates.claimed as i64),
            grouped(rates.finished as i64),
            grouped(rates.both.jobs as i64),
            rates.both.server_us
        );
    }
    println!();
    println!("Over a socket, claimed and finished at once:");
    println!("{:<34}{:>12}{:>16}", "connections", "jobs/s", "server us/job");
    for (claimers, finishers) in [(1, 1), (1, 2), (2, 2)] {
        let rate = at_once(server.address(), claimers, finishers, scale.rounds);
        let connections = format!("{claimers} to claim, {finishers} to finish");
        println!("{connections:<34}{:>12}{:>16.2}", grouped(rate.jobs as i64), rate.server_us);
    }
    println!();
    round_trips(server.address(), scale.rounds * 100);
    // Freeing millions of rows one by one tells nobody anything.
    std::process::exit(0);
}

fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The CPU time that the process, or the calling thread, has used.
fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The memory that the process has; 0 where there is no /proc.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * PAGE
}

/// The CPU time of a call.
fn timed_call(session: &mut InProcess, call: Vec<u8>) -> Duration {
    let start = cpu_time(ClockId::ThreadCPUTime);
    session.call(call);
    cpu_time(ClockId::ThreadCPUTime) - start
}

/// Prints what each call costs a row while so many jobs wait.
fn report_calls(session: &mut InProcess, waiting: &str, rounds: usize) {
    let mut total = [Duration::ZERO; 3];
    for _ in 0..rounds {
        for _ in 0..ENQUEUE / CLAIM {
            let jobs = session.next_claim(CLAIM);
            total[0] += timed_call(session, wire::claim(OWN_SCHEMA, QUEUE, WORKER, CLAIM));
            total[1] += timed_call(session, wire::finish(OWN_SCHEMA, QUEUE, WORKER, &jobs));
        }
        total[2] += timed_call(session, wire::enqueue(QUEUE, ENQUEUE, PAYLOAD, None));
    }
    let rows = (rounds * ENQUEUE as usize) as f64;
    let [claim, finish, enqueue] = total.map(|time| time.as_secs_f64() * 1e6 / rows);
    println!("{waiting:<34}{claim:>10.2}{finish:>10.2}{enqueue:>10.2}");
}

struct Rates {
    claimed: f64,
    finished: f64,
    both: Rate,
}

struct Rate {
    jobs: f64,
    server_us: f64,
}

/// What the threads of clients took from their common start to their end.
struct Stopwatch {
    ready: Barrier,
    go: Barrier,
    done: Barrier,
    client_cpu: AtomicU64,
}

impl Stopwatch {
    fn new(clients: usize) -> Stopwatch {
        let barrier = || Barrier::new(clients + 1);
        Stopwatch { ready: barrier(), go: barrier(), done: barrier(), client_cpu: AtomicU64::new(0) }
    }

    /// A client that has connected runs `work`.
    fn client(&self, work: impl FnOnce()) {
        self.ready.wait();
        // The clock starts between the two.
        self.go.wait();
        let before = cpu_time(ClockId::ThreadCPUTime);
        work();
        add(&self.client_cpu, cpu_time(ClockId::ThreadCPUTime) - before);
        self.done.wait();
    }

    /// Lets the clients go, and waits for them.
    fn measure(&self, jobs: usize) -> Rate {
        self.ready.wait();
        let (start, before) = (Instant::now(), cpu_time(ClockId::ProcessCPUTime));
        self.go.wait();
        self.done.wait();
        let elapsed = start.elapsed();
        let process = cpu_time(ClockId::ProcessCPUTime) - before;
        let server = process.saturating_sub(Duration::from_nanos(self.client_cpu.load(Ordering::Relaxed)));
        Rate { jobs: jobs as f64 / elapsed.as_secs_f64(), server_us: server.as_secs_f64() * 1e6 / jobs as f64 }
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Some connections claim, others finish what was claimed: as a worker does it.
fn at_once(address: SocketAddr, claimers: usize, finishers: usize, rounds: usize) -> Rate {
    /// Batches that are claimed and not finished: a worker's buffer.
    const AHEAD: usize = 4;
    let claims = rounds * (ENQUEUE / CLAIM) as usize;
    let jobs = claimers * claims * CLAIM as usize;
    let stopwatch = Stopwatch::new(claimers + finishers);
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<Claimed>>(AHEAD);
    let receiver = std::sync::Mutex::new(receiver);
    std::thread::scope(|scope| {
        for sender in std::iter::repeat_n(sender, claimers) {
            let stopwatch = &stopwatch;
            scope.spawn(move || {
                let mut client = Client::connect(address, "sa", "readpast");
                let claim = wire::claim(OWN_SCHEMA, QUEUE, WORKER, CLAIM);
                stopwatch.client(|| {
                    for _ in 0..claims {
                        client.call(&claim);
                        let jobs = client.claimed();
                        assert_eq!(jobs.len(), CLAIM as usize);
                        sender.send(jobs).expect("the finishers go on until the last claimer ends");
                    }
                    drop(sender);
                });
            });
        }
        for _ in 0..finishers {
            scope.spawn(|| {
                let mut client = Client::connect(address, "sa", "readpast");
                stopwatch.client(|| {
                    loop {
                        let claimed = receiver.lock().expect("nobody panics").recv();
                        let Ok(jobs) = claimed else { break };
                        client.call(&wire::finish(OWN_SCHEMA, QUEUE, WORKER, &jobs));
                    }
                });
            });
        }
        stopwatch.measure(jobs)
    })
}

/// Lets each connection claim and finish by turns.
fn through_sockets(address: SocketAddr, connections: usize, rounds: usize) -> Rates {
    let calls = rounds * (ENQUEUE / CLAIM) as usize / connections.min(rounds);
    let jobs = connections * calls * CLAIM as usize;
    let stopwatch = Stopwatch::new(connections);
    let (claiming, finishing) = (AtomicU64::new(0), AtomicU64::new(0));
    let both = std::thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut client = Client::connect(address, "sa", "readpast");
                let claim = wire::claim(OWN_SCHEMA, QUEUE, WORKER, CLAIM);
                stopwatch.client(|| {
                    for _ in 0..calls {
                        let start = Instant::now();
                        client.call(&claim);
                        add(&claiming, start.elapsed());
                        let jobs = client.claimed();
                        assert_eq!(jobs.len(), CLAIM as usize);
                        let finish = wire::finish(OWN_SCHEMA, QUEUE, WORKER, &jobs);
                        let start = Instant::now();
                        client.call(&finish);
                        add(&finishing, start.elapsed());
                    }
                });
            });
        }
        stopwatch.measure(jobs)
    });
    let seconds = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64 / 1e9 / connections as f64;
    Rates { claimed: jobs as f64 / seconds(&claiming), finished: jobs as f64 / seconds(&finishing), both }
}

/// The smallest calls: a heartbeat, and a claim of one job.
fn round_trips(address: SocketAddr, count: usize) {
    let mut client = Client::connect(address, "sa", "readpast");
    println!("Round trips, one connection:");
    println!("{:<34}{:>12}{:>16}", "call", "us", "server CPU us");
    for (name, message) in
        [("heartbeat", wire::heartbeat(WORKER)), ("claim of 1", wire::claim(OWN_SCHEMA, QUEUE, WORKER, 1))]
    {
        let client_before = cpu_time(ClockId::ThreadCPUTime);
        let (start, process_before) = (Instant::now(), cpu_time(ClockId::ProcessCPUTime));
        for _ in 0..count {
            client.call(&message);
        }
        let elapsed = start.elapsed();
        let process = cpu_time(ClockId::ProcessCPUTime) - process_before;
        let server = process.saturating_sub(cpu_time(ClockId::ThreadCPUTime) - client_before);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        println!("{name:<34}{:>12.1}{:>16.1}", each(elapsed), each(server));
    }
}
