//! The workers' calls.

mod await_jobs;
mod claim;
mod depth;
mod due_schedules;
mod duties;
mod finish;
mod kind_history;
mod note_progress;
mod registration;
mod release;

pub(crate) use await_jobs::Awaited;
#[cfg(test)]
pub(crate) use claim::read_for_test;
pub(crate) use claim::{ClaimAnswer, ClaimEnd, ClaimLimit, ClaimRequest, ClaimedUnseen, UnreadableJob, Withheld};
pub(crate) use depth::{DepthSample, Unfinished};
pub(crate) use due_schedules::{DueSchedule, Firing};
pub(crate) use duties::{LostWorker, Promoted};
pub(crate) use finish::{
    FINISH, FINISH_ONE, FINISH_WITH, Finish, FinishResult, UNCOMMITTED, finish_one_command, follow_up_list_type,
    read_finish_one,
};
pub(crate) use kind_history::{KindCount, NOTE_KINDS, PEAKS_BY_KIND};
pub(crate) use note_progress::NOTE_PROGRESS;
pub(crate) use registration::{
    Heartbeat, MOST_RESOURCES, QueueSettings, TakenOver, Wishes, WorkReport, Worked, WorkerReport, short_json,
};
