//! A job's way through the dev server's claim and finish: in this process and on one thread, without a socket.

use std::process::ExitCode;

use readpast_devserver::DevServer;

use super::callgrind::{self, Counts};
use in_process::{ENQUEUE, InProcess, QUEUE, WORKER};
use wire::OWN_SCHEMA;

#[allow(dead_code)] // shared with the dev server's own bench, which needs more of it
#[path = "../../devserver/benches/queue/wire.rs"]
mod wire;

#[path = "../../devserver/benches/queue/in_process.rs"]
mod in_process;

/// The first argument of the process that is counted; the second is the call.
pub const ROLE: &str = "server";

const BATCH: i32 = 500;
/// Batches before the first that is counted: the procedures are compiled, and the tables have rows.
const WARM_UP: usize = 4;
const COUNTED: usize = 20;

/// What a job takes in this call.
pub fn measure(call: &str) -> Counts {
    let name = format!("server-{call}");
    callgrind::count(&name, &[ROLE, call], Some("counted_call")).per(BATCH as u64 * COUNTED as u64)
}

/// Claims and finishes, in the process that is counted.
pub fn run(counted: &str) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(DevServer::start()).expect("a server");
    let mut session = InProcess::open(&server, &runtime);
    session.install();
    let batches = WARM_UP + COUNTED;
    session.fill(i64::from(BATCH) * batches as i64 + i64::from(ENQUEUE), None);
    for batch in 0..batches {
        let jobs = session.next_claim(BATCH);
        let calls = [
            ("claim", wire::claim(OWN_SCHEMA, QUEUE, WORKER, BATCH)),
            ("finish", wire::finish(OWN_SCHEMA, QUEUE, WORKER, &jobs)),
        ];
        for (name, call) in calls {
            let read_before = server.entries_read();
            if batch >= WARM_UP && name == counted {
                counted_call(&mut session, call);
            } else {
                session.call(call);
            }
            assert!(server.entries_read() - read_before >= BATCH as u64, "{name} of {BATCH} jobs has found them");
        }
    }
    // Freeing the tables row by row tells nobody anything.
    std::process::exit(0);
}

/// Callgrind knows it by its name.
#[inline(never)]
fn counted_call(session: &mut InProcess, call: Vec<u8>) {
    session.call(call);
}
