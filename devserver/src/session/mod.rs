//! Sessions: requests, batches, procedures, transactions and what each statement does.

pub mod batch;
pub mod check_identity;
pub mod connections;
pub mod cursor;
pub mod ddl;
pub mod engine;
pub mod fault;
pub mod output;
pub mod permission;
pub mod procedure;
pub mod rpc;
pub mod session;
pub mod statement;
pub mod system_procedure;
#[cfg(test)]
pub mod tests;
pub mod transaction;
pub mod trigger;
pub mod unknown_procedure;

pub use engine::{Engine, EngineOptions};
pub use fault::Faults;
pub use session::{CancelHandle, Session};
