//! The jobs that have not ended and match a filter, page by page: for what is done to all of them.

use std::slice;

use super::OPERATOR_BATCH;
use super::job_filter::JobFilter;
use super::job_page::JobPlace;
use super::job_state::JobState;
use super::lasting_session::Session;
use super::peek::IDS;
use crate::error::Error;
use crate::ids::JobId;

/// Where the next page begins.
pub(super) struct IdPages<'a> {
    queue: &'a str,
    filter: &'a JobFilter,
    /// The state that is read, and those after it.
    states: slice::Iter<'a, JobState>,
    state: Option<JobState>,
    place: Option<JobPlace>,
}

impl<'a> IdPages<'a> {
    /// # Errors
    ///
    /// [`Error::Refused`] where the filter asks for jobs that have ended.
    pub(super) fn new(queue: &'a str, filter: &'a JobFilter) -> Result<IdPages<'a>, Error> {
        let mut states = filter.unfinished_states()?.iter();
        let state = states.next().copied();
        Ok(IdPages { queue, filter, states, state, place: None })
    }

    /// The next page that has any jobs, one call's worth at the most; `None`: there is none.
    pub(super) async fn next(&mut self, session: &mut Session) -> Result<Option<Vec<JobId>>, Error> {
        while let Some(state) = self.state {
            let (jobs, next) =
                session.peek(self.queue, state, self.filter, self.place.as_ref(), OPERATOR_BATCH, &IDS).await?;
            if next.is_none() {
                self.state = self.states.next().copied();
            }
            self.place = next;
            if !jobs.is_empty() {
                return Ok(Some(jobs));
            }
        }
        Ok(None)
    }
}
