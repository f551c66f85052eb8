//! The audit: operators' actions.

use super::admin::Admin;
use crate::error::Error;
use crate::id::AuditId;
use crate::procedures::operator::{AuditRow, NewAudit};

impl Admin<'_> {
    /// Records who is about to do what to this queue, for [`audits`](crate::admin::Admin::audits). Pass the entry to
    /// [`with_audit`](crate::admin::Admin::with_audit); otherwise each call adds its own entry, which names only the
    /// login. Use it in operator programs with several users or with many calls. The queue need not exist. Entries are
    /// kept for at least 400 days, even if the queue is deleted.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// use readpast::admin::{JobChange, NewAudit};
    ///
    /// let audit = queue.admin().begin_audit(&NewAudit::of("maria", &JobChange::Requeue).jobs(&[job_id])).await?;
    /// let requeued = queue.admin().with_audit(audit).change(&JobChange::Requeue, job_id).await;
    /// let error = requeued.as_ref().err().map(|error| error.to_string());
    /// queue.admin().end_audit(audit, requeued.as_ref().ok().map(|requeued| requeued.total()), error.as_deref()).await?;
    /// # requeued?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if a field of `audit` is not valid, see [`NewAudit`]; [`Error::PermissionDenied`] without an
    /// operator's permissions. After [`Error::TimedOut`] and [`Error::ConnectionLost`] the action may or may not be
    /// recorded.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the action may or may not be recorded. If the action's future is dropped, the entry stays
    /// without an end, and calls may still belong to it.
    pub async fn begin_audit(self, audit: &NewAudit) -> Result<AuditId, Error> {
        let queue = (!audit.of_no_queue).then_some(self.queue.name());
        self.session().await?.begin_audit(queue, audit).await
    }

    /// Records the result of the action: how many jobs were changed, if that applies, and a text, for example an error
    /// (its first 400 UTF-16 units are kept). Only the first call for an action counts, so the call may be repeated
    /// after any error.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if this login has begun no such action; [`Error::PermissionDenied`] without an operator's
    /// permissions.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the result may or may not be recorded.
    pub async fn end_audit(self, audit: AuditId, jobs: Option<u64>, outcome: Option<&str>) -> Result<(), Error> {
        self.session().await?.end_audit(audit, jobs, outcome).await
    }

    /// Returns the audit entries of this queue, the newest first: up to `max`, at most 1,000. For the next page, pass
    /// the last entry's id as `before`. The queue need no longer exist. Reads without locks.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a larger `max`; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn audits(self, before: Option<AuditId>, max: usize) -> Result<Vec<AuditRow>, Error> {
        self.session().await?.list_audit(Some(self.queue.name()), before, max).await
    }

    /// Same as [`audits`](crate::admin::Admin::audits), for all queues of the schema, and entries without a queue.
    ///
    /// # Errors
    ///
    /// Same as [`audits`](crate::admin::Admin::audits).
    pub async fn all_audits(self, before: Option<AuditId>, max: usize) -> Result<Vec<AuditRow>, Error> {
        self.session().await?.list_audit(None, before, max).await
    }
}
