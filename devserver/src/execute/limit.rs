//! TOP, OFFSET and FETCH, and SET ROWCOUNT for changes.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::plan::query::{Limit, NEGATIVE_OFFSET, NEGATIVE_TOP, NO_FETCH, Operator};
use crate::plan::scalar::Scalar;
use crate::value::Value;

/// The numbers of TOP or OFFSET and FETCH: (rows to skip, rows to take).
/// A percentage limits nothing until all rows are there: see [`percentage`].
pub fn limit_values(limit: &Limit, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<(usize, usize)> {
    if limit.percent {
        return Ok((0, usize::MAX));
    }
    let mut number = |scalar: &Option<Scalar>, absent, too_small: (i32, &str), least| -> SqlResult<usize> {
        let Some(scalar) = scalar else { return Ok(absent) };
        let value = scalar.eval(run, frame)?;
        let Some(number) = value.as_i64() else {
            return Err(SqlError::new(1014, "A TOP or FETCH clause contains an invalid value.").severity(15));
        };
        if number < least {
            return Err(SqlError::new(too_small.0, too_small.1).severity(15));
        }
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    };
    let skip = number(&limit.skip, 0, NEGATIVE_OFFSET, 0)?;
    let (too_small, least) = if limit.skip.is_some() { (NO_FETCH, 1) } else { (NEGATIVE_TOP, 0) };
    let take = number(&limit.take, usize::MAX, too_small, least)?;
    Ok((skip, take))
}

/// The number in TOP … PERCENT. 1031:
/// docs/relational-databases/errors-events/database-engine-events-and-errors-1000-to-1999.md.
pub fn percentage(limit: &Limit, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Option<f64>> {
    let Some(scalar) = limit.take.as_ref().filter(|_| limit.percent) else { return Ok(None) };
    match scalar.eval(run, frame)? {
        Value::Float(percent) if (0.0..=100.0).contains(&percent) => Ok(Some(percent)),
        Value::Null => Err(SqlError::not_supported("TOP (NULL) PERCENT")),
        _ => Err(SqlError::new(1031, "Percent values must be between 0 and 100.").severity(15)),
    }
}

/// "Fractional values are rounded up to the next integer value" ("TOP", docs/t-sql/queries/top-transact-sql.md).
pub fn share(percent: f64, rows: usize) -> usize {
    (rows as f64 * percent / 100.0).ceil() as usize
}

/// SET ROWCOUNT "is ignored for INSERT, UPDATE, and DELETE statements when an explicit TOP expression is used"
/// (docs/t-sql/statements/set-rowcount-transact-sql.md).
pub fn row_limit(input: &Operator, run: &Run<'_>) -> usize {
    if matches!(input, Operator::Top { .. }) { usize::MAX } else { run.row_limit() }
}
