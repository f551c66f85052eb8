//! Which address is which page, and what every request goes through.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::app::App;
use crate::{acting, assets, events, failure, pages, security};

pub fn routes(app: App) -> Router {
    Router::new()
        .route("/", get(pages::to_overview))
        .route("/overview", get(pages::overview::show))
        .route("/queue", get(pages::queue::show))
        .route("/jobs", get(pages::jobs::show))
        .route("/job", get(pages::job::show))
        .route("/bytes", get(pages::job::download))
        .route("/find", get(pages::find::find))
        .route("/workers", get(pages::workers::show))
        .route("/schedules", get(pages::schedules::show))
        .route("/batches", get(pages::batches::show))
        .route("/audit", get(pages::audit::show))
        .route("/events", get(events::stream))
        .route("/confirm", get(acting::confirm::show))
        .route("/act", post(acting::act::act))
        .route("/operation", get(acting::operation_page::show))
        .route("/stop", post(acting::operation_page::stop))
        .route("/login", get(security::login::show).post(security::login::log_in))
        .route("/logout", post(security::login::log_out))
        .fallback(failure::no_such_page)
        .layer(from_fn_with_state(app.clone(), security::guard))
        .route("/assets/{name}", get(assets::get))
        .layer(from_fn(security::headers::add))
        .with_state(app)
}
