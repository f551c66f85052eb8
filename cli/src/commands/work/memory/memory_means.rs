//! The ways to limit the memory of programs.

use clap::ValueEnum;

/// A way to limit the memory of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryMeans {
    /// A control group for each program; the worker does not start without
    ControlGroup,
    /// Look at the programs' resident memory ten times a second
    Watch,
}
