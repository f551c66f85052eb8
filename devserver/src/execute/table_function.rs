//! Computes the rows of functions in FROM: for each row to their left (CROSS APPLY), or once.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::execute::open_json;
use crate::plan::table_function::TableFunction;
use crate::value::units::{RESERVED, from_units, units};
use crate::value::{SqlType, Value};

impl TableFunction {
    pub fn rows(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Vec<Value>>> {
        match self {
            TableFunction::OpenJson(json) => open_json::rows(&json.eval(run, frame)?),
            TableFunction::StringSplit { text, separator } => {
                split(&text.eval(run, frame)?, &separator.eval(run, frame)?)
            }
            TableFunction::GenerateSeries { bounds: [start, stop], ty } => {
                series(&start.eval(run, frame)?, &stop.eval(run, frame)?, *ty)
            }
        }
    }
}

fn split(text: &Value, separator: &Value) -> SqlResult<Vec<Vec<Value>>> {
    let separator: Vec<u16> = separator.as_str().map(|separator| units(separator).collect()).unwrap_or_default();
    let [separator] = separator[..] else {
        return Err(
            SqlError::new(214, "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'.").state(11)
        );
    };
    let Some(text) = text.as_str() else { return Ok(Vec::new()) };
    let text: Vec<u16> = units(text).collect();
    let parts = text.split(|unit| *unit == separator).map(|part| {
        let part = from_units(part.iter().copied()).ok_or_else(|| SqlError::not_supported(RESERVED))?;
        Ok(vec![Value::String(part.into())])
    });
    parts.collect()
}

fn series(start: &Value, stop: &Value, ty: SqlType) -> SqlResult<Vec<Vec<Value>>> {
    let (Some(start), Some(stop)) = (start.as_i64(), stop.as_i64()) else { return Ok(Vec::new()) };
    let value = |value| Ok(vec![crate::value::convert(Value::BigInt(value), SqlType::BigInt, ty, None, false)?]);
    if start <= stop { (start..=stop).map(value).collect() } else { (stop..=start).rev().map(value).collect() }
}
