//! Batches from their text to the tokens that the client gets.

mod binding;
mod changes;
mod ddl;
mod errors;
mod foreign_keys;
mod harness;
mod install;
mod locking;
mod merge;
mod permissions;
mod plans;
mod queries;
mod random_statements;
mod random_transactions;
mod recursion;
mod rpc;
mod select_into;
mod table_functions;
mod transactions;
mod triggers;
mod windows;
