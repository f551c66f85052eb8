//! Computes bound expressions and conditions on the rows of a [`Frame`].

use crate::error::{NOT_SUPPORTED, SqlError, SqlResult};
use crate::execute::frame::{Frame, Run, SlotRow};
use crate::execute::sequence::next_value;
use crate::execute::subquery::{exists, in_query, scalar_subquery};
use crate::execute::system_function;
use crate::execute::user_function;
use crate::plan::scalar::{Condition, FunctionNode, LikeCondition, Node, Scalar};
use crate::value::datetime::TICKS_PER_MILLISECOND;
use crate::value::{self, Call, Pattern, SqlType, Ticks, Value, compare};

/// "An implicit conversion from datetime to datetime2 … Under database compatibility level 130, these show improved
/// accuracy by accounting for the fractional milliseconds" ("ALTER DATABASE compatibility level",
/// MicrosoftDocs/sql-docs, docs/t-sql/statements/alter-database-transact-sql-compatibility-level.md). Below, only a value
/// without thousandths of a second is known to become the same.
pub(super) fn check_fraction(run: &Run<'_>, value: &Value, from: SqlType, to: SqlType) -> SqlResult<()> {
    const HUNDREDTH: Ticks = 10 * TICKS_PER_MILLISECOND;
    let is_finer = from == SqlType::DateTime
        && matches!(to, SqlType::Time(_) | SqlType::DateTime2(_) | SqlType::DateTimeOffset(_));
    match value {
        Value::DateTime(_, ticks)
            if is_finer && !ticks.is_multiple_of(HUNDREDTH) && run.database.compatibility_level() < 130 =>
        {
            Err(SqlError::not_supported("fractions of a datetime in a finer type below compatibility level 130"))
        }
        _ => Ok(()),
    }
}

impl Scalar {
    /// The value, if it is only to be fetched.
    fn peek<'v>(&'v self, run: &'v Run<'_>, frame: &'v Frame) -> Option<&'v Value> {
        match &self.node {
            Node::Constant(value) => Some(value),
            Node::Column { slot, ordinal } => match &frame.rows[*slot] {
                SlotRow::Values(values) => Some(&values[*ordinal]),
                SlotRow::Absent => Some(&Value::Null),
                SlotRow::Stored(..) => None,
            },
            Node::Variable(place) => Some(&run.activation.values[*place]),
            _ => None,
        }
    }

    /// The values of several expressions.
    pub fn eval_all(list: &[Scalar], run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Vec<Value>> {
        let mut values = Vec::with_capacity(list.len());
        for scalar in list {
            values.push(scalar.eval(run, frame)?);
        }
        Ok(values)
    }

    pub fn eval(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Value> {
        match &self.node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Column { slot, ordinal } => Ok(frame.rows[*slot].get(*ordinal)),
            Node::Computed { slot, value, .. } => match &frame.rows[*slot] {
                // An outer join has no row here: its columns are NULL, whatever the expression makes of NULL.
                SlotRow::Absent => Ok(Value::Null),
                SlotRow::Values(_) | SlotRow::Stored(..) => value.eval(run, frame),
            },
            Node::Variable(place) => Ok(run.activation.values[*place].clone()),
            Node::Negative(operand) => value::negative(&operand.eval(run, frame)?, operand.ty),
            Node::Binary(op, left, right) => {
                let left_value = left.eval(run, frame)?;
                let right_value = right.eval(run, frame)?;
                value::binary(*op, &left_value, left.ty, &right_value, right.ty, self.ty)
            }
            Node::Convert { operand, style, explicit, attempt } => {
                let value = operand.eval(run, frame)?;
                let style = match style {
                    Some(style) => match style.eval(run, frame)? {
                        Value::Null => return Ok(Value::Null),
                        style => style.as_i64().and_then(|style| i32::try_from(style).ok()),
                    },
                    None => None,
                };
                check_fraction(run, &value, operand.ty, self.ty)?;
                match value::convert(value, operand.ty, self.ty, style, *explicit) {
                    Err(error) if *attempt && error.number != NOT_SUPPORTED => Ok(Value::Null),
                    result => result,
                }
            }
            Node::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if condition.holds(run, frame)? {
                        return result.eval(run, frame);
                    }
                }
                match otherwise {
                    Some(otherwise) => otherwise.eval(run, frame),
                    None => Ok(Value::Null),
                }
            }
            Node::Coalesce(arguments) => {
                for argument in arguments {
                    let value = argument.eval(run, frame)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Node::Function(call) => eval_function(call, run, frame),
            Node::System(function, arguments) => {
                let values = Scalar::eval_all(arguments, run, frame)?;
                system_function::eval(*function, &values, run)
            }
            Node::Subquery(plan) => scalar_subquery(plan, run, frame),
            Node::UserFunction { place, arguments, .. } => {
                let values = Scalar::eval_all(arguments, run, frame)?;
                let function = frame.functions.as_ref().and_then(|functions| functions.get(*place));
                let function =
                    function.ok_or_else(|| SqlError::not_supported("the call of a function in this place"))?;
                user_function::call(function, values, run)
            }
            Node::NextValue(id) => {
                // All of a row get the same value of a sequence.
                let known = frame.next_values.iter().find(|(sequence, _)| sequence == id).map(|(_, value)| *value);
                let value = match known {
                    Some(value) => value,
                    None => {
                        let value = next_value(*id, run)?;
                        frame.next_values.push((*id, value));
                        value
                    }
                };
                value::convert(Value::BigInt(value), value::SqlType::BigInt, self.ty, None, false)
            }
        }
    }
}

fn eval_function(call: &FunctionNode, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Value> {
    let surroundings = Call { now: run.now, collation: call.collation, date_part: call.date_part };
    // Most functions have one or two arguments, which need no allocation.
    match call.arguments.as_slice() {
        [only] => {
            let values = [only.eval(run, frame)?];
            call.function.eval(&values, &call.types, &surroundings)
        }
        [first, second] => {
            let values = [first.eval(run, frame)?, second.eval(run, frame)?];
            call.function.eval(&values, &call.types, &surroundings)
        }
        arguments => {
            let values = Scalar::eval_all(arguments, run, frame)?;
            call.function.eval(&values, &call.types, &surroundings)
        }
    }
}

impl Condition {
    /// Whether it is true; unknown is not.
    pub fn holds(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<bool> {
        Ok(self.test(run, frame)? == Some(true))
    }

    /// Whether all conditions are true.
    pub fn all_hold(conditions: &[Condition], run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<bool> {
        for condition in conditions {
            if !condition.holds(run, frame)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True, false, or unknown (`None`).
    pub fn test(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Option<bool>> {
        match self {
            Condition::And(terms) => {
                let mut result = Some(true);
                for term in terms {
                    match term.test(run, frame)? {
                        Some(true) => {}
                        Some(false) => return Ok(Some(false)),
                        None => result = None,
                    }
                }
                Ok(result)
            }
            Condition::Or(terms) => {
                let mut result = Some(false);
                for term in terms {
                    match term.test(run, frame)? {
                        Some(false) => {}
                        Some(true) => return Ok(Some(true)),
                        None => result = None,
                    }
                }
                Ok(result)
            }
            Condition::Not(term) => Ok(term.test(run, frame)?.map(|truth| !truth)),
            Condition::Compare { op, left, right, collation } => {
                if let (Some(left), Some(right)) = (left.peek(run, frame), right.peek(run, frame)) {
                    if left.is_null() || right.is_null() {
                        return Ok(None);
                    }
                    return Ok(Some(op.holds_for(compare(left, right, *collation))));
                }
                let left = left.eval(run, frame)?;
                if left.is_null() {
                    return Ok(None);
                }
                let right = right.eval(run, frame)?;
                if right.is_null() {
                    return Ok(None);
                }
                Ok(Some(op.holds_for(compare(&left, &right, *collation))))
            }
            Condition::InList { value, list, collation } => {
                let value = value.eval(run, frame)?;
                if value.is_null() {
                    return Ok(None);
                }
                let mut result = Some(false);
                for item in list {
                    let item = item.eval(run, frame)?;
                    if item.is_null() {
                        result = None;
                    } else if compare(&value, &item, *collation).is_eq() {
                        return Ok(Some(true));
                    }
                }
                Ok(result)
            }
            Condition::InQuery { value, query, collation } => {
                let value = value.eval(run, frame)?;
                in_query(query, &value, *collation, run, frame)
            }
            Condition::Like(like) => like.test(run, frame),
            Condition::IsNull(value) => {
                if let Node::Column { slot, ordinal } = value.node {
                    return Ok(Some(frame.rows[slot].is_null(ordinal)));
                }
                Ok(Some(value.eval(run, frame)?.is_null()))
            }
            Condition::Exists(query) => Ok(Some(exists(query, run, frame)?)),
        }
    }
}

impl LikeCondition {
    fn test(&self, run: &mut Run<'_>, frame: &mut Frame) -> SqlResult<Option<bool>> {
        let value = self.value.eval(run, frame)?;
        let Some(text) = value.as_str() else { return Ok(None) };
        if let Some(pattern) = &self.prepared {
            return Ok(Some(pattern.matches(text)));
        }
        let pattern = self.pattern.eval(run, frame)?;
        let Some(pattern) = pattern.as_str() else { return Ok(None) };
        Ok(Some(Pattern::new(pattern, self.unicode, self.collation).matches(text)))
    }
}
