//! docs/long-jobs.md

use std::time::Duration;

use readpast::{BoxError, Context, Handlers, Job, JobError, Json, NewJob, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
struct Simulation {
    day: u32,
    value: f64,
}

fn simulate(job: &Job, context: &Context) -> Result<Json<f64>, BoxError> {
    let days: u32 = job.json()?;
    let mut simulation: Simulation = match job.checkpoint() {
        Some(checkpoint) => serde_json::from_slice(checkpoint)?,
        None => Simulation::default(),
    };
    while simulation.day < days {
        if context.is_cancelled() {
            return Err("cancelled, out of time, or the lease was lost".into());
        }
        simulation.next_day();
        context.checkpoint(serde_json::to_vec(&simulation)?)?;
        context.progress(simulation.day as f32 / days as f32, "simulating");
        if context.is_stopping() {
            return Err(JobError::snooze(Duration::ZERO, "the worker stops").into());
        }
    }
    Ok(Json(simulation.value))
}

impl Simulation {
    fn next_day(&mut self) {
        self.day += 1;
        self.value += 1.0;
    }
}

#[test]
fn a_worker_that_stops_gets_a_checkpoint() {
    let context = Context::for_test(Job::for_test(NewJob::json(&3).unwrap())).stopping();
    let outcome = Handlers::any(simulate).run_for_test(context);
    assert_eq!(outcome, Outcome::Snooze { delay: Duration::ZERO, error: "the worker stops".to_owned() });
}

#[test]
fn the_next_attempt_goes_on_from_it() {
    let checkpoint = serde_json::to_vec(&Simulation { day: 2, value: 20.0 }).unwrap();
    let job = Job::for_test(NewJob::json(&3).unwrap()).with_checkpoint(checkpoint);
    let outcome = Handlers::any(simulate).run_for_test(Context::for_test(job));
    assert_eq!(outcome, Outcome::Done { output: Some(b"21.0".to_vec()), follow_ups: vec![] });
}

#[test]
fn a_cancelled_job_ends_in_its_loop() {
    let context = Context::for_test(Job::for_test(NewJob::json(&3).unwrap())).cancelled();
    assert!(matches!(Handlers::any(simulate).run_for_test(context), Outcome::Retry { .. }));
}
