//! `peaks_by_kind`: how much memory the jobs of each kind have used.

use crate::connection::Session;
use crate::error::Error;

/// The name of the call in an [`Error::TimedOut`].
pub(crate) const PEAKS_BY_KIND: &str = "peaks_by_kind";

impl Session {
    /// Returns the peak memory in bytes that 95 % of the runs of each kind did not exceed. The kind of jobs without one
    /// is empty.
    pub(crate) async fn peaks_by_kind(&mut self, queue: &str) -> Result<Vec<(String, u64)>, Error> {
        let mut command = self.command(PEAKS_BY_KIND);
        command.bind_param("@queue", queue);
        let rows = self.rows(PEAKS_BY_KIND, command).await?.into_iter();
        rows.map(|mut row| Ok((row.required("kind")?, row.big_count("peak_p95_bytes")?))).collect()
    }
}
