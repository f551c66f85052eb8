//! What an idle fleet asks of SQL Server, and how soon it is at work.

use crate::Sizes;
use crate::fleet::{Fleet, STARTING, config};
use crate::report::{Report, number};
use crate::restated::{ALL_PLACES, LOOK_EVERY, PLACES, WAIT};
use crate::server::{PROCEDURES, Procedure};
use crate::world::{MS, Micros, SECOND};

/// The bench `throughput`, "calls of an idle worker", counted by a proxy.
const MEASURED_AT_REST: f64 = 1.6;

/// For so long it is looked: claims of an idle worker come every five minutes.
const LOOK_FOR: Micros = 600 * SECOND;

pub fn simulate(report: &mut Report, sizes: &Sizes) {
    let many = sizes.workers;
    let fleets = [(1, 1), (many / 10, 1), (many, 1), (many, 10)];
    let mut columns = vec!["calls/s".to_string()];
    let mut rows: Vec<Vec<String>> = PROCEDURES.iter().map(|(_, name)| vec![format!("`{name}`")]).collect();
    rows[0][0] = "logins".to_string();
    let (mut all, mut waiting, mut sessions) = (Vec::new(), Vec::new(), Vec::new());
    for (workers, queues) in fleets {
        let mut fleet = Fleet::new(workers, queues, &config(), sizes.seed);
        let from = STARTING + 320 * SECOND; // after the first claims that come anyway
        fleet.run_until(from + LOOK_FOR);
        let of_queues = if queues == 1 { String::new() } else { format!(" of {queues} queues") };
        columns.push(format!("{} worker{}{of_queues}", number(workers as f64), if workers == 1 { "" } else { "s" }));
        for (row, (procedure, _)) in rows.iter_mut().zip(&PROCEDURES) {
            row.push(number(fleet.rate(*procedure, from, from + LOOK_FOR)));
        }
        let calls = fleet.all_calls_in(from, from + LOOK_FOR);
        all.push(f64::from(calls.iter().sum::<u32>()) / calls.len() as f64);
        waiting.push(fleet.world.server.waiting());
        sessions.push(fleet.sessions());
    }
    rows.retain(|row| row[1..].iter().any(|rate| rate != "0"));
    let line = |name: &str, values: Vec<String>| [vec![name.to_string()], values].concat();
    rows.push(line("**all except logins**", all.iter().map(|rate| number(*rate)).collect()));
    rows.push(line("waiting threads of SQL Server", waiting.iter().map(ToString::to_string).collect()));
    rows.push(line("connections", sessions.iter().map(|sessions| number(*sessions as f64)).collect()));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    report.table("idle fleets", &columns, &rows);

    report.claim("an idle worker calls as often as was measured", (all[0] - MEASURED_AT_REST).abs() < 0.1);
    report.claim("no more than 32 sessions of a queue wait", waiting[2] <= PLACES);
    report.claim("no more than 64 sessions of all queues wait", waiting[3] <= ALL_PLACES);
    let per_worker = all[2] / many as f64;
    report.claim("an idle worker of a fleet makes less than a call in four seconds", per_worker < 0.25 || many < 500);
    let (all_workers, places, wait) = (many as f64, PLACES as f64, (WAIT / SECOND) as f64);
    let bound = all_workers / 10.0 + (all_workers - places) * 1.05 / 10.0 + places / wait + 3.0 + all_workers / 300.0;
    report.claim("the arithmetic of the calls holds for the fleet", (0.8 * bound..bound).contains(&all[2]));
    wakes(report, sizes);
}

/// One job for each thread of an idle fleet, all at once.
fn wakes(report: &mut Report, sizes: &Sizes) {
    let workers = sizes.workers;
    let mut rows = Vec::new();
    for poll_max_ms in [200_u64, 1_000] {
        let mut config = config();
        config.poll_max = std::time::Duration::from_millis(poll_max_ms);
        let mut fleet = Fleet::new(workers, 1, &config, sizes.seed);
        fleet.run_until(STARTING + 60 * SECOND);
        let begun = fleet.world.now;
        let threads = workers * config.threads;
        fleet.enqueue(0, threads, 60 * SECOND);
        let mut after = |part: usize| {
            let is_so = |fleet: &Fleet| fleet.running() >= part;
            fleet.run_until_so(10 * MS, begun + 60 * SECOND, is_so).map(|at| at - begun)
        };
        let (one, half, all) = (after(1), after(threads / 2), after(threads));
        let seconds = |time: Option<Micros>| time.map_or("never".to_string(), |time| number(time as f64 / 1e6));
        rows.push(vec![poll_max_ms.to_string(), seconds(one), seconds(half), seconds(all)]);
        report.claim(
            &format!(
                "poll_max_ms {poll_max_ms}: the first job starts within it, all threads run 12 s later at the latest"
            ),
            one.is_some_and(|time| time <= poll_max_ms * MS + 50 * MS)
                && all.is_some_and(|time| time <= LOOK_EVERY * 6 / 5 + poll_max_ms * MS),
        );
        if poll_max_ms == 200 {
            let claims = fleet.calls_in(Procedure::Claim, begun, begun + 15 * SECOND);
            report.claim(
                "no second of it has more than two claims a worker",
                claims.iter().all(|calls| *calls as usize <= 2 * workers),
            );
        }
    }
    let columns = ["`poll_max_ms`", "s until the first job runs", "… half of the threads", "… all threads"];
    report.table("a burst on an idle fleet", &columns, &rows);
}
