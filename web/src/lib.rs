//! A web UI for the queues of [readpast](https://docs.rs/readpast): view, search and control them in a browser.
//!
//! ```no_run
//! # async fn example(queue: readpast::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! use readpast_web::{Access, Options, router};
//!
//! // Under any path of your own program, with or without a slash at its end (`nest` accepts only one of them):
//! let options = Options::default().access(Access::Token(std::env::var("PAGE_TOKEN")?));
//! let app: axum::Router = axum::Router::new().nest_service("/queues", router(queue, options));
//! # Ok(())
//! # }
//! ```
//!
//! The UI shows every queue of the schema. Its SQL Server login must be a member of the role `readpast_monitor`, to
//! view, or of `readpast_operator`, to view and act. The UI uses the library's calls and contains no SQL.
//!
//! # Data flow
//!
//! ```text
//! browser ─▶ security: who is it, may he ─▶ pages, a file each ─▶ the library ─▶ SQL Server
//!    ▲                                        │
//!    └── HTML of templates/, live parts by    ├─ readings: all queues and workers, once a second for all browsers
//!        server-sent events                   └─ acting: what is done to many jobs, in batches, with a stop
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `options` | who may view and act, and from where |
//! | `app`, `routes` | shared state; the routes |
//! | `security` | sessions, login, forged requests, headers |
//! | `readings`, `events` | the depth of all queues once a second, and how it gets to the browsers |
//! | `running_jobs` | what running jobs report, once per second for all browsers that show them |
//! | `connections` | shares of the connections to SQL Server |
//! | `counts` | job counts at a bounded cost |
//! | `pages` | a file for each page |
//! | `acting` | actions: forms, preview, progress, stop, audit |
//! | `fields`, `job_search` | fields and searches of requests |
//! | `root`, `links` | relative links |
//! | `render`, `frame`, `failure` | templates as responses; the frame of pages; error pages |
//! | `sentence` | entries of the audit as sentences |
//! | `chart`, `timeline`, `graph` | pictures: of a queue's history, a job's life, and jobs that wait for each other |
//! | `texts`, `payload_view`, `hex` | formats of numbers, durations and bytes |
//! | `time` | times as words, or exact |
//! | `telling_line`, `error_view` | the line of an error that contains the reason |
//! | `recent`, `last_hour`, `attention` | the last hours of the queues, each and together, once a minute |
//! | `problem` | what needs attention, as sentences |
//! | `assets` | the stylesheet and the script |
//! | `serve`, `patient` | the web UI as its own server, and its connections |

mod acting;
mod app;
mod assets;
mod chart;
mod connections;
mod counts;
mod error_view;
mod events;
mod failure;
mod fields;
mod frame;
mod graph;
mod job_search;
mod last_hour;
mod links;
mod options;
mod pages;
mod patient;
mod problem;
mod readings;
mod recent;
mod render;
mod root;
mod routes;
mod running_jobs;
mod security;
mod sentence;
mod serve;
mod time;
mod timeline;

// Shared with the CLI.
#[doc(hidden)]
pub mod attention;
#[doc(hidden)]
pub mod hex;
#[doc(hidden)]
pub mod payload_view;
#[doc(hidden)]
pub mod telling_line;
#[doc(hidden)]
pub mod texts;

use axum::Router;
use readpast::Queue;

use app::App;

pub use axum::http::HeaderName;
pub use options::{Access, Options, OptionsError, User, hash_password};
pub use serve::serve;

/// The web UI as a router, to be mounted under any path or served as it is.
///
/// `queue` names the schema and its connections; the UI shows all queues of the schema. [`Options::access`] decides who
/// may view it.
///
/// Changes of many jobs run in tasks of the runtime. If the runtime ends, completed changes stay, and the audit entry
/// has no outcome. ([`serve`] waits for them.)
pub fn router(queue: Queue, options: Options) -> Router {
    routes::routes(App::new(queue, options))
}
