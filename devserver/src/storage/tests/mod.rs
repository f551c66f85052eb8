//! Storage under one and under several connections, without any T-SQL.

pub(super) mod fixture;
mod locking;
mod range;
mod table;
mod version;
