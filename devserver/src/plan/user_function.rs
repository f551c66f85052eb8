//! Scalar functions of several statements, compiled for the expression that calls them.

use std::sync::{Arc, OnceLock, Weak};

use crate::plan::batch::CompiledBatch;

/// A function's body with its plans, all made under one version of the catalog.
#[derive(Debug)]
pub struct FunctionPlan {
    pub compiled: CompiledBatch,
    pub version: u64,
}

/// The plan of a function, which is not there yet while the function's own calls of itself are bound.
pub type FunctionCell = OnceLock<FunctionPlan>;

/// A function, as a call of it knows it.
#[derive(Debug)]
pub enum CalledFunction {
    Other(Arc<FunctionCell>),
    /// One within whose body the call stands.
    Around(Weak<FunctionCell>),
}

impl CalledFunction {
    pub fn cell(&self) -> Arc<FunctionCell> {
        match self {
            CalledFunction::Other(cell) => Arc::clone(cell),
            CalledFunction::Around(cell) => cell.upgrade().expect("whoever runs it has it"),
        }
    }
}
