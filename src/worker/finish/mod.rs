//! The third stage: reports the outcomes of jobs to SQL Server until it has responded.

mod confirmations;
mod filling;
mod finish_tries;
mod finisher;
mod kinds_writer;
mod large_outputs;
mod locked_rows;
mod notes_writer;
mod refused_result_search;

pub(super) use confirmations::Ran;
pub(super) use finisher::{Ended, FinishSender, channel};
pub(super) use kinds_writer::{keep_noting_kinds, learn_memory, note_kinds};
pub(super) use notes_writer::{NOTES_BATCH, keep_writing_notes, write_unlocked};
