//! A page for [readpast](https://docs.rs/readpast)'s queues: see them, search them, steer them in a browser.
//!
//! ```no_run
//! # async fn example(queue: readpast::Queue) -> Result<(), Box<dyn std::error::Error>> {
//! use readpast_web::{Access, Options, router};
//!
//! // In a program of one's own, under any path, with or without a slash at its end (`nest` answers just one of them):
//! let options = Options::default().access(Access::Token(std::env::var("PAGE_TOKEN")?));
//! let app: axum::Router = axum::Router::new().nest_service("/queues", router(queue, options));
//! # Ok(())
//! # }
//! ```
//!
//! It shows every queue of the schema. The login of its connections is a member of the role `readpast_monitor`, to
//! look, or of `readpast_operator`, to look and to act. All of it goes through the library's calls: there is no SQL
//! here.
//!
//! # How data goes
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
//! | `options` | who may look and act, and from where |
//! | `app`, `routes` | what all requests share; which address is which page |
//! | `security` | sessions, log-in, forged requests, headers |
//! | `readings`, `events` | the depth of all queues once a second, and how it gets to the browsers |
//! | `connections` | how many ask SQL Server at once |
//! | `counts` | how many jobs there are, without counting all of millions each second |
//! | `pages` | a file for each page |
//! | `acting` | what is done to jobs: preview, progress, stop, audit |
//! | `fields`, `job_search` | what a request asks for |
//! | `root`, `links` | where the pages stand, seen from an address; links between them |
//! | `render`, `frame`, `failure` | a template as an answer; what stands around every page; what is shown in place of one |
//! | `chart`, `texts`, `payload_view` | how figures, times and bytes are shown |
//! | `attention` | what about a queue needs attention |
//! | `assets` | the stylesheet and the script |
//! | `serve`, `patient` | the page as a server of its own, and its connections |

mod acting;
mod app;
mod assets;
mod chart;
mod connections;
mod counts;
mod events;
mod failure;
mod fields;
mod frame;
mod job_search;
mod links;
mod options;
mod pages;
mod patient;
mod readings;
mod render;
mod root;
mod routes;
mod security;
mod serve;

// The program writes them alike.
#[doc(hidden)]
pub mod attention;
#[doc(hidden)]
pub mod payload_view;
#[doc(hidden)]
pub mod texts;

use axum::Router;
use readpast::Queue;

use app::App;

pub use axum::http::HeaderName;
pub use options::{Access, Options, OptionsError, User, hash_password};
pub use serve::serve;

/// The page, to be mounted under any path of a program's own router, or served as it is.
///
/// `queue` names the schema and its connections; the page shows all queues there. Who may look is up to
/// [`Options::access`].
///
/// What is being done to many jobs runs in tasks of the runtime. They are cut off where that ends: what was done stays,
/// and the audit has no end of it. ([`serve`] waits for them.)
pub fn router(queue: Queue, options: Options) -> Router {
    routes::routes(App::new(queue, options))
}
