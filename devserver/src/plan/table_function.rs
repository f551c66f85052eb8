//! Functions in FROM as a plan has them: OPENJSON, STRING_SPLIT, GENERATE_SERIES and those of indexes.
//! [`crate::execute::table_function`] computes their rows.

use std::sync::Arc;

use crate::plan::scalar::{Scalar, SlotSet};
use crate::value::{Collation, SqlType};

/// A call in FROM, bound.
#[derive(Debug)]
pub enum TableFunction {
    /// The text, as nvarchar(max).
    OpenJson(Scalar),
    /// The text and the separator, both as nvarchar(max).
    StringSplit { text: Scalar, separator: Scalar },
    /// Start and stop as bigint, and the type of the values.
    GenerateSeries { bounds: [Scalar; 2], ty: SqlType },
}

impl TableFunction {
    fn arguments(&self) -> Vec<&Scalar> {
        match self {
            TableFunction::OpenJson(json) => vec![json],
            TableFunction::StringSplit { text, separator } => vec![text, separator],
            TableFunction::GenerateSeries { bounds, .. } => bounds.iter().collect(),
        }
    }

    /// The slots its arguments read.
    pub fn slots(&self) -> SlotSet {
        self.arguments().into_iter().fold(0, |slots, argument| slots | argument.slots())
    }
}

/// A column of a function's result.
pub struct FunctionColumn {
    pub name: Arc<str>,
    pub ty: SqlType,
    pub collation: Collation,
    pub nullable: bool,
}

impl FunctionColumn {
    pub fn new(name: &str, ty: SqlType) -> FunctionColumn {
        FunctionColumn { name: name.into(), ty, collation: Collation::default(), nullable: true }
    }
}
