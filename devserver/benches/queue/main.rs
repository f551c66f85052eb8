//! What a worker's calls cost the dev server: claim of 500, finish of 500, enqueue of 1,000, by the procedures in `sql/`.
//!
//! Three questions: does the cost depend on how many jobs wait; how many rows a second go through one connection and
//! through eight; how much memory does a waiting job take. Times are CPU times of the server (of everything in this
//! process but the clients' threads), which other programs on the machine disturb little; rates are by the clock.
//!
//! `cargo bench -p readpast-devserver`. Without `--bench`, as `cargo test --benches` starts it, it does all of it once
//! with few jobs.

mod wire;

use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use readpast_devserver::DevServer;
use readpast_devserver::engine::Session;
use readpast_devserver::tds::login::LoginRequest;
use readpast_devserver::tds::packet::{Message, PacketType, Reset};
use readpast_devserver::tds::request::{self, Request};
use readpast_devserver::tds::token::{Output, ResponseWriter};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use uuid::Uuid;
use wire::{Claimed, Client};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUEUE: &str = "q";
const WORKER: Uuid = Uuid::from_u128(1);
const PAYLOAD: usize = 200;
const CLAIM: i32 = 500;
const ENQUEUE: i32 = 1_000;

/// How much is done.
struct Scale {
    /// The numbers of waiting jobs.
    backlogs: [i64; 3],
    /// How often 1,000 jobs go through, at each backlog.
    rounds: usize,
}

const FULL: Scale = Scale { backlogs: [1_000, 100_000, 1_000_000], rounds: 60 };
const ONCE: Scale = Scale { backlogs: [1_000, 2_000, 12_000], rounds: 1 };

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
        session.report(&grouped(backlog), scale.rounds);
    }
    session.fill(waiting, Some(3_600_000));
    session.report(&format!("{} and as many scheduled", grouped(waiting)), scale.rounds);
    println!();
    println!("Memory: {bytes_a_job} bytes a job of {PAYLOAD}, {} waiting", grouped(waiting));
    println!();

    println!("Over a socket, at {} waiting jobs:", grouped(waiting));
    println!("{:<34}{:>12}{:>12}{:>12}{:>16}", "connections", "claimed/s", "finished/s", "both/s", "server us/job");
    for connections in [1, 8] {
        let rates = through_sockets(server.address(), connections, scale.rounds);
        println!(
            "{connections:<34}{:>12}{:>12}{:>12}{:>16.2}",
            grouped(rates.claimed as i64),
            grouped(rates.finished as i64),
            grouped(rates.both as i64),
            rates.server_us
        );
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

/// A session without a socket: requests go in as bytes, answers go nowhere.
struct InProcess {
    session: Session,
    writer: ResponseWriter,
    /// The next job that a claim gives. Claims are in order of the ids, and there is one session.
    next_job: i64,
    _stop: watch::Sender<bool>,
}

impl InProcess {
    fn open(server: &DevServer, runtime: &Runtime) -> InProcess {
        let login = LoginRequest {
            user: "sa".to_owned(),
            password: "readpast".to_owned(),
            database: String::new(),
            app_name: String::new(),
            host_name: String::new(),
        };
        let session = server.engine().login(&login).expect("the default login");
        let (stop, stopping) = watch::channel(false);
        let handle: &Handle = runtime.handle();
        let output = Output::new(Box::new(tokio::io::sink()), handle.clone(), stopping);
        InProcess { session, writer: ResponseWriter::new(output), next_job: 1, _stop: stop }
    }

    /// Installs the scripts, and makes a queue and a worker.
    fn install(&mut self) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql");
        let entries = std::fs::read_dir(folder).expect("the scripts are there");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
        files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(char::is_numeric)));
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(file).expect("a readable script").replace("$(schema)", "readpast");
            for batch in text.split("\nGO") {
                self.session.run_batch(batch, &mut self.writer);
            }
        }
        for batch in [
            format!("EXEC readpast.create_queue N'{QUEUE}'"),
            format!("EXEC readpast.register_worker N'{QUEUE}', '{WORKER}', N'bench', 3600000"),
        ] {
            self.session.run_batch(&batch, &mut self.writer);
        }
    }

    fn call(&mut self, payload: Vec<u8>) -> Duration {
        let message = Message { packet_type: PacketType::Rpc, reset: Reset::No, ignored: false, payload };
        let start = cpu_time(ClockId::ThreadCPUTime);
        let decoded = request::decode(&message).expect("a request");
        let Request::Calls(calls) = decoded.request else { panic!("it was made as a call") };
        for call in calls {
            self.session.run_rpc(call, &mut self.writer);
        }
        cpu_time(ClockId::ThreadCPUTime) - start
    }

    fn fill(&mut self, count: i64, delay_ms: Option<i64>) {
        for _ in 0..count / i64::from(ENQUEUE) {
            self.call(wire::enqueue(QUEUE, ENQUEUE, PAYLOAD, delay_ms));
        }
    }

    /// Prints what each call costs a row while so many jobs wait.
    fn report(&mut self, waiting: &str, rounds: usize) {
        let mut total = [Duration::ZERO; 3];
        for _ in 0..rounds {
            for _ in 0..ENQUEUE / CLAIM {
                let jobs: Vec<Claimed> = (0..i64::from(CLAIM)).map(|job| (self.next_job + job, 1)).collect();
                self.next_job += i64::from(CLAIM);
                total[0] += self.call(wire::claim(QUEUE, WORKER, CLAIM));
                total[1] += self.call(wire::finish(QUEUE, WORKER, &jobs));
            }
            total[2] += self.call(wire::enqueue(QUEUE, ENQUEUE, PAYLOAD, None));
        }
        let rows = (rounds * ENQUEUE as usize) as f64;
        let [claim, finish, enqueue] = total.map(|time| time.as_secs_f64() * 1e6 / rows);
        println!("{waiting:<34}{claim:>10.2}{finish:>10.2}{enqueue:>10.2}");
    }
}

struct Rates {
    claimed: f64,
    finished: f64,
    both: f64,
    server_us: f64,
}

/// Lets each connection claim and finish by turns.
fn through_sockets(address: SocketAddr, connections: usize, rounds: usize) -> Rates {
    let calls = rounds * (ENQUEUE / CLAIM) as usize / connections.min(rounds);
    let barrier = Barrier::new(connections + 1);
    let (claiming, finishing, client_cpu) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let add = |counter: &AtomicU64, time: Duration| counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    let mut server_cpu = Duration::ZERO;
    let mut elapsed = Duration::ZERO;
    std::thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut client = Client::connect(address, "sa", "readpast");
                let claim = wire::claim(QUEUE, WORKER, CLAIM);
                barrier.wait();
                let cpu_before = cpu_time(ClockId::ThreadCPUTime);
                for _ in 0..calls {
                    let start = Instant::now();
                    client.call(&claim);
                    add(&claiming, start.elapsed());
                    let jobs = client.claimed();
                    assert_eq!(jobs.len(), CLAIM as usize);
                    let finish = wire::finish(QUEUE, WORKER, &jobs);
                    let start = Instant::now();
                    client.call(&finish);
                    add(&finishing, start.elapsed());
                }
                add(&client_cpu, cpu_time(ClockId::ThreadCPUTime) - cpu_before);
                barrier.wait();
            });
        }
        barrier.wait();
        let (start, cpu_before) = (Instant::now(), cpu_time(ClockId::ProcessCPUTime));
        barrier.wait();
        elapsed = start.elapsed();
        server_cpu = cpu_time(ClockId::ProcessCPUTime) - cpu_before;
    });
    let rows = (connections * calls * CLAIM as usize) as f64;
    let seconds = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64 / 1e9 / connections as f64;
    Rates {
        claimed: rows / seconds(&claiming),
        finished: rows / seconds(&finishing),
        both: rows / elapsed.as_secs_f64(),
        server_us: (server_cpu.as_secs_f64() * 1e6 - client_cpu.load(Ordering::Relaxed) as f64 / 1e3) / rows,
    }
}

/// The smallest calls: a heartbeat, and a claim of one job.
fn round_trips(address: SocketAddr, count: usize) {
    let mut client = Client::connect(address, "sa", "readpast");
    println!("Round trips, one connection:");
    println!("{:<34}{:>12}{:>16}", "call", "us", "server CPU us");
    for (name, message) in [("heartbeat", wire::heartbeat(WORKER)), ("claim of 1", wire::claim(QUEUE, WORKER, 1))] {
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
