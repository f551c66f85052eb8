//! A worker's health.

use std::fmt;

/// A worker as the exporter knows it, for `/healthz` and `/readyz`.
#[cfg_attr(not(feature = "prometheus"), expect(dead_code, reason = "only the exporter asks"))]
pub(crate) trait WorkerHealth: fmt::Debug + Send + Sync {
    /// Whether the worker has stopped or is stopping at once.
    fn has_ended(&self) -> bool;

    /// Whether the worker's own thread is responsive.
    fn is_alive(&self) -> bool;

    /// Whether the worker holds its lease and is not stopping.
    fn holds_lease(&self) -> bool;

    /// Whether SQL Server answered the worker's last claim.
    fn last_claim_succeeded(&self) -> bool;

    fn failing_duties(&self) -> Vec<&'static str>;
}
