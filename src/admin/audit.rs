//! What operators did.

use super::admin::Admin;
use crate::error::Error;
use crate::id::AuditId;
use crate::procedures::operator::{AuditRow, NewAudit};

impl Admin<'_> {
    /// Notes that somebody is about to do something to this queue, so that others can see later who it was
    /// ([`audits`](crate::admin::Admin::audits)). The call is for programs of operators that do things for several
    /// people; readpast notes nothing by itself. The queue need not exist. Notes are kept for 400 days at least, also
    /// where the queue is deleted.
    ///
    /// ```no_run
    /// # async fn example(queue: readpast::Queue, job_id: readpast::JobId) -> Result<(), readpast::Error> {
    /// use readpast::admin::{JobChange, NewAudit};
    ///
    /// let audit = queue.admin().begin_audit(&NewAudit::of("maria", &JobChange::Requeue).jobs(&[job_id])).await?;
    /// let requeued = queue.admin().change(&JobChange::Requeue, job_id).await;
    /// let error = requeued.as_ref().err().map(|error| error.to_string());
    /// queue.admin().end_audit(audit, requeued.as_ref().ok().map(|requeued| requeued.total()), error.as_deref()).await?;
    /// # requeued?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for what [`NewAudit`] does not take; [`Error::PermissionDenied`] without an operator's
    /// rights. After [`Error::TimedOut`] and [`Error::ConnectionLost`] it may be noted or not.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, it may be noted or not.
    pub async fn begin_audit(self, audit: &NewAudit) -> Result<AuditId, Error> {
        let queue = (!audit.of_no_queue).then_some(self.queue.name());
        self.queue.session().await?.begin_audit(queue, audit).await
    }

    /// Notes how it ended: how many jobs were changed, where that makes sense, and what else there is to say, for
    /// example an error (its first 400 UTF-16 units are kept). Of several calls the first counts, so that it may be
    /// repeated after any error.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where this login has begun no such action; [`Error::PermissionDenied`] without an operator's
    /// rights.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, it may be noted or not.
    pub async fn end_audit(self, audit: AuditId, jobs: Option<u64>, outcome: Option<&str>) -> Result<(), Error> {
        self.queue.session().await?.end_audit(audit, jobs, outcome).await
    }

    /// What people have done to this queue, as it was noted, the newest first. Up to `max`, at most 1,000; for the next
    /// page, pass the last one's number as `before`. The queue need not exist any more. Reads without locks.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a larger `max`; [`Error::PermissionDenied`] for a producer or a worker.
    pub async fn audits(self, before: Option<AuditId>, max: usize) -> Result<Vec<AuditRow>, Error> {
        self.queue.session().await?.list_audit(Some(self.queue.name()), before, max).await
    }

    /// As [`audits`](crate::admin::Admin::audits), of every queue of the schema and of none.
    ///
    /// # Errors
    ///
    /// As [`audits`](crate::admin::Admin::audits).
    pub async fn all_audits(self, before: Option<AuditId>, max: usize) -> Result<Vec<AuditRow>, Error> {
        self.queue.session().await?.list_audit(None, before, max).await
    }
}
