//! Rows and indexes under one connection: what a change, an error and a rollback leave behind.

use super::fixture::{BY_PRIORITY, Jobs, PRIORITY, READ, READY, UPDATE, column, equal, job, job_with, jobs_schema};
use crate::storage::{Direction, Lifetime, OwnTables, Row, Scan, SeekRange, check_consistency};
use crate::value::{Length, SqlType, Value};

#[test]
fn a_seek_finds_the_range_in_order_and_no_null() {
    let jobs = Jobs::new([]);
    let mut c = jobs.connect(51);
    for (id, priority) in [(1, 10), (2, 20), (3, 30), (4, 40)] {
        c.insert(&job_with(id, priority, 0, None)).unwrap();
    }
    let mut without_priority = job(5);
    without_priority[PRIORITY] = Value::Null;
    c.insert(&without_priority).unwrap();
    let bound = |value: i32, inclusive| Some((Value::Int(value), inclusive));
    let range = |lower, upper| SeekRange { equal: Vec::new(), lower, upper };
    let in_queue = |lower, upper| SeekRange { equal: vec![Value::Int(1)], lower, upper };
    for (lower, upper, expected) in [
        (bound(20, true), None, vec![2, 3, 4]),
        (bound(20, false), None, vec![3, 4]),
        (None, bound(30, true), vec![1, 2, 3]),
        (None, bound(30, false), vec![1, 2]),
        (bound(10, false), bound(40, false), vec![2, 3]),
        (bound(40, false), bound(10, false), vec![]),
    ] {
        let mut descending = expected.clone();
        descending.reverse();
        for (index, range, direction, expected) in [
            (READY, in_queue(lower.clone(), upper.clone()), Direction::Forward, &expected),
            (READY, in_queue(lower.clone(), upper.clone()), Direction::Backward, &descending),
            (BY_PRIORITY, range(lower.clone(), upper.clone()), Direction::Forward, &descending),
            (BY_PRIORITY, range(lower.clone(), upper.clone()), Direction::Backward, &expected),
        ] {
            let found = c.find(index, &range, direction, READ, usize::MAX).unwrap();
            assert_eq!(c.ids(&found), *expected, "{index} {range:?} {direction:?}");
        }
    }
    let nulls = c.find(BY_PRIORITY, &equal(&[Value::Null]), Direction::Forward, READ, usize::MAX).unwrap();
    assert_eq!(c.ids(&nulls), [5]);
    let everything = c.find(BY_PRIORITY, &SeekRange::default(), Direction::Forward, READ, usize::MAX).unwrap();
    assert_eq!(c.ids(&everything), [4, 3, 2, 1, 5]);
}

#[test]
fn a_table_variable_outlives_a_rollback_but_not_a_failed_statement() {
    let jobs = Jobs::new([]);
    let mut c = jobs.connect(51);
    let mut own = OwnTables::default();
    let table = own.create(jobs_schema(Lifetime::Variable)).unwrap();
    let mut latch = jobs.database.statement_latch(&mut own);
    let statement = latch.begin_statement(c.tx());
    latch.insert(c.tx(), table, &job(1)).unwrap();
    latch.insert(c.tx(), table, &job(2)).unwrap();
    latch.insert(c.tx(), table, &job(3)).unwrap();
    latch.end_statement(c.tx(), statement);
    let all = SeekRange::default();
    let statement = latch.begin_statement(c.tx());
    let mut scan = Scan::open(&mut latch, c.tx(), table, READY, &all, Direction::Forward, UPDATE, false).unwrap();
    let found = scan.next(&mut latch, c.tx()).unwrap().unwrap();
    assert!(latch.delete(c.tx(), table, &found.key).unwrap());
    latch.end_statement(c.tx(), statement);
    assert!(!latch.was_taken(), "nobody else can see it");
    let statement = latch.begin_statement(c.tx());
    let found = scan.next(&mut latch, c.tx()).unwrap().unwrap();
    latch.delete(c.tx(), table, &found.key).unwrap();
    latch.rollback_statement(c.tx(), statement);
    assert_eq!(latch.locks(), []);
    drop(latch);
    c.rollback();
    let latch = jobs.database.statement_latch(&mut own);
    assert_eq!(latch.table(table).unwrap().row_count(), 2);
    check_consistency(latch.table(table).unwrap()).unwrap();
}

#[test]
fn rows_come_back_as_they_were_written() {
    use crate::value::Decimal;
    let long_text: std::sync::Arc<str> = "ä".repeat(5_000).into();
    let decimal = |precision, scale, mantissa| Value::Decimal(Box::new(Decimal { mantissa, precision, scale }));
    let cases = [
        (SqlType::Bit, Value::Bit(true)),
        (SqlType::TinyInt, Value::TinyInt(255)),
        (SqlType::SmallInt, Value::SmallInt(-2)),
        (SqlType::VarBinary(Length::Max), Value::Bytes(vec![7; 9_000].into())),
        (SqlType::BigInt, Value::BigInt(i64::MIN)),
        (SqlType::decimal(18, 2), decimal(18, 2, -5)),
        (SqlType::decimal(38, 0), decimal(38, 0, 10_i128.pow(37))),
        (SqlType::Real, Value::Real(-0.5)),
        (SqlType::Float, Value::Float(1e300)),
        (SqlType::NVarChar(Length::Max), Value::String(std::sync::Arc::clone(&long_text))),
        (SqlType::VarChar(Length::Limit(8000)), Value::String("".into())),
        (SqlType::Binary(2), Value::Bytes([1, 2].into())),
        (SqlType::Date, Value::Date(3_652_058)),
        (SqlType::Time(7), Value::Time(863_999_999_999)),
        (SqlType::DateTime, Value::DateTime(700_000, 1)),
        (SqlType::DateTime2(7), Value::DateTime(0, 863_999_999_999)),
        (SqlType::DateTimeOffset(0), Value::DateTimeOffset(1, 2, -840)),
        (SqlType::UniqueIdentifier, Value::Uuid(uuid::Uuid::from_u128(1 << 100))),
        (SqlType::RowVersion, Value::Bytes(vec![0; 8].into())),
    ];
    let mut schema = jobs_schema(Lifetime::Permanent);
    schema.columns.clear();
    let mut values = Vec::new();
    for (sql_type, value) in cases {
        schema.columns.push(column("value", sql_type, true));
        values.push(value);
        schema.columns.push(column("null", sql_type, true));
        values.push(Value::Null);
    }
    let row = Row::encode(&schema.columns, &values).unwrap();
    assert_eq!(row.values(&schema), values);
    for (position, value) in values.iter().enumerate() {
        assert_eq!(row.get(&schema, position), *value);
    }
    let text = values.iter().position(|value| *value == Value::String(std::sync::Arc::clone(&long_text))).unwrap();
    let Value::String(read) = row.get(&schema, text) else { panic!("it was written as a string") };
    assert!(std::sync::Arc::ptr_eq(&read, &long_text), "a long value is shared, not copied");
}
