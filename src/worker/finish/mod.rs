//! The third stage: reports the outcomes of jobs to SQL Server until it has responded.

mod confirmations;
mod filling;
pub(crate) mod finisher;
mod large_outputs;
mod locked_rows;
pub(crate) mod notes_writer;
mod refused_result_search;
mod tries;

pub(super) use confirmations::Ran;
pub(super) use finisher::{Ended, FinishSender};
pub(super) use notes_writer::write_unlocked;
