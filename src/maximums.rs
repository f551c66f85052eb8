//! What several settings have as their upper end.

use std::time::Duration;

/// The most bytes of a payload or an output. SQL Server stores 2 GB; but the driver builds a message in memory, and a
/// value must cross the network within one command time-out, on its way in and at each claim. Larger ones belong
/// elsewhere.
pub(crate) const MAX_VALUE_BYTES: usize = 256 << 20;

/// The most bytes that the driver takes for one value in a table-valued parameter: it compares the length of a
/// `varbinary(max)` with the 65,535 that stand for "max" on the wire. Larger values go as parameters of their own.
pub(crate) const MAX_TABLE_VALUE_BYTES: usize = 65_535;

/// The widest name, of a queue, a worker or a schedule, in UTF-16 units: `nvarchar(128)`.
pub(crate) const MAX_NAME_UNITS: usize = 128;

/// The longest delay, and the longest that finished jobs are kept: the procedures take no more. Ten years of 365 days.
pub(crate) const TEN_YEARS: Duration = Duration::from_secs(315_360_000);
