//! Functions in FROM as a plan has them: OPENJSON, STRING_SPLIT, GENERATE_SERIES and two of sys.
//! [`crate::execute::table_function`] computes their rows.

use std::sync::Arc;

use crate::plan::index_function::IndexFunction;
use crate::plan::scalar::{Scalar, SlotSet};
use crate::value::builtin::json::path::Path;
use crate::value::{Collation, SqlType};

/// A call in FROM, bound.
#[derive(Debug)]
pub enum TableFunction {
    OpenJson(Box<OpenJson>),
    /// The text and the separator, both as nvarchar(max); `ordinal`: a second column counts the parts.
    StringSplit {
        text: Scalar,
        separator: Scalar,
        ordinal: bool,
    },
    /// Start, stop and step as bigint, and the type of the values.
    GenerateSeries {
        bounds: [Scalar; 3],
        ty: SqlType,
    },
    OfIndexes {
        function: IndexFunction,
        arguments: Vec<Scalar>,
    },
    /// sys.fn_helpcollations.
    HelpCollations,
}

impl TableFunction {
    fn arguments(&self) -> Vec<&Scalar> {
        match self {
            TableFunction::OpenJson(call) => [Some(&call.json), call.path.as_ref()].into_iter().flatten().collect(),
            TableFunction::StringSplit { text, separator, .. } => vec![text, separator],
            TableFunction::GenerateSeries { bounds, .. } => bounds.iter().collect(),
            TableFunction::OfIndexes { arguments, .. } => arguments.iter().collect(),
            TableFunction::HelpCollations => Vec::new(),
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

#[derive(Debug)]
pub struct OpenJson {
    pub json: Scalar,
    pub path: Option<Scalar>,
    /// `None` without WITH: key, value and type then.
    pub columns: Option<Vec<JsonColumn>>,
}

#[derive(Debug)]
pub struct JsonColumn {
    pub path: Path,
    pub ty: SqlType,
    pub as_json: bool,
}
