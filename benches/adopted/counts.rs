//! The dev server's instructions for a job of a claim and of a finish: a figure that no other program on the machine
//! blurs, counted as in `benches/instructions`.

use readpast::Queue;
use readpast_adopt::Mapping;
use readpast_devserver::DevServer;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::tables::TABLES;
use super::throughput::bench::{self, PAYLOAD_BYTES};
use callgrind::Counts;
use in_process::{ENQUEUE, InProcess};

#[path = "../instructions/callgrind.rs"]
mod callgrind;

#[allow(dead_code)] // shared with the dev server's own bench, which needs more of it
#[path = "../../devserver/benches/queue/wire.rs"]
mod wire;

#[path = "../../devserver/benches/queue/in_process.rs"]
mod in_process;

/// The first argument of the process that is counted; the others are the mapping, or [`OWN`], and the call.
pub const ROLE: &str = "counted";
/// A table of readpast's own.
const OWN: &str = "own";

const BATCH: i32 = 500;
/// Batches before the first that is counted: the procedures are compiled, and the tables have rows.
const WARM_UP: usize = 4;
const COUNTED: usize = 20;

pub fn measure() {
    if !callgrind::is_here() {
        println!("adopted: valgrind is not here; nothing is counted");
        return;
    }
    println!("the dev server's instructions a job, in batches of {BATCH}");
    println!("{:<20} {:>8} {:>8} {:>8} {:>8}", "table", "claim", "finish", "both", "times");
    let own = [count(OWN, "claim"), count(OWN, "finish")];
    print("readpast's own", own, own);
    for table in TABLES {
        print(table.mapping, [count(table.mapping, "claim"), count(table.mapping, "finish")], own);
    }
}

fn print(table: &str, [claim, finish]: [f64; 2], own: [f64; 2]) {
    let both = claim + finish;
    println!("{table:<20} {claim:>8.0} {finish:>8.0} {both:>8.0} {:>8.2}", both / own.iter().sum::<f64>());
}

fn count(table: &str, call: &str) -> f64 {
    let name = format!("adopted-{table}-{call}");
    let Counts { own, libc, .. } =
        callgrind::count(&name, &[ROLE, table, call], Some("counted_call")).per(BATCH as u64 * COUNTED as u64);
    own + libc
}

/// Claims and finishes, in the process that is counted.
pub fn run(table: &str, counted: &str) {
    let runtime = Runtime::new().expect("a runtime");
    let server = runtime.block_on(DevServer::builder().tls(false).start()).expect("a server");
    let mut session = InProcess::open(&server, &runtime);
    let batches = WARM_UP + COUNTED;
    let rows = BATCH as usize * batches;
    let (schema, queue) = if table == OWN {
        session.install();
        session.fill((rows + ENQUEUE as usize) as i64, None);
        (wire::OWN_SCHEMA.to_owned(), in_process::QUEUE.to_owned())
    } else {
        let table = TABLES.iter().find(|known| known.mapping == table).expect("a known table");
        session.batch(table.create);
        session.batch(&(table.fill)(rows, PAYLOAD_BYTES));
        let mapping = table.mapping();
        runtime.block_on(adopt(&server, &mapping));
        (mapping.schema().expect("it names a schema").to_string(), mapping.queue().to_owned())
    };
    let worker = Uuid::from_u128(2);
    session.batch(&format!("EXEC [{schema}].register_worker N'{queue}', '{worker}', N'bench', 3600000"));
    for batch in 0..batches {
        let jobs = session.next_claim(BATCH);
        let calls = [
            ("claim", wire::claim(&schema, &queue, worker, BATCH)),
            ("finish", wire::finish(&schema, &queue, worker, &jobs)),
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

async fn adopt(server: &DevServer, mapping: &Mapping) {
    let mut config = bench::config(&server.connection_string(), mapping.queue());
    config.connection.schema = mapping.schema().expect("it names a schema").to_string();
    let queue = Queue::connect(&config).await.expect("the library connects");
    readpast_adopt::adopt(&queue, mapping).await.expect("the table can be adopted");
}

/// Callgrind knows it by its name.
#[inline(never)]
fn counted_call(session: &mut InProcess, call: Vec<u8>) {
    session.call(call);
}
