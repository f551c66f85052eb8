//! Sessions: requests, batches, calls, transactions and what each statement does. README.md here is the map.

pub mod batch;
pub mod call;
pub mod compile;
pub mod ddl;
pub mod engine;
pub mod failure;
pub mod fault;
pub mod login;
pub mod outcome;
pub mod output;
pub mod own_tables;
pub mod permission;
pub mod plan_cache;
pub mod request;
#[expect(clippy::module_inception, reason = "the folder is the layer, the file has the session itself")]
pub mod session;
pub mod statement;
#[cfg(test)]
pub mod tests;

pub use crate::catalog::cancel::CancelHandle;
pub use engine::{Engine, EngineOptions};
pub use fault::Faults;
pub use session::Session;
