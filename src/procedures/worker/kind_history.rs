//! `note_kinds` and `peaks_by_kind`: add counts of ended runs to the history of the queue's kinds, and read from it how
//! much memory they used.

use std::sync::Arc;

use tiberius::{SqlTableDataRow, TableValueRow};

use crate::connection::{Session, table_type};
use crate::error::Error;

/// The names of the calls in an [`Error::TimedOut`].
pub(crate) const NOTE_KINDS: &str = "note_kinds";
pub(crate) const PEAKS_BY_KIND: &str = "peaks_by_kind";

/// The runs of one kind with values in one bucket of a measure. The columns of sql/091_kind_history.sql.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KindCount {
    pub(crate) kind: Arc<str>,
    pub(crate) measure: u8,
    pub(crate) bucket: u8,
    pub(crate) jobs: i64,
    pub(crate) total: f64,
    pub(crate) largest: i64,
}

impl Session {
    /// Adds up to 1,000 counts. Returns whether they were added; if not, other workers were busy with it.
    ///
    /// # Errors
    ///
    /// After any error, the counts must not be sent again, because the call may have had an effect.
    pub(crate) async fn note_kinds(&mut self, queue: &str, counts: &[KindCount]) -> Result<bool, Error> {
        let list = table_type(self.schema(), "kind_list");
        let mut command = self.command(NOTE_KINDS);
        command.bind_param("@queue", queue);
        command.bind_table_with_dbtype("@kinds", &list, counts.iter());
        self.row(NOTE_KINDS, command).await?.required("noted")
    }

    /// Returns the peak memory in bytes that 95 % of the runs of each kind did not exceed. The kind of jobs without one
    /// is empty.
    pub(crate) async fn peaks_by_kind(&mut self, queue: &str) -> Result<Vec<(String, u64)>, Error> {
        let mut command = self.command(PEAKS_BY_KIND);
        command.bind_param("@queue", queue);
        let rows = self.rows(PEAKS_BY_KIND, command).await?.into_iter();
        rows.map(|mut row| Ok((row.required("kind")?, row.big_count("peak_p95_bytes")?))).collect()
    }
}

/// One row of the table type `kind_list`.
impl<'a> TableValueRow<'a> for &'a KindCount {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(&*self.kind);
        row.add_field(self.measure);
        row.add_field(self.bucket);
        row.add_field(self.jobs);
        row.add_field(self.total);
        row.add_field(self.largest);
    }

    fn get_db_type() -> &'static str {
        "kind_list"
    }
}
