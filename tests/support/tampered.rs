//! Arbitrary bytes as payloads, and a server whose answers are changed at arbitrary places, against the public API. The
//! fuzz targets `readpast_answers` and `readpast_payload` and the tests of `bad_input.rs` share it.
//!
//! ```text
//! library ──▶ tampering proxy ──▶ dev server      what is read is changed, cut short or cut off, as the input says
//! ```

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use readpast::admin::{JobChange, JobState, QueueOptions};
use readpast::{Config, Handlers, NewJob, Output, Queue, Worker};
use readpast_devserver::DevServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Whatever takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a connection lives on after the first change: a client that waits for bytes that were cut away is not
/// waited for.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// One change of what a server answers: five bytes of input.
#[derive(Clone, Copy)]
struct Change {
    /// Of which connection, counted from the first, modulo 8.
    connection: usize,
    /// At which byte of all that the server sends there, and so on at each such distance after the change before.
    after: usize,
    what: u8,
    value: u8,
}

/// The server, the proxy before it and the queues, made once for all inputs.
struct Bench {
    runtime: Runtime,
    server: DevServer,
    /// What the proxy does to the connections that are made from now on.
    changes: Mutex<Vec<Change>>,
    connections: AtomicUsize,
    tampered: Config,
    honest: Queue,
}

static PANICKED: AtomicBool = AtomicBool::new(false);

fn bench() -> &'static Bench {
    static BENCH: OnceLock<&'static Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The program's other tests may panic as they like.
            let is_ours = std::thread::current().name().is_some_and(|name| name.starts_with("tampered"));
            PANICKED.fetch_or(is_ours, Ordering::SeqCst);
            report(panic);
        }));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tampered")
            .enable_all()
            .build()
            .expect("a runtime");
        let (server, listener) = runtime.block_on(async {
            let server = DevServer::start().await.expect("a free port");
            (server, TcpListener::bind("127.0.0.1:0").await.expect("a free port"))
        });
        let port = listener.local_addr().expect("it is bound").port();
        let mut config = Config::default();
        config.connection.url = server.connection_string().into();
        config.queue.name = "work".to_string();
        let honest = runtime.block_on(async {
            let queue = Queue::connect(&config).await.expect("it listens");
            queue.admin().install().await.expect("a new server");
            queue.admin().create(QueueOptions::default()).await.expect("a new schema");
            queue
        });
        let mut tampered = config.clone();
        // The last of several equal keys counts.
        tampered.connection.url =
            format!("{};Server=tcp:127.0.0.1,{port};Encrypt=DANGER_PLAINTEXT", server.connection_string()).into();
        tampered.connection.connect_timeout = Duration::from_secs(1);
        tampered.connection.command_timeout = Duration::from_secs(1);
        tampered.worker.name = "the one".to_string();
        tampered.worker.take_over = true;
        tampered.worker.threads = 1;
        tampered.worker.poll_min = Duration::from_millis(1);
        tampered.worker.poll_max = Duration::from_millis(5);
        tampered.worker.finish_linger = Duration::ZERO;
        tampered.worker.heartbeat_interval = Duration::from_millis(100);
        tampered.worker.shutdown_deadline = Duration::from_millis(50);
        let (changes, connections) = (Mutex::default(), AtomicUsize::new(0));
        let bench: &'static Bench =
            Box::leak(Box::new(Bench { runtime, server, changes, connections, tampered, honest }));
        bench.runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let connection = bench.connections.fetch_add(1, Ordering::SeqCst) % 8;
                let changes = bench.changes.lock().expect("nobody panics with it").clone();
                let here = changes.into_iter().filter(|change| change.connection == connection).collect();
                bench.runtime.spawn(forward(client, bench.server.address(), here));
            }
        });
        bench
    })
}

async fn forward(mut client: TcpStream, server: std::net::SocketAddr, changes: Vec<Change>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let requests = tokio::io::copy(&mut from_client, &mut to_server);
    let answers = async {
        let mut changes = changes.into_iter();
        let mut next = changes.next();
        let mut until = next.map_or(0, |change| change.after);
        let mut changed_at = None;
        let mut buffer = [0; 4_096];
        loop {
            let read = from_server.read(&mut buffer);
            let length = match changed_at {
                None => read.await,
                Some(at) => match tokio::time::timeout_at(at + AFTERWARDS, read).await {
                    Ok(read) => read,
                    Err(_) => return,
                },
            };
            let Ok(length @ 1..) = length else { return };
            let mut bytes = Vec::with_capacity(length);
            for byte in &buffer[..length] {
                match next {
                    Some(change) if until == 0 => {
                        changed_at.get_or_insert_with(tokio::time::Instant::now);
                        match change.what % 4 {
                            0 => bytes.push(byte ^ change.value),
                            1 => bytes.push(change.value),
                            2 => {} // it is missing
                            _ => return,
                        }
                        next = changes.next();
                        until = next.map_or(0, |change| change.after);
                    }
                    _ => {
                        until = until.saturating_sub(1);
                        bytes.push(*byte);
                    }
                }
            }
            if to_client.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = requests => {}
        () = answers => {}
    }
}

/// Every call of the library meets answers that were changed: no panic and no hang, whatever comes; and what was not
/// run is not acknowledged, so that an honest worker finds it afterwards.
pub fn answers(input: &[u8]) {
    const JOBS: u64 = 3;
    let bench = bench();
    let (changes, _) = input.as_chunks::<5>();
    let changes = changes.iter().take(16).map(|[connection, low, high, what, value]| Change {
        connection: usize::from(connection % 8),
        after: usize::from(u16::from_le_bytes([*low, *high])) % 2_048,
        what: *what,
        value: *value,
    });
    *bench.changes.lock().expect("nobody panics with it") = changes.collect();
    bench.connections.store(0, Ordering::SeqCst);
    bench.runtime.block_on(async {
        let jobs = (0..JOBS).map(|number| NewJob::text(number.to_string()));
        bench.honest.enqueue_many(&jobs.collect::<Vec<_>>()).await.expect("an honest server");
        let runs = Arc::new(AtomicUsize::new(0));
        timeout(PATIENCE, tampered_worker(bench, runs.clone())).await.expect("the worker ends");
        timeout(PATIENCE, tampered_calls(bench)).await.expect("every call ends");
        assert!(!PANICKED.load(Ordering::SeqCst), "a task panicked");

        // What was sent before the end may still be under way, so that it is the reap that says what is left.
        let worker =
            Worker::builder(&bench.honest, Handlers::any(|_, _| Ok(()))).config(&bench.tampered.worker).start().await;
        let drained = timeout(PATIENCE, worker.expect("an honest server").drain()).await;
        let here = drained.expect("nothing is left behind").expect("an honest server").stats.done;
        let left = bench.honest.admin().stats(None).await.expect("an honest server");
        assert_eq!((left.ready, left.scheduled, left.claimed, left.dead), (0, 0, 0, 0));
        let elsewhere = runs.load(Ordering::SeqCst) as u64;
        assert!(here + elsewhere >= JOBS, "{here} jobs were left after {elsewhere} runs");
    });
}

async fn tampered_worker(bench: &Bench, runs: Arc<AtomicUsize>) {
    let Ok(queue) = Queue::connect(&bench.tampered).await else { return };
    let counted = runs.clone();
    let handlers = Handlers::any(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let worker = Worker::builder(&queue, handlers).config(&bench.tampered.worker).start();
    let Ok(worker) = worker.await else { return };
    let (monitor, stop) = (worker.monitor(), worker.stop_handle());
    let end = async {
        for _ in 0..20 {
            if monitor.stats().done >= 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        stop.stop();
    };
    let (ended, ()) = tokio::join!(worker.run(), end);
    shown(ended);
}

async fn tampered_calls(bench: &Bench) {
    let mut config = bench.tampered.clone();
    config.queue.name = "other".to_string();
    let Ok(queue) = Queue::connect(&config).await else { return };
    shown(queue.admin().create(QueueOptions::default()).await);
    shown(queue.enqueue(&NewJob::text("x").dedup_key("x")).await);
    shown(queue.enqueue_many(&[NewJob::text("x").dedup_key("x")]).await);
    shown(queue.admin().stats(None).await);
    shown(queue.admin().list(&JobState::Ready.into(), None, 10).await);
    shown(queue.admin().pause().await);
    shown(queue.admin().resume().await);
    shown(queue.admin().change(&JobChange::Requeue, JobState::Dead).await);
    shown(queue.admin().change(&JobChange::Purge, JobState::Done).await);
    shown(queue.admin().verify().await);
}

/// An error can be shown, and says something.
fn shown<T>(answer: Result<T, readpast::Error>) {
    if let Err(error) = answer {
        assert!(!error.to_string().is_empty() && !format!("{error:?}").is_empty());
    }
}

/// Any bytes as a payload: they arrive as they were sent, and are decoded or refused with an error that names the job.
pub fn payload(bytes: &[u8]) {
    let bench = bench();
    let expected = bytes.to_vec();
    bench.runtime.block_on(async {
        let job_id = bench.honest.enqueue(&NewJob::bytes(bytes)).await.expect("an honest server").job_id;
        let handlers = Handlers::any(move |job, _| {
            assert_eq!((job.id(), job.payload()), (job_id, expected.as_slice()));
            assert_eq!(job.text().ok().as_deref(), std::str::from_utf8(&expected).ok());
            for error in [
                job.text().err(),
                job.json::<String>().err(),
                job.json::<(u8, f64, Option<bool>)>().err(),
                job.json::<HashMap<String, Vec<i64>>>().err(),
            ] {
                assert!(error.is_none_or(|error| error.to_string().contains(&job_id.to_string())));
            }
            Ok(Output::bytes(job.payload()))
        });
        let worker = Worker::builder(&bench.honest, handlers).config(&bench.tampered.worker).start();
        let drained = timeout(PATIENCE, worker.await.expect("an honest server").drain()).await;
        let stats = drained.expect("it ends").expect("an honest server").stats;
        assert_eq!((stats.done, stats.retried, stats.dead), (1, 0, 0), "a check in the handler failed");
    });
}
