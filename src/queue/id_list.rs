//! A list of jobs as a table-valued parameter.

use tiberius::{SqlTableDataRow, TableValueRow};

use crate::ids::JobId;

/// One row of the table type `id_list`.
pub(super) struct ListedId(pub(super) JobId);

impl<'a> TableValueRow<'a> for ListedId {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.0.0);
    }

    fn get_db_type() -> &'static str {
        "id_list"
    }
}

/// As the rows of the parameter, in the order of its key.
pub(super) fn id_rows(jobs: &[JobId]) -> impl Iterator<Item = ListedId> {
    let mut jobs = jobs.to_vec();
    jobs.sort_unstable();
    jobs.dedup();
    jobs.into_iter().map(ListedId)
}
