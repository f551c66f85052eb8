//! Binds the numbers of TOP, OFFSET and FETCH.

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::expression::is_null;
use crate::error::{SqlError, SqlResult};
use crate::plan::query::{Limit, NEGATIVE_OFFSET, NEGATIVE_TOP, NO_FETCH};
use crate::plan::scalar::Scalar;
use crate::tsql::ast::{Expr, Offset};
use crate::value::SqlType;

/// A clause that takes a number of rows, and its errors.
struct RowCountClause {
    not_integer: (i32, &'static str),
    too_small: (i32, &'static str),
    least: i64,
}

const NOT_INTEGER: (i32, &str) =
    (1060, "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.");

const TOP: RowCountClause = RowCountClause { not_integer: NOT_INTEGER, too_small: NEGATIVE_TOP, least: 0 };

const FETCH: RowCountClause = RowCountClause { not_integer: NOT_INTEGER, too_small: NO_FETCH, least: 1 };

const OFFSET: RowCountClause = RowCountClause {
    not_integer: (10743, "The number of rows provided for a OFFSET clause must be an integer."),
    too_small: NEGATIVE_OFFSET,
    least: 0,
};

impl Binder<'_> {
    pub(super) fn bind_offset(&mut self, offset: Option<&Offset>) -> SqlResult<Limit> {
        let Some(offset) = offset else { return Ok(Limit::default()) };
        let skip = Some(self.bind_row_count(&offset.skip, &OFFSET)?);
        let take = match &offset.fetch {
            Some(fetch) => Some(self.bind_row_count(fetch, &FETCH)?),
            None => None,
        };
        Ok(Limit { skip, take })
    }

    /// The number in TOP, OFFSET or FETCH, which the rows that it counts have no part in.
    fn bind_row_count(&mut self, expr: &Expr, clause: &RowCountClause) -> SqlResult<Scalar> {
        let scalar = self.without_next_value(|binder| binder.bind_expr(expr))?;
        if self.scopes.last().is_some() && scalar.slots() & self.own_slots() != 0 {
            return Err(SqlError::not_supported("a column of the rows themselves in TOP, OFFSET or FETCH"));
        }
        let constant = scalar.as_constant();
        if !scalar.ty.is_integer() || is_null(expr) {
            return Err(SqlError::new(clause.not_integer.0, clause.not_integer.1).severity(15));
        }
        if constant.and_then(|constant| constant.as_i64()).is_some_and(|number| number < clause.least) {
            return Err(SqlError::new(clause.too_small.0, clause.too_small.1).severity(15));
        }
        implicit(scalar, SqlType::BigInt)
    }

    pub fn bind_top(&mut self, top: Option<&Expr>) -> SqlResult<Limit> {
        let Some(top) = top else { return Ok(Limit::default()) };
        Ok(Limit { skip: None, take: Some(self.bind_row_count(top, &TOP)?) })
    }
}
