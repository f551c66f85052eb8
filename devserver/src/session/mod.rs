//! Sessions: requests, batches, calls, transactions and what each statement does. README.md here is the map.

pub mod await_names;
pub mod batch;
pub mod call;
pub mod client_session;
pub mod compile;
pub mod ddl;
pub mod engine;
pub mod failure;
pub mod injected_faults;
pub mod login;
pub mod outcome;
pub mod own_tables;
pub mod permission;
pub mod plan_cache;
pub mod request;
pub mod result_target;
pub mod statement;
#[cfg(test)]
pub mod tests;

pub use crate::catalog::cancel::CancelHandle;
pub use client_session::Session;
pub use engine::{Engine, EngineOptions};
pub use injected_faults::Faults;
