//! The schedules of all queues: next times and errors.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use readpast::admin::{JobState, ScheduleRow};

use crate::app::App;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::links::link;
use crate::render::html;
use crate::security::visitor::Visitor;
use crate::time::Time;

#[derive(Template)]
#[template(path = "schedules.html")]
struct Page {
    frame: Frame,
    schedules: Vec<ScheduleView>,
}

struct ScheduleView {
    queue: String,
    name: String,
    cron: String,
    time_zone: String,
    kind: Option<String>,
    paused: bool,
    next_at: Time,
    last_at: Option<Time>,
    /// The job of that time, if there is its row.
    last_job: Option<LastJob>,
    error: Option<String>,
}

struct LastJob {
    link: String,
    state: JobState,
}

impl ScheduleView {
    fn new(queue: &str, schedule: ScheduleRow) -> ScheduleView {
        let last_job = match (schedule.last_job_id, schedule.last_job_state, &schedule.last_job_queue) {
            (Some(job_id), Some(state), Some(queue)) => {
                Some(LastJob { link: link("job", [("queue", queue.as_str()), ("id", &job_id.to_string())]), state })
            }
            _ => None,
        };
        ScheduleView {
            queue: queue.to_owned(),
            name: schedule.name,
            cron: schedule.cron,
            time_zone: schedule.time_zone,
            kind: schedule.kind,
            paused: schedule.paused,
            next_at: Time(schedule.next_at),
            last_at: schedule.last_at.map(Time),
            last_job,
            error: schedule.error,
        }
    }

    fn is_in_trouble(&self) -> bool {
        self.error.is_some() || self.last_job.as_ref().is_some_and(|job| job.state == JobState::Dead)
    }
}

pub async fn show(State(app): State<App>, visitor: Visitor) -> Result<Response, Failure> {
    let reading = app.all_queues().await?;
    let mut schedules = Vec::new();
    for line in &reading.queues {
        let queue = app.queue(&line.activity.stats.queue).await?;
        schedules.extend(
            queue.admin().schedules().await?.into_iter().map(|schedule| ScheduleView::new(queue.name(), schedule)),
        );
    }
    schedules.sort_by_key(|schedule| !schedule.is_in_trouble());
    let frame = Frame::new(&app, visitor, "schedules", "Schedules").await;
    Ok(html(&Page { frame, schedules }))
}
