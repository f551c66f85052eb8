//! Sessions: requests, batches, procedures, transactions and what each statement does.

pub mod batch;
pub mod check_identity;
pub mod compile;
pub mod cursor;
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
pub mod procedure;
pub mod request;
pub mod rpc;
pub mod session;
pub mod statement;
pub mod system_procedure;
#[cfg(test)]
pub mod tests;
pub mod transaction;
pub mod trigger;
pub mod unknown_procedure;
pub mod use_database;

pub use crate::catalog::cancel::CancelHandle;
pub use engine::{Engine, EngineOptions};
pub use fault::Faults;
pub use session::Session;
