//! The page, from outside: over HTTP, and in a browser.
//!
//! Against the dev server or, with READPAST_URL set, a real one. What needs a browser is ignored, and counted so, where
//! nobody asks for it: `.ci/check-browser` does.

mod acting;
mod asked_workers;
mod attention;
mod audit;
mod browser_acting;
mod browser_data;
mod browser_everywhere;
mod browser_forms;
mod browser_pictures;
mod browser_seeing;
mod crowded;
mod hostile_text;
mod job_logs;
mod last_hour;
mod links;
mod live;
mod log_in;
mod new_job;
mod paging;
mod queue_settings;
mod reading;
mod requests;
#[path = "../../tests/support/server.rs"]
mod server;
mod set_schedules;
mod support;
mod support_browser;
mod words;
