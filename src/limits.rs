//! What several settings have as their upper end.

use std::time::Duration;

/// The longest delay, and the longest that finished jobs are kept: the procedures take no more. Ten years of 365 days.
pub(crate) const TEN_YEARS: Duration = Duration::from_secs(315_360_000);
