//! A session of the dev server without a socket: requests go in as bytes, answers go nowhere.

use std::path::PathBuf;
use std::sync::Arc;

use readpast_devserver::DevServer;
use readpast_devserver::session::Session;
use readpast_devserver::tds::login::LoginRequest;
use readpast_devserver::tds::packet::{Message, PacketType, Reset};
use readpast_devserver::tds::request::{self, Request};
use readpast_devserver::tds::token::{ResponseWriter, SocketWriter};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use uuid::Uuid;

use super::wire::{self, Claimed};

/// The queue that [`InProcess::install`] makes.
pub const QUEUE: &str = "q";
/// The worker that it registers.
pub const WORKER: Uuid = Uuid::from_u128(1);
/// The size of a payload in bytes.
pub const PAYLOAD: usize = 200;
/// How many jobs one call enqueues.
pub const ENQUEUE: i32 = 1_000;

/// The folder of the installation scripts.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql");

pub struct InProcess {
    session: Session,
    writer: ResponseWriter,
    /// The next job that a claim gives. Claims are in order of the ids, and there is one session.
    next_job: i64,
    _stop: watch::Sender<bool>,
}

impl InProcess {
    pub fn open(server: &DevServer, runtime: &Runtime) -> InProcess {
        let login = LoginRequest {
            user: "sa".to_owned(),
            password: Some("readpast".to_owned()),
            database: String::new(),
            app_name: String::new(),
            host_name: String::new(),
        };
        let session = server.engine().login(&login).expect("the default login");
        let (stop, stopping) = watch::channel(false);
        let output = SocketWriter::new(Box::new(tokio::io::sink()), runtime.handle().clone(), stopping, Arc::default());
        InProcess { session, writer: ResponseWriter::new(output), next_job: 1, _stop: stop }
    }

    /// Installs the scripts, and makes a queue and a worker.
    pub fn install(&mut self) {
        let files = std::fs::read_dir(SCRIPTS).expect("the folder sql").map(|entry| entry.expect("an entry").path());
        let mut files: Vec<PathBuf> = files
            .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit()))
            .collect();
        files.sort();
        for file in files {
            let script = std::fs::read_to_string(file).expect("a script").replace("$(schema)", "readpast");
            for batch in script.split("\nGO\n") {
                self.batch(batch);
            }
        }
        for batch in [
            format!("EXEC readpast.create_queue N'{QUEUE}'"),
            format!("EXEC readpast.register_worker N'{QUEUE}', '{WORKER}', N'bench', 3600000"),
        ] {
            self.batch(&batch);
        }
    }

    pub fn batch(&mut self, batch: &str) {
        self.session.run_batch(batch, &mut self.writer);
    }

    pub fn call(&mut self, payload: Vec<u8>) {
        let message = Message { packet_type: PacketType::Rpc, reset: Reset::No, ignored: false, payload };
        let decoded = request::decode(&message).expect("a request");
        let Request::Calls(calls) = decoded.request else { panic!("it was made as a call") };
        for call in calls {
            self.session.run_rpc(call, &mut self.writer);
        }
    }

    pub fn fill(&mut self, count: i64, delay_ms: Option<i64>) {
        for _ in 0..count / i64::from(ENQUEUE) {
            self.call(wire::enqueue(QUEUE, ENQUEUE, PAYLOAD, delay_ms));
        }
    }

    /// What the next claim will give.
    pub fn next_claim(&mut self, jobs: i32) -> Vec<Claimed> {
        let first = self.next_job;
        self.next_job += i64::from(jobs);
        (first..self.next_job).map(|job| (job, 1)).collect()
    }
}
