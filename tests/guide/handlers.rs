//! docs/handlers.md

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use readpast::admin::QueueOptions;
use readpast::{
    BoxError, Context, Handlers, Job, JobEnd, JobError, JobId, Json, KindOptions, Needs, NewJob, OutOfMemory, Outcome,
    Output, TypedJob, Worker,
};
use serde::{Deserialize, Serialize};

use crate::support::{Fixture, changed};

#[derive(Serialize, Deserialize)]
struct Resize {
    file: String,
    width: u32,
}

impl TypedJob for Resize {
    const KIND: &'static str = "resize";
    type Output = Json<usize>;

    fn run(self, context: &Context) -> Result<Json<usize>, BoxError> {
        if self.width == 0 {
            return Err(JobError::dead("a picture is at least one pixel wide").into());
        }
        let picture = read(&self.file)?;
        let small = shrink(&picture, self.width);
        context.state::<Sizes>().remember(&self.file, small.len());
        Ok(Json(small.len()))
    }
}

fn describe(job: &Job, context: &Context) -> Result<Output, BoxError> {
    let address = format!("pictures/{}", job.text()?);
    let text = context.block_on(ask(&address))?;
    let tenant = job.header("tenant").unwrap_or("nobody");
    Ok(Output::bytes(format!("{tenant}: {text}")))
}

fn handlers() -> Handlers {
    let two_at_once = KindOptions::new().at_most(2).time_limit(Duration::from_secs(60));
    Handlers::new()
        .job::<Resize>()
        .kind("describe", describe)
        .options("describe", two_at_once)
        .otherwise(|job, _| Err::<(), _>(format!("what is {:?}?", job.kind()).into()))
        .state(Sizes::default())
}

fn import(job: &Job, context: &Context) -> Result<(), BoxError> {
    match context.block_on(fetch(&job.text()?)) {
        Fetched::Rows(rows) => store(rows),
        Fetched::NotYet => Err(JobError::snooze(Duration::from_secs(60), "the file is not there yet").into()),
        Fetched::Busy => Err(JobError::retry_in(Duration::from_secs(5), "the service is busy").into()),
        Fetched::Gone => Err(JobError::dead("the file was withdrawn").into()),
    }
}

fn montage(job: &Job, context: &Context) -> Result<(), BoxError> {
    for parent in context.parents()? {
        if let JobEnd::Done { output: Some(thumbnail) } = parent.end {
            paste(&job.text()?, parent.job_id, &thumbnail)?;
        }
    }
    Ok(())
}

fn paste(album: &str, job: JobId, thumbnail: &[u8]) -> Result<(), BoxError> {
    println!("{album}: {} bytes of job {job}", thumbnail.len());
    Ok(())
}

#[allow(clippy::let_and_return)] // the guide's lines
fn out_of_memory() -> Handlers {
    let grow = OutOfMemory::Grow { factor: 2.0, max: 64 << 30 };
    let move_on = OutOfMemory::MoveTo("large".to_owned());
    let handlers = Handlers::new()
        .kind("simulate", simulate)
        .options("simulate", KindOptions::new().on_out_of_memory(grow))
        .kind("render", render)
        .options("render", KindOptions::new().on_out_of_memory(move_on));
    handlers
}

fn simulate(_: &Job, _: &Context) -> Result<(), BoxError> {
    Err(JobError::out_of_memory("no memory for the mesh").into())
}

use simulate as render;

#[test]
fn a_montage_pastes_what_its_parents_have_made() {
    let parents = [(JobId(1), JobEnd::Done { output: Some(b"a".to_vec()) }), (JobId(2), JobEnd::Done { output: None })];
    let context = Context::for_test(Job::for_test(NewJob::text("ab.png"))).with_parents(parents);
    let outcome = Handlers::any(montage).run_for_test(context);
    assert_eq!(outcome, Outcome::Done { output: None, follow_ups: vec![] });
}

#[test]
fn a_kind_says_what_happens_without_memory() {
    let run = |kind: &str| {
        let job = NewJob::text("").kind(kind).needs(Needs::new().memory(3 << 30));
        out_of_memory().run_for_test(Context::for_test(Job::for_test(job)))
    };
    let Outcome::Retry { needs: Some(needs), .. } = run("simulate") else { panic!("it is retried with more") };
    assert_eq!(*needs, Needs::new().memory(6 << 30));
    assert!(matches!(run("render"), Outcome::Move { queue, .. } if queue == "large"));
}

#[derive(Default)]
struct Sizes(Mutex<HashMap<String, usize>>);

impl Sizes {
    fn remember(&self, file: &str, size: usize) {
        self.0.lock().unwrap().insert(file.to_owned(), size);
    }
}

enum Fetched {
    Rows(usize),
    NotYet,
    Busy,
    Gone,
}

async fn fetch(name: &str) -> Fetched {
    match name {
        "late" => Fetched::NotYet,
        "busy" => Fetched::Busy,
        "gone" => Fetched::Gone,
        _ => Fetched::Rows(1),
    }
}

fn store(rows: usize) -> Result<(), BoxError> {
    if rows == 1 { Ok(()) } else { Err("too many".into()) }
}

fn read(file: &str) -> std::io::Result<Vec<u8>> {
    Ok(file.as_bytes().to_vec())
}

fn shrink(picture: &[u8], width: u32) -> Vec<u8> {
    picture.iter().copied().take(width as usize).collect()
}

async fn ask(address: &str) -> std::io::Result<String> {
    Ok(format!("a cat ({address})"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_has_its_handler() {
    let fixture = Fixture::with("guide_handlers", QueueOptions::default().max_attempts(1)).await;
    let jobs = [
        NewJob::of(&Resize { file: "a.png".to_owned(), width: 3 }).unwrap(),
        NewJob::of(&Resize { file: "b.png".to_owned(), width: 0 }).unwrap(),
        NewJob::text("c.png").kind("describe").header("tenant", "acme"),
        NewJob::text("d.png").kind("colour"),
    ];
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let worker = Worker::builder(&fixture.queue, handlers()).start().await.unwrap();
    let stats = worker.drain().await.unwrap().stats;
    assert_eq!((stats.done, stats.dead), (2, 2));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_says_what_becomes_of_the_job() {
    let fixture = Fixture::new("guide_errors").await;
    let jobs = ["late", "busy", "gone", "here"].map(NewJob::text);
    fixture.queue.enqueue_many(&jobs).await.unwrap();
    let config = changed(fixture.config.worker.clone(), |worker| worker.finish_linger = Duration::ZERO);
    let worker = Worker::builder(&fixture.queue, Handlers::any(import)).config(&config).start().await.unwrap();
    let stats = worker.drain_until(Duration::ZERO).await.unwrap().stats;
    assert_eq!((stats.done, stats.dead, stats.retried, stats.snoozed), (1, 1, 1, 1));
    fixture.remove().await;
}
