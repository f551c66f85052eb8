//! The actions on jobs.

use readpast::JobId;
use readpast::admin::{JobChange, JobState};

use crate::failure::Failure;
use crate::fields::Fields;

/// The reason saved with a job that a visitor cancels.
pub const WHY: &str = "cancelled in the web UI";

/// A change of jobs, and its words in the web UI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobAction {
    pub change: JobChange,
    /// The label of its button.
    pub label: &'static str,
    /// The past participle.
    pub past: &'static str,
    /// Also asks for confirmation for a single job.
    pub asks: bool,
}

impl JobAction {
    const fn new(change: JobChange, label: &'static str, past: &'static str, asks: bool) -> JobAction {
        JobAction { change, label, past, asks }
    }

    fn all() -> [JobAction; 7] {
        let cancel = JobChange::Cancel { why: WHY.to_owned() };
        [
            JobAction::new(JobChange::Requeue, "Requeue", "requeued", false),
            JobAction::new(JobChange::Promote, "Run now", "made ready", false),
            JobAction::new(JobChange::RunAgain, "Run again", "enqueued again", false),
            JobAction::new(JobChange::Skip, "Skip", "skipped", false),
            JobAction::new(cancel, "Cancel", "cancelled", false),
            JobAction::new(JobChange::SetPriority(0), "Set priority…", "given the priority", true),
            JobAction::new(JobChange::Purge, "Delete…", "deleted", true),
        ]
    }

    /// The actions for jobs in this state, or in any. Only a job that halts its group can be skipped.
    pub fn of(state: Option<JobState>, halts_group: bool) -> Vec<JobAction> {
        let is_offered = |action: &JobAction| action.change != JobChange::Skip || halts_group;
        JobAction::all().into_iter().filter(|action| action.fits(state) && is_offered(action)).collect()
    }

    /// Whether the action is offered for jobs in this state. Only some are offered for jobs in any state.
    fn fits(&self, state: Option<JobState>) -> bool {
        match state {
            Some(state) => self.change.states().contains(&state),
            None => matches!(self.change, JobChange::Requeue | JobChange::Cancel { .. } | JobChange::SetPriority(_)),
        }
    }

    /// The states, among those searched, to which the action applies.
    pub fn states(&self, state: Option<JobState>) -> Vec<JobState> {
        state.map_or_else(|| self.change.states().to_vec(), |state| vec![state])
    }

    /// Checks that the action applies to jobs in this state.
    ///
    /// # Errors
    ///
    /// If the action does not apply to this state.
    pub fn must_fit(&self, state: Option<JobState>) -> Result<(), Failure> {
        if self.fits(state) {
            return Ok(());
        }
        let state = state.map_or_else(|| "all".to_owned(), |state| state.to_string());
        Err(Failure::bad("action", self.word(), &format!("it cannot be done to {state} jobs")))
    }

    /// The action that a request names.
    pub fn named(fields: &Fields) -> Result<JobAction, Failure> {
        let word = fields.required("action")?;
        let action = JobAction::all().into_iter().find(|action| action.word() == word);
        let allowed = "it must be requeue, promote, run_again, skip, cancel, set_priority or purge";
        action.ok_or_else(|| Failure::bad("action", word, allowed))
    }

    /// The action with its parameters.
    pub fn read(fields: &Fields) -> Result<JobAction, Failure> {
        let mut action = JobAction::named(fields)?;
        if let JobChange::SetPriority(priority) = &mut action.change {
            let allowed = "it must be -32768 to 32767; smaller runs first";
            *priority = fields.parsed("priority")?.ok_or_else(|| Failure::bad("priority", "missing", allowed))?;
        }
        Ok(action)
    }

    /// Whether it takes something away. Its button stands apart, and many jobs need their number typed.
    pub fn is_danger(&self) -> bool {
        matches!(self.change, JobChange::Purge)
    }

    /// The label for all jobs that match: it leads to a question.
    pub fn label_for_many(&self) -> String {
        format!("{}…", self.label.trim_end_matches('…'))
    }

    pub fn word(&self) -> &'static str {
        self.change.word()
    }
}

/// The jobs with these ids. If there are none, the action is for all jobs that match, and the request says so.
pub fn ids(fields: &Fields) -> Result<Vec<JobId>, Failure> {
    let ids = ticked(fields)?;
    let all = fields.get("scope") == Some("all");
    match (all, ids.is_empty()) {
        (true, _) => Ok(Vec::new()),
        (false, false) => Ok(ids),
        (false, true) => Err(Failure::bad("jobs", "none", "tick some first, or choose all that match")),
    }
}

/// The ticked jobs.
pub fn ticked(fields: &Fields) -> Result<Vec<JobId>, Failure> {
    let read = |text: &str| text.parse().map(JobId).map_err(|_| Failure::bad("id", text, "it must be a number"));
    fields.all("id").map(read).collect()
}
