//! A date argument taken apart into a [`Moment`]: its local day and time.

use crate::error::{SqlError, SqlResult};
use crate::value::builtin::definition::Arguments;
use crate::value::builtin::result::invalid_argument;
use crate::value::convert::cast::convert;
use crate::value::datetime::{DatePart, Day, TICKS_PER_MILLISECOND, Ticks, round_to_datetime, shift_minutes};
use crate::value::types::SqlType;
use crate::value::values::Value;

/// A date argument, in its local time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) day: Day,
    pub(super) ticks: Ticks,
    pub(super) offset: i16,
    /// The type of the argument, or the one a text or number was converted to.
    pub(super) ty: SqlType,
}

/// Takes an argument apart. A text is read as `text_type`, a number as `datetime`.
pub(super) fn moment(arguments: &Arguments<'_>, at: usize, text_type: SqlType) -> SqlResult<Moment> {
    let (value, from) = (arguments.values[at].clone(), arguments.types[at]);
    let ty = moment_type(from, text_type);
    let converted = convert(value, from, ty, None, false)?;
    let unexpected = || invalid_argument(from, at + 1, "date");
    let (day, ticks, offset) = match converted {
        Value::DateTime(day, ticks) => (day, ticks, 0),
        Value::DateTimeOffset(day, ticks, offset) => {
            let (day, ticks) = shift_minutes(day, ticks, offset).ok_or_else(unexpected)?;
            (day, ticks, offset)
        }
        _ => return Err(unexpected()),
    };
    Ok(Moment { day, ticks, offset, ty })
}

pub(super) fn moment_type(from: SqlType, text_type: SqlType) -> SqlType {
    if from.is_date_or_time() {
        from
    } else if from.is_character() {
        text_type
    } else {
        SqlType::DateTime
    }
}

impl Moment {
    /// The time with the milliseconds that a `datetime` shows: it counts in 1/300 s.
    pub(super) fn shown_ticks(self) -> Ticks {
        if self.ty != SqlType::DateTime {
            return self.ticks;
        }
        (self.ticks + TICKS_PER_MILLISECOND / 2) / TICKS_PER_MILLISECOND * TICKS_PER_MILLISECOND
    }

    /// The value in its type again, where it belongs there.
    pub(super) fn into_value(self) -> Option<Value> {
        match self.ty {
            SqlType::DateTimeOffset(_) => {
                let (day, ticks) = shift_minutes(self.day, self.ticks, -self.offset)?;
                Some(Value::DateTimeOffset(day, ticks, self.offset))
            }
            SqlType::DateTime => {
                let (day, ticks) = round_to_datetime(self.day, self.ticks)?;
                Some(Value::DateTime(day, ticks))
            }
            _ => Some(Value::DateTime(self.day, self.ticks)),
        }
    }
}

pub(super) fn the_part(arguments: &Arguments<'_>) -> SqlResult<DatePart> {
    arguments.call.date_part.ok_or_else(|| SqlError::not_supported("a date function without its date part"))
}
