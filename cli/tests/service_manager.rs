//! `readpast work` as a service of systemd, with a socket in place of systemd's.

use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use readpast::NewJob;
use rustix::process::Signal;

use crate::support::run;
use crate::worker_process::{WorkFixture, WorkerProcess};

/// How long a test waits for a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// After so long without a word, systemd would kill the worker: it says one five times a second.
const WATCHDOG_USEC: &str = "400000";

/// Systemd's end.
struct Messages(UnixDatagram);

impl Messages {
    fn of(work: &WorkFixture) -> Messages {
        let socket = UnixDatagram::bind(work.path("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Messages(socket)
    }

    fn next(&self) -> String {
        let mut message = [0; 1_024];
        let read = self.0.recv(&mut message).expect("a message");
        String::from_utf8(message[..read].to_vec()).unwrap()
    }

    /// The next message that has this in it.
    fn next_with(&self, part: &str) -> String {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let message = self.next();
            if message.contains(part) {
                return message;
            }
            assert!(Instant::now() < give_up, "no {part} comes, but {message}");
        }
    }

    /// What comes in so long.
    fn within(&self, time: Duration) -> Vec<String> {
        let until = Instant::now() + time;
        let mut messages = Vec::new();
        while Instant::now() < until {
            messages.push(self.next());
        }
        messages
    }
}

fn as_a_service(work: &WorkFixture, arguments: &[&str]) -> Command {
    let mut command = work.command(arguments);
    command.env("NOTIFY_SOCKET", work.path("notify")).env("WATCHDOG_USEC", WATCHDOG_USEC);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_when_it_is_ready_alive_and_stopping() {
    let work = WorkFixture::new("notify").await;
    let messages = Messages::of(&work);
    let worker = WorkerProcess::start(as_a_service(&work, &["--shell", "env; sleep 1"]));
    assert_eq!(messages.next(), "READY=1", "first of all");
    assert_eq!(work.queue.admin().workers(std::time::Duration::MAX).await.unwrap().len(), 1, "it has registered");
    let job = work.enqueue(NewJob::text("x")).await;
    for _ in 0..3 {
        let alive = messages.next_with("WATCHDOG=1");
        assert!(alive.contains("\nSTATUS="), "{alive}");
    }
    messages.next_with("STATUS=1 running, 0 waiting, 0 done, 0 dead");
    messages.next_with("STATUS=0 running, 0 waiting, 1 done, 0 dead");
    // Its programs have nothing to say to systemd.
    let environment = work.output(job).await;
    assert!(environment.contains("READPAST_JOB_ID=") && environment.contains("PATH="), "{environment}");
    assert!(!environment.contains("NOTIFY_SOCKET") && !environment.contains("WATCHDOG_"), "{environment}");

    let slow = work.enqueue(NewJob::text("x")).await;
    messages.next_with("STATUS=1 running");
    worker.signal(Signal::TERM);
    messages.next_with("STOPPING=1");
    assert!(messages.next_with("WATCHDOG=1").contains("is stopping"), "while a job runs, it is alive");
    worker.end().ok();
    assert!(work.output(slow).await.contains("PATH="));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_drained_ends_the_service() {
    let work = WorkFixture::new("notify_drain").await;
    let messages = Messages::of(&work);
    run(&mut as_a_service(&work, &["--drain", "--", "true"])).ok();
    assert_eq!(messages.next(), "READY=1");
    messages.next_with("STOPPING=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_start_is_never_ready() {
    let work = WorkFixture::new("notify_fails").await;
    let messages = Messages::of(&work);
    run(as_a_service(&work, &["--", "true"]).env("READPAST_SCHEMA", "no_such_schema")).failed(7);
    messages.0.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(messages.0.recv(&mut [0; 64]).is_err());
}

/// Its log goes into a pipe that nobody reads: once that is full, the thread that claims and acknowledges stands still.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_stuck_does_not_say_that_it_is_alive() {
    let work = WorkFixture::new("notify_stuck").await;
    let messages = Messages::of(&work);
    let (mut log, mut logged) = std::io::pipe().unwrap();
    logged.write_all(&[b'.'; 56 << 10]).unwrap(); // of 64 KiB
    let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = probe.local_addr().unwrap().to_string();
    drop(probe);
    let mut command = as_a_service(&work, &["--metrics", &address, "--", "false"]);
    let _worker = Killed(command.stdout(Stdio::null()).stderr(logged).spawn().unwrap());
    drop(command); // and with it this process's end of the pipe
    messages.next_with("WATCHDOG=1");
    let healthy = || work.fixture.run(&["health", &format!("http://{address}/healthz")]);
    assert_eq!(healthy().ok(), "alive\n");

    // A line of the log for each.
    let jobs: Vec<NewJob> = (0..500).map(|_| NewJob::text("x").max_attempts(1)).collect();
    work.queue.enqueue_many(&jobs).await.unwrap();
    messages.next_with("stuck");
    let since = messages.within(Duration::from_secs(2));
    assert!(since.len() > 3 && since.iter().all(|message| !message.contains("WATCHDOG")), "{since:?}");
    let unhealthy = healthy();
    assert_eq!((unhealthy.code, unhealthy.stdout.as_str()), (1, "not alive: the thread of a worker is stuck\n"));

    // Somebody reads again.
    std::thread::spawn(move || log.read_to_end(&mut Vec::new()));
    messages.next_with("WATCHDOG=1");
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
