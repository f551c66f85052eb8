//! The operator's handle.

use crate::connection::Lent;
use crate::error::Error;
use crate::id::AuditId;
use crate::queue::Queue;

/// The operator's handle to a queue and its schema, from [`Queue::admin`]. The rules of [`Queue`] for cancel safety,
/// panics and the schema's version apply to its calls, too.
#[derive(Debug, Clone, Copy)]
pub struct Admin<'q> {
    pub(crate) queue: &'q Queue,
    audit: Option<AuditId>,
}

impl Admin<'_> {
    /// Returns the handle of an action that [`begin_audit`](crate::admin::Admin::begin_audit) has recorded. Its calls
    /// belong to that entry, until it is [ended](crate::admin::Admin::end_audit). Otherwise each call that changes
    /// something adds an entry of its own, in the login's name.
    ///
    /// With an entry that has ended, or that another login has begun, calls that change something fail with
    /// [`Error::Refused`].
    #[must_use = "only the calls of the returned handle belong to the entry"]
    pub fn with_audit(self, audit: AuditId) -> Self {
        Admin { audit: Some(audit), ..self }
    }

    pub(super) async fn session(self) -> Result<Lent, Error> {
        let mut session = self.queue.session().await?;
        session.acts_for(self.audit);
        Ok(session)
    }
}

impl Queue {
    /// Returns the operator's handle of this queue.
    pub fn admin(&self) -> Admin<'_> {
        Admin { queue: self, audit: None }
    }
}
