//! Storage under one and under several connections, without any T-SQL.

mod deadlock;
mod escalation;
pub(super) mod fixture;
mod locking;
mod range;
mod table;
mod version;
