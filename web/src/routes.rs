//! The routes, and the layers around them.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};

use crate::acting::two_steps;
use crate::app::App;
use crate::failure::Failure;
use crate::{acting, assets, events, failure, pages, security, time};

pub fn routes(app: App) -> Router {
    // Requests that need SQL Server beyond the reading.
    let asking = Router::new()
        .route("/queue", get(pages::queue::show))
        .route("/jobs", get(pages::jobs::show))
        .route("/job", get(pages::job::show))
        .route("/bytes", get(pages::job::download))
        .route("/find", get(pages::find::find))
        .route("/schedules", get(pages::schedules::show))
        .route("/batches", get(pages::batches::show))
        .route("/audit", get(pages::audit::show))
        .route("/confirm", get(acting::confirm::show))
        .route("/worker", get(pages::worker::show))
        .route("/stop_worker", get(acting::confirm_one::stop_worker))
        .route("/delete_schedule", get(acting::confirm_one::delete_schedule))
        .route("/new_job", get(two_steps::new_job::show))
        .route("/schedule", get(two_steps::schedule::show))
        .route("/settings", get(two_steps::settings::show))
        .route_layer(from_fn_with_state(app.clone(), take_turns));
    Router::new()
        .route("/", get(pages::to_overview))
        .route("/overview", get(pages::overview::show))
        .route("/workers", get(pages::workers::show))
        .route("/events", get(events::stream))
        .route("/act", post(acting::act::act))
        .route("/enqueue", post(two_steps::new_job::send))
        .route("/set_queue", post(two_steps::settings::send))
        .route("/set_schedule", post(two_steps::schedule::send))
        .route("/operation", get(acting::operation_page::show))
        .route("/stop", post(acting::operation_page::stop))
        .route("/login", get(security::login::show).post(security::login::log_in))
        .route("/logout", post(security::login::log_out))
        .merge(asking)
        .fallback(failure::no_such_page)
        .layer(from_fn(time::ask))
        .layer(from_fn_with_state(app.clone(), security::guard))
        .route("/assets/{name}", get(assets::get))
        .layer(from_fn(security::headers::add))
        .with_state(app)
}

async fn take_turns(State(app): State<App>, request: Request, next: Next) -> Result<Response, Failure> {
    let _turn = app.connections.of_page().await?;
    Ok(next.run(request).await)
}
