//! How a fleet comes back: after SQL Server was away, and after a third of the workers have died.

use crate::Sizes;
use crate::fleet::{Fleet, STARTING, config};
use crate::report::{Report, number};
use crate::server::Procedure;
use crate::world::{Event, MS, Micros, SECOND};

const AWAY: Micros = 60 * SECOND;

pub fn simulate(report: &mut Report, sizes: &Sizes) {
    outage(report, sizes);
    deaths(report, sizes);
}

fn most(calls: &[u32]) -> f64 {
    f64::from(calls.iter().copied().max().unwrap_or(0))
}

fn mean(calls: &[u32]) -> f64 {
    f64::from(calls.iter().sum::<u32>()) / calls.len() as f64
}

/// SQL Server is restarted: a minute long every connection is refused.
fn outage(report: &mut Report, sizes: &Sizes) {
    let workers = sizes.workers;
    let mut rows = Vec::new();
    for (name, job) in [("idle", None), ("jobs of 1 s", Some(SECOND))] {
        let mut fleet = Fleet::new(workers, 1, &config(), sizes.seed);
        let (from, until) = (STARTING + 60 * SECOND, STARTING + 60 * SECOND + AWAY);
        if let Some(takes) = job {
            fleet.enqueue(0, workers * 4 * 200, takes);
        }
        fleet.world.server.goes_away(from, until);
        fleet.run_until(until + 90 * SECOND);
        let server = &fleet.world.server;
        let before = mean(&fleet.all_calls_in(from - 20 * SECOND, from));
        let tries = mean(&fleet.calls_in(Procedure::Login, from + 10 * SECOND, until));
        let logins = fleet.calls_in(Procedure::Login, until, until + 20 * SECOND);
        let calls = fleet.all_calls_in(until, until + 20 * SECOND);
        let again = (until / SECOND..until / SECOND + 60).find(|second| {
            let ended = fleet.ended(second * SECOND, (second + 1) * SECOND);
            ended as f64 >= 0.95 * fleet.ended(from - SECOND, from) as f64
        });
        rows.push(vec![
            name.to_string(),
            number(before),
            number(tries),
            number(most(&logins)),
            number(most(&calls)),
            again
                .filter(|_| job.is_some())
                .map_or(String::new(), |second| number((second - until / SECOND) as f64 + 1.0)),
            server.leases_lost.to_string(),
        ]);
        report.claim(&format!("{name}: an outage of a minute costs no lease"), server.leases_lost == 0);
        report.claim(
            &format!("{name}: no second after the outage has more than four logins a worker"),
            most(&logins) <= 4.0 * workers as f64,
        );
        if job.is_some() {
            report.claim(
                &format!("{name}: ten seconds after the outage as many jobs end as before"),
                again.is_some_and(|second| second - until / SECOND < 10),
            );
            let twice = server.jobs.iter().filter(|job| job.ready_again_at.is_some()).count();
            report.claim(&format!("{name}: no job is given to another worker"), twice == 0);
        }
    }
    let columns = [
        "fleet",
        "calls/s before",
        "connection tries/s during",
        "most logins/s after",
        "most calls/s after",
        "s until the job rate is back",
        "leases lost",
    ];
    report.table("an outage of 60 s", &columns, &rows);
}

/// A third of the workers are killed, the one with the duties among them.
fn deaths(report: &mut Report, sizes: &Sizes) {
    let workers = sizes.workers;
    let config = config();
    let mut rows = Vec::new();
    for job in [SECOND, 30 * SECOND] {
        let mut fleet = Fleet::new(workers, 1, &config, sizes.seed);
        fleet.enqueue(0, workers * 4 * (200 * SECOND / job) as usize, job);
        let died_at = STARTING + 60 * SECOND;
        fleet.run_until(died_at);
        let elected = fleet.world.server.worker_with_duties(0).expect("one has the duties");
        let dying: Vec<usize> = (0..workers).filter(|worker| worker % 3 == elected % 3).collect();
        let mut held: Vec<u32> = Vec::new();
        for worker in &dying {
            held.extend(fleet.world.server.held(*worker));
            fleet.world.at(died_at, *worker, Event::Dies);
        }
        let limit = died_at + 200 * SECOND;
        let ready_again = |fleet: &Fleet| {
            // (What was on its way to SQL Server when they died is acknowledged.)
            let of = |job: &u32| &fleet.world.server.jobs[*job as usize];
            held.iter().all(|job| of(job).ready_again_at.is_some() || of(job).ended_at.is_some())
        };
        let ready_at = fleet.run_until_so(100 * MS, limit, ready_again);
        let runs_again = |fleet: &Fleet| {
            let of = |job: &u32| &fleet.world.server.jobs[*job as usize];
            held.iter().all(|job| of(job).started_at.is_some_and(|at| at > died_at) || of(job).ended_at.is_some())
        };
        let runs_at = fleet.run_until_so(100 * MS, limit, runs_again);
        let seconds = |time: Option<Micros>| time.map_or(f64::INFINITY, |time| (time - died_at) as f64 / SECOND as f64);
        let (ready_after, runs_after) = (seconds(ready_at), seconds(runs_at));
        rows.push(vec![
            format!("{} s", job / SECOND),
            number(dying.len() as f64),
            number(held.len() as f64),
            number(ready_after),
            number(runs_after),
        ]);
        let promise = config.lease.as_secs_f64() + 1.2 * config.reap_interval.as_secs_f64();
        report.claim(
            &format!("jobs of {} s: those of the dead are ready again within {promise} s", job / SECOND),
            ready_after <= promise + 0.1,
        );
        let lost = fleet.world.server.leases_lost;
        report.claim("the dead alone are called lost", lost == dying.len());
    }
    let columns = ["job length", "dead workers", "jobs they held", "s until all are ready", "s until all run"];
    report.table("a third of the workers die", &columns, &rows);
}
