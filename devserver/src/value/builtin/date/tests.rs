use crate::value::builtin::tests::{call, call_typed, call_with_part, int, null, typed, varchar};
use crate::value::types::SqlType;
use crate::value::values::Value;

const DATETIME2: SqlType = SqlType::DateTime2(7);

fn add(part: &str, number: i32, date: &str, ty: SqlType) -> Result<String, i32> {
    call_with_part("DATEADD", Some(part), &[int(number), typed(date, ty)])
}

// docs/t-sql/functions/dateadd-transact-sql.md, examples A and B
#[test]
fn dates_are_moved() {
    let start = "2007-01-01 13:10:10.1111111";
    let cases = [
        ("year", 1, "2008-01-01 13:10:10.1111111"),
        ("month", 13, "2008-02-01 13:10:10.1111111"),
        ("week", 5, "2007-02-05 13:10:10.1111111"),
        ("hour", 23, "2007-01-02 12:10:10.1111111"),
        ("minute", -11, "2007-01-01 12:59:10.1111111"),
        ("second", 59, "2007-01-01 13:11:09.1111111"),
        ("millisecond", 1, "2007-01-01 13:10:10.1121111"),
    ];
    for (part, number, expected) in cases {
        assert_eq!(add(part, number, start, DATETIME2).as_deref(), Ok(expected), "{part}");
    }
    assert_eq!(add("month", 1, "2006-08-31", DATETIME2).as_deref(), Ok("2006-09-30 00:00:00.0000000"));
    let text = call_typed("DATEADD", Some("month"), &[int(1), varchar("20060830")]).unwrap();
    assert_eq!(text.1, SqlType::DateTime);
}

#[test]
fn dates_that_cannot_be_moved() {
    assert_eq!(add("year", i32::MAX, "20060731", SqlType::DateTime), Err(59_000));
    assert_eq!(add("year", -i32::MAX, "20060731", SqlType::DateTime), Err(59_000));
    assert_eq!(add("day", 1, "20060731", SqlType::Date), Err(59_000));
    let too_large = (Value::BigInt(1 << 31), SqlType::BigInt);
    assert_eq!(call_with_part("DATEADD", Some("year"), &[too_large, varchar("20060731")]), Err(8115));
    assert_eq!(call_with_part("DATEADD", Some("day"), &[null(), varchar("20060731")]), Ok("NULL".into()));
}

// docs/t-sql/functions/datediff-transact-sql.md
#[test]
fn boundaries_are_counted() {
    let before = varchar("2005-12-31 23:59:59.9999999");
    let after = varchar("2006-01-01 00:00:00.0000000");
    let parts = ["year", "month", "day", "week", "hour", "minute", "second", "millisecond"];
    for part in parts {
        let count = call_with_part("DATEDIFF", Some(part), &[before.clone(), after.clone()]);
        assert_eq!(count.as_deref(), Ok("1"), "{part}");
    }
    let back = call_with_part("DATEDIFF", Some("day"), &[varchar("2036-03-01"), varchar("2036-02-28")]);
    assert_eq!(back.as_deref(), Ok("-2"));
    let long = [varchar("19000101"), varchar("20240101")];
    assert_eq!(call_with_part("DATEDIFF", Some("ms"), &long), Err(59_000));
    assert_eq!(call_with_part("DATEDIFF_BIG", Some("ms"), &long).as_deref(), Ok("3913056000000"));
    let datetimes = [typed("00:00", SqlType::DateTime), typed("00:00:00.007", SqlType::DateTime)];
    assert_eq!(call_with_part("DATEDIFF", Some("ms"), &datetimes).as_deref(), Ok("7"));
}

// docs/t-sql/functions/switchoffset-transact-sql.md
#[test]
fn offsets_change() {
    let utc = typed("1998-09-20 12:45:50.71345", SqlType::DateTime2(7)).0;
    let Value::DateTime(day, ticks) = utc else { panic!("{utc:?}") };
    let moment = (Value::DateTimeOffset(day, ticks, -300), SqlType::DateTimeOffset(7));
    let switched = call("SWITCHOFFSET", &[moment.clone(), varchar("+00:00")]);
    assert_eq!(switched.as_deref(), Ok("1998-09-20 12:45:50.7134500 +00:00"));
    assert_eq!(call("SWITCHOFFSET", &[moment, varchar("-08:00")]), Err(59_000));
}

#[test]
fn the_clock_is_the_statements() {
    assert_eq!(call("SYSUTCDATETIME", &[]).as_deref(), Ok("2024-05-06 00:00:12.3456789"));
    let (_, ty) = call_typed("GETDATE", None, &[]).unwrap();
    assert_eq!(ty, SqlType::DateTime);
}
