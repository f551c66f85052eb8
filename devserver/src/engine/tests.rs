//! Batches from their text to the tokens that the client gets.

mod articles;
mod binding;
mod catalog;
mod changes;
mod control;
mod ddl;
mod errors;
mod foreign_keys;
mod functions;
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
mod rename;
mod rpc;
mod select_into;
mod table_functions;
mod transactions;
mod triggers;
mod windows;
