//! What SET switches.

/// A session option that is ON or OFF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOption {
    NoCount,
    XactAbort,
    AnsiDefaults,
    AnsiNulls,
    AnsiNullDfltOff,
    AnsiNullDfltOn,
    AnsiPadding,
    AnsiWarnings,
    ArithAbort,
    ArithIgnore,
    ConcatNullYieldsNull,
    CursorCloseOnCommit,
    FmtOnly,
    ForcePlan,
    ImplicitTransactions,
    NoExec,
    NumericRoundAbort,
    ParseOnly,
    QuotedIdentifier,
    StatisticsIo,
    StatisticsTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Snapshot,
    Serializable,
}
