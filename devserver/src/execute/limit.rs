//! TOP, OFFSET and FETCH.

use crate::error::{SqlError, SqlResult};
use crate::execute::frame::{Frame, Run};
use crate::plan::query::{Limit, NEGATIVE_OFFSET, NEGATIVE_TOP, NO_FETCH};
use crate::plan::scalar::Scalar;

/// The numbers of TOP or OFFSET and FETCH: (rows to skip, rows to take).
pub fn limit_values(limit: &Limit, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<(usize, usize)> {
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
