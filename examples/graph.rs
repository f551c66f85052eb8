//! Jobs that wait for other jobs: thumbnails, a montage of each album when its thumbnails are there, and a page when all
//! montages are.
//!
//!     cargo run --example graph              # 3 albums
//!     cargo run --example graph -- 100       # more
//!
//! Starts the dev server unless READPAST_URL names a SQL Server. One call enqueues the whole graph. A picture is a part of
//! the Mandelbrot set, and a montage is drawn in letters, so the example needs no files.

use std::time::Duration;

use anyhow::Context as _;
use readpast::admin::{CompletionPolicy, QueueOptions};
use readpast::{BoxError, Config, Context, Handlers, Job, JobEnd, NewJob, Output, Queue, Worker};
use readpast_devserver::DevServer;

/// The pictures of an album, and the width and height of a thumbnail in letters.
const PICTURES: usize = 4;
const WIDTH: usize = 18;
const HEIGHT: usize = 8;

/// How many pixels of a picture, in each direction, become one letter.
const PIXELS: usize = 40;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let albums: usize = std::env::args().nth(1).map_or(Ok(3), |argument| argument.parse())?;
    let mut config = Config::load(None)?;
    // Kept until the end: the dev server stops when it is dropped.
    let dev_server = if config.connection.url.is_empty() { Some(DevServer::start().await?) } else { None };
    if let Some(server) = &dev_server {
        config.connection.url = server.connection_string().into();
    }
    config.queue.name = "graph".into();
    let queue = Queue::connect(&config).await?;
    queue.admin().install().await?;
    // The montage reads the thumbnails, so the queue keeps what its jobs return.
    queue.admin().create(QueueOptions::default().completion(CompletionPolicy::Annotate)).await?;

    let jobs = graph(albums);
    let page = queue.enqueue_many(&jobs).await?.pop().context("the last job is the page")?.job_id;
    println!("enqueued {} jobs", jobs.len());

    let handlers = Handlers::new().kind("thumbnail", thumbnail).kind("montage", montage).kind("page", publish);
    let worker = Worker::builder(&queue, handlers).start().await?;
    let summary = worker.drain().await?;
    match queue.wait(page, Duration::from_secs(10)).await? {
        Some(JobEnd::Done { output: Some(page) }) => println!("{}", String::from_utf8(page)?),
        end => anyhow::bail!("the page is not done: {end:?}"),
    }
    println!("done={} dead={}", summary.stats.done, summary.stats.dead);
    Ok(())
}

/// The thumbnails and the montage of each album, and then the page, which waits for the montages.
fn graph(albums: usize) -> Vec<NewJob> {
    let mut jobs = Vec::new();
    let mut montages = Vec::new();
    for album in 0..albums {
        let first = jobs.len();
        for picture in 0..PICTURES {
            jobs.push(NewJob::text(format!("{album} {picture}")).kind("thumbnail"));
        }
        montages.push(jobs.len());
        jobs.push(NewJob::text(format!("album {album}")).kind("montage").after_earlier(first..first + PICTURES));
    }
    jobs.push(NewJob::text("all albums").kind("page").after_earlier(montages));
    jobs
}

/// Draws a picture and makes it small.
fn thumbnail(job: &Job, _: &Context) -> Result<Output, BoxError> {
    let text = job.text()?;
    let (album, picture) = text.split_once(' ').ok_or("the payload is an album and a picture")?;
    let zoom = 1.0 / (1 + album.parse::<u32>()?) as f64;
    let centre = -1.4 + 0.4 * picture.parse::<u32>()? as f64;
    let letter = |column: usize, row: usize| {
        let mut steps = 0;
        for x in 0..PIXELS {
            for y in 0..PIXELS {
                let place = |pixel, size: usize| pixel as f64 / (size * PIXELS) as f64 - 0.5;
                let real = centre + 2.4 * zoom * place(column * PIXELS + x, WIDTH);
                steps += escapes_after(real, 2.4 * zoom * place(row * PIXELS + y, HEIGHT));
            }
        }
        b" .:-=+*#%@"[(steps / (PIXELS * PIXELS) / 10).min(9)]
    };
    let rows = (0..HEIGHT).map(|row| (0..WIDTH).map(|column| letter(column, row)).collect::<Vec<u8>>());
    Ok(Output::bytes(rows.collect::<Vec<_>>().join(&b'\n')))
}

/// After how many steps the point leaves the Mandelbrot set; 100: never.
fn escapes_after(real: f64, imaginary: f64) -> usize {
    let (mut x, mut y) = (0.0, 0.0);
    for step in 0..100 {
        if x * x + y * y > 4.0 {
            return step;
        }
        (x, y) = (x * x - y * y + real, 2.0 * x * y + imaginary);
    }
    100
}

/// Puts the thumbnails of an album side by side.
fn montage(job: &Job, context: &Context) -> Result<Output, BoxError> {
    let thumbnails = outputs(context)?;
    let mut text = format!("{}\n", job.text()?);
    for row in 0..HEIGHT {
        let rows = thumbnails.iter().map(|thumbnail| thumbnail.lines().nth(row).unwrap_or_default());
        text.push_str(&rows.collect::<Vec<_>>().join(" | "));
        text.push('\n');
    }
    Ok(Output::bytes(text))
}

/// Puts the montages under each other.
fn publish(job: &Job, context: &Context) -> Result<Output, BoxError> {
    Ok(Output::bytes(format!("{}\n\n{}", job.text()?, outputs(context)?.join("\n"))))
}

/// What the jobs returned that this one has waited for, in the order in which they were enqueued.
fn outputs(context: &Context) -> Result<Vec<String>, BoxError> {
    let mut outputs = Vec::new();
    for parent in context.parents()? {
        let JobEnd::Done { output: Some(output) } = parent.end else {
            return Err(format!("job {} has no output", parent.job_id).into());
        };
        outputs.push(String::from_utf8(output)?);
    }
    Ok(outputs)
}
