//! What can be done to jobs.

use readpast::serde_json::{Value, json};
use readpast::{JobChange, JobFilter, JobId, JobState};

use crate::failure::Failure;
use crate::fields::Fields;

/// Why a cancelled job was cancelled, where nobody says.
pub const WHY: &str = "cancelled on the page";

/// So many of the jobs that are named are noted: a note has an end.
const NOTED_JOBS: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobAction {
    Requeue,
    Cancel,
    /// Make a scheduled job ready.
    RunNow,
    Priority(i16),
    Purge,
}

impl JobAction {
    const ALL: [JobAction; 5] =
        [JobAction::Requeue, JobAction::RunNow, JobAction::Cancel, JobAction::Priority(0), JobAction::Purge];

    /// Those for jobs of a state, or of any.
    pub fn of(state: Option<JobState>) -> Vec<&'static JobAction> {
        const ALL: &[JobAction] = &JobAction::ALL;
        ALL.iter().filter(|action| action.fits(state)).collect()
    }

    /// Jobs of all states are not deleted at once: somebody who wants that names each state.
    pub fn fits(&self, state: Option<JobState>) -> bool {
        match (self.change(), state) {
            (Some(change), Some(state)) => change.states().contains(&state),
            (Some(_), None) => *self != JobAction::Purge,
            (None, state) => state == Some(JobState::Scheduled),
        }
    }

    /// As a form names it.
    pub fn read(fields: &Fields) -> Result<JobAction, Failure> {
        let word = fields.required("action")?;
        let action = JobAction::ALL.into_iter().find(|action| action.word() == word);
        match action {
            Some(JobAction::Priority(_)) => {
                let priority = fields.parsed("priority")?;
                let allowed = "it must be -32768 to 32767; smaller runs first";
                priority.map(JobAction::Priority).ok_or_else(|| Failure::bad("priority", "missing", allowed))
            }
            Some(action) => Ok(action),
            None => Err(Failure::bad("action", word, "it must be requeue, run_now, cancel, priority or purge")),
        }
    }

    pub fn word(&self) -> &'static str {
        match self {
            JobAction::Requeue => "requeue",
            JobAction::Cancel => "cancel",
            JobAction::RunNow => "run_now",
            JobAction::Priority(_) => "priority",
            JobAction::Purge => "purge",
        }
    }

    /// In the audit, as the program has it there.
    pub fn audit_word(&self) -> &'static str {
        match self {
            JobAction::RunNow => "promote",
            JobAction::Priority(_) => "set_priority",
            action => action.word(),
        }
    }

    /// To which jobs it is done, for the audit: these or, without any, those of a filter.
    pub fn what(&self, jobs: &[JobId], filter: Option<&JobFilter>) -> Value {
        let mut what = match jobs.len() {
            0 => json!({ "filter": filter }),
            named => json!({ "jobs": &jobs[..named.min(NOTED_JOBS)], "named": named }),
        };
        match self {
            JobAction::Cancel => what["why"] = WHY.into(),
            JobAction::Priority(priority) => what["priority"] = (*priority).into(),
            _ => {}
        }
        what
    }

    /// What its button says.
    pub fn label(&self) -> &'static str {
        match self {
            JobAction::Requeue => "Requeue",
            JobAction::Cancel => "Cancel",
            JobAction::RunNow => "Run now",
            JobAction::Priority(_) => "Priority…",
            JobAction::Purge => "Delete…",
        }
    }

    /// What has been done.
    pub fn past(&self) -> &'static str {
        match self {
            JobAction::Requeue => "requeued",
            JobAction::Cancel => "cancelled",
            JobAction::RunNow => "made ready",
            JobAction::Priority(_) => "given the priority",
            JobAction::Purge => "deleted",
        }
    }

    /// It must be confirmed for one job, too.
    pub fn asks(&self) -> bool {
        matches!(self, JobAction::Priority(_) | JobAction::Purge)
    }

    /// As the library has it; `None`: it has it only job by job.
    pub fn change(&self) -> Option<JobChange> {
        match self {
            JobAction::Requeue => Some(JobChange::Requeue),
            JobAction::Cancel => Some(JobChange::Cancel { why: WHY.to_owned() }),
            JobAction::RunNow => None,
            JobAction::Priority(priority) => Some(JobChange::SetPriority(*priority)),
            JobAction::Purge => Some(JobChange::Purge),
        }
    }
}

/// The jobs that were ticked; none: all that match.
pub fn ids(fields: &Fields) -> Result<Vec<JobId>, Failure> {
    let read = |text: &str| text.parse().map(JobId).map_err(|_| Failure::bad("id", text, "it must be a number"));
    let ids: Vec<JobId> = fields.all("id").map(read).collect::<Result<_, _>>()?;
    let all = fields.get("scope") == Some("all");
    match (all, ids.is_empty()) {
        (true, _) => Ok(Vec::new()),
        (false, false) => Ok(ids),
        (false, true) => Err(Failure::bad("jobs", "none", "tick some first, or choose all that match")),
    }
}
