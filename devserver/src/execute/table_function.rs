//! Computes the rows of functions in FROM: for each row to their left (CROSS APPLY), or once.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::execute::function_value::text;
use crate::execute::{index_function, open_json};
use crate::plan::table_function::TableFunction;
use crate::value::{Collation, SqlType, Value};

impl TableFunction {
    pub fn rows(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Vec<Value>>> {
        match self {
            TableFunction::OpenJson(call) => open_json::rows(call, run, frame),
            TableFunction::StringSplit { text, separator, ordinal } => {
                split(&text.eval(run, frame)?, &separator.eval(run, frame)?, *ordinal)
            }
            TableFunction::GenerateSeries { bounds: [start, stop, step], ty } => {
                let bounds = [start.eval(run, frame)?, stop.eval(run, frame)?, step.eval(run, frame)?];
                series(&bounds, *ty)
            }
            TableFunction::OfIndexes { function, arguments } => index_function::rows(*function, arguments, run, frame),
            TableFunction::HelpCollations => Ok(help_collations()),
        }
    }
}

/// The collations that the dev server has.
fn help_collations() -> Vec<Vec<Value>> {
    let rows = Collation::ALL.iter().map(|collation| vec![text(collation.name()), text(collation.description())]);
    rows.collect()
}

fn split(text: &Value, separator: &Value, ordinal: bool) -> SqlResult<Vec<Vec<Value>>> {
    let Some(separator) = separator.as_str().filter(|separator| separator.chars().count() == 1) else {
        return Err(
            SqlError::new(214, "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'.").state(11)
        );
    };
    let Some(text) = text.as_str() else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for (position, part) in text.split(separator).enumerate() {
        let mut row = vec![Value::String(part.into())];
        if ordinal {
            row.push(Value::BigInt(position as i64 + 1));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn series(bounds: &[Value; 3], ty: SqlType) -> SqlResult<Vec<Vec<Value>>> {
    let (Some(start), Some(stop)) = (bounds[0].as_i64(), bounds[1].as_i64()) else { return Ok(Vec::new()) };
    let step = bounds[2].as_i64().unwrap_or(if start > stop { -1 } else { 1 });
    if step == 0 {
        return Err(SqlError::new(4199, "Argument value 0 is invalid for argument 3 of generate_series function."));
    }
    let mut rows = Vec::new();
    let mut next = Some(start);
    while let Some(value) = next.filter(|value| if step > 0 { *value <= stop } else { *value >= stop }) {
        rows.push(vec![crate::value::convert(Value::BigInt(value), SqlType::BigInt, ty, None, false)?]);
        next = value.checked_add(step);
    }
    Ok(rows)
}
