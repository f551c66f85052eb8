//! What SET switches.

/// A session option that is ON or OFF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOption {
    NoCount,
    XactAbort,
    AnsiPadding,
    ArithAbort,
    CursorCloseOnCommit,
    ImplicitTransactions,
    NoExec,
    /// One that is always ON or always OFF here.
    Fixed(&'static str, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Snapshot,
    Serializable,
}
