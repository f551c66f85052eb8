//! The third stage: SQL Server is told what became of the jobs, until it has answered.

pub(super) mod completion_batcher;
pub(super) mod confirmations;
pub(super) mod finish_retries;

pub(super) mod large_outputs;
pub(super) mod locked_rows;
mod refused_result_search;
