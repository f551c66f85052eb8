//! A worker, as the exporter sees it.

use std::fmt;

/// What `/healthz` and `/readyz` ask of a worker. The exporter knows workers by this alone.
#[cfg_attr(not(feature = "prometheus"), expect(dead_code, reason = "only the exporter asks"))]
pub(crate) trait Health: fmt::Debug + Send + Sync {
    /// Whether the worker has ended or stops at once.
    fn has_ended(&self) -> bool;

    /// Whether the worker's own thread runs.
    fn is_alive(&self) -> bool;

    /// Whether the worker holds its lease and is not stopping.
    fn holds_lease(&self) -> bool;

    /// Whether SQL Server has answered the worker's last claim.
    fn last_claim_succeeded(&self) -> bool;

    /// The names of the duties at which the worker fails.
    fn failing_duties(&self) -> Vec<&'static str>;
}
