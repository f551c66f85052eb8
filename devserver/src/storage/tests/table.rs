//! Rows and indexes under one connection: what a change, an error and a rollback leave behind.

use super::fixture::{
    BY_PRIORITY, Connection, ID, Jobs, NAME, PRIORITY, READ, READY, Random, STATE, UPDATE, column, equal, index, int,
    job, job_with, jobs_schema, key,
};
use crate::storage::{
    CLUSTERED, Direction, Identity, Inserted, Lifetime, Mark, OwnTables, Row, RowChange, Scan, SeekRange, Uniqueness,
    check_consistency,
};
use crate::value::{Length, SqlType, Value};

fn name(text: &str) -> Value {
    Value::String(text.into())
}

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
fn duplicates_are_refused_in_sql_servers_words() {
    let jobs = Jobs::new(1..=1);
    let mut c = jobs.connect(51);
    let error = c.insert(&job(1)).unwrap_err();
    assert_eq!((error.number, error.severity), (2627, 14));
    assert_eq!(
        error.message,
        "Violation of PRIMARY KEY constraint 'pk'. Cannot insert duplicate key in object 'dbo.jobs'. The duplicate key \
         value is (1)."
    );
    c.insert(&job_with(2, 2, 0, Some("once"))).unwrap();
    let error = c.insert(&job_with(3, 3, 0, Some("ONCE"))).unwrap_err();
    assert_eq!(error.number, 2601);
    assert_eq!(
        error.message,
        "Cannot insert duplicate key row in object 'dbo.jobs' with unique index 'by_name'. The duplicate key value is \
         (ONCE)."
    );
    assert_eq!(c.set(1, NAME, name("once")).unwrap_err().number, 2601);
    assert_eq!(c.set(2, ID, Value::Int(1)).unwrap_err().number, 2627);
    // The filter keeps NULLs out, so that many rows may have none; and a row may keep its own name.
    c.insert(&job(4)).unwrap();
    assert_eq!(c.set(2, NAME, name("Once")).unwrap(), 1);
    c.commit();
    jobs.check();
}

#[test]
fn ignore_dup_key_skips_the_row() {
    let jobs = Jobs::new([]);
    let mut c = jobs.connect(51);
    let mut schema = jobs_schema(Lifetime::Permanent);
    schema.name = "others".into();
    schema.indexes[0].options.ignore_dup_key = true;
    let table = jobs.database.latch().create_table(c.tx(), schema).unwrap();
    c.table = table;
    assert!(matches!(c.insert(&job(1)), Ok(Inserted::Row(_))));
    assert_eq!(c.insert(&job(1)), Ok(Inserted::DuplicateIgnored));
    c.commit();
    assert_eq!(jobs.database.latch().table(table).unwrap().row_count(), 1);
}

#[test]
fn unique_keys_may_trade_places_within_one_statement() {
    let jobs = Jobs::new([]);
    let mut c = jobs.connect(51);
    for (id, text) in [(1, "a"), (2, "b"), (3, "c")] {
        c.insert(&job_with(id, 0, 0, Some(text))).unwrap();
    }
    c.commit();
    let found = c.find(CLUSTERED, &SeekRange::default(), Direction::Forward, UPDATE, usize::MAX).unwrap();
    // SET id = id + 1, name = the next one's
    let schema = c.schema();
    let changes: Vec<RowChange> = found
        .iter()
        .zip([(2, "b"), (3, "c"), (4, "a")])
        .map(|(found, (id, text))| RowChange::new(&schema, found.key.clone(), job_with(id, 0, 0, Some(text))).unwrap())
        .collect();
    let tx = c.tx.as_mut().unwrap();
    assert_eq!(jobs.database.latch().update_rows(tx, jobs.table, &changes).unwrap(), 3);
    assert_eq!(c.get(4, READ).unwrap().unwrap()[NAME], name("a"));
    c.rollback();
    assert_eq!(c.get(1, READ).unwrap().unwrap()[NAME], name("a"));
    assert_eq!(c.get(4, READ).unwrap(), None);
    jobs.check();
}

#[test]
fn a_savepoint_and_a_failed_statement_take_back_only_what_came_after() {
    let jobs = Jobs::new(1..=2);
    let mut c = jobs.connect(51);
    c.delete(1).unwrap();
    let savepoint = c.tx().mark();
    // Comes to lie on the ghost of the deleted row.
    c.insert(&job_with(1, 7, 0, Some("second life"))).unwrap();
    c.set(2, PRIORITY, Value::Int(8)).unwrap();
    jobs.database.latch().rollback_to(c.tx(), savepoint);
    assert_eq!(c.ready(READ).unwrap(), [2]);
    assert_eq!(c.get(1, READ).unwrap(), None);
    let statement = jobs.database.latch().begin_statement(c.tx());
    c.delete(2).unwrap();
    jobs.database.latch().rollback_statement(c.tx(), statement);
    assert_eq!(c.ready(READ).unwrap(), [2]);
    c.insert(&job_with(1, 7, 0, Some("third life"))).unwrap();
    c.commit();
    jobs.check();
    assert_eq!(c.get(1, READ).unwrap().unwrap()[NAME], name("third life"));
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
fn ddl_is_undone_with_its_transaction() {
    let jobs = Jobs::new(1..=3);
    let mut c = jobs.connect(51);
    let by_state = index(0, "by_state", vec![key(STATE, false), key(ID, true)], Uniqueness::Index);
    let mut latch = jobs.database.latch();
    let tx = c.tx.as_mut().unwrap();
    let before = std::sync::Arc::clone(latch.schema(jobs.table).unwrap());
    let id = latch.create_index(tx, jobs.table, by_state).unwrap();
    let mut added = column("region", SqlType::NVarChar(Length::Max), false);
    added.value_when_absent = name("north");
    latch.add_column(tx, jobs.table, added).unwrap();
    latch.drop_index(tx, jobs.table, READY).unwrap();
    let mut values = job(4);
    values.push(name("south"));
    latch.insert(tx, jobs.table, &values).unwrap();
    assert_eq!(latch.table(jobs.table).unwrap().index_entry_count(id), Some(4));
    let schema = std::sync::Arc::clone(latch.schema(jobs.table).unwrap());
    let regions: Vec<Value> =
        latch.table(jobs.table).unwrap().rows.iter().map(|(_, record)| record.row.get(&schema, 5)).collect();
    assert_eq!(regions, [name("north"), name("north"), name("north"), name("south")]);
    drop(latch);
    c.rollback();
    assert_eq!(*jobs.database.latch().schema(jobs.table).unwrap(), before);
    assert_eq!(c.ready(READ).unwrap(), [1, 2, 3]);
    jobs.check();
}

#[test]
fn an_index_over_rows_that_are_not_unique_is_refused() {
    let jobs = Jobs::new(1..=2);
    let mut c = jobs.connect(51);
    let by_state = index(0, "by_state", vec![key(STATE, false)], Uniqueness::Index);
    let error = jobs.database.latch().create_index(c.tx(), jobs.table, by_state).unwrap_err();
    assert_eq!(error.number, 1505);
    assert!(error.message.ends_with("The duplicate key value is (0)."), "{error}");
    c.rollback();
    jobs.check();
}

#[test]
fn heaps_and_clustered_indexes_that_are_not_unique_keep_equal_rows_apart() {
    let jobs = Jobs::new([]);
    for clustered in [None, Some(index(CLUSTERED, "c", vec![key(PRIORITY, false)], Uniqueness::None))] {
        let mut c = jobs.connect(51);
        let mut schema = jobs_schema(Lifetime::Permanent);
        schema.name = "equals".into();
        schema.indexes.remove(0);
        schema.indexes.extend(clustered);
        c.table = jobs.database.latch().create_table(c.tx(), schema).unwrap();
        c.insert(&job(1)).unwrap();
        c.insert(&job(1)).unwrap();
        let row_index = c.schema().row_index();
        let all = SeekRange::default();
        let found = c.find(row_index, &all, Direction::Forward, UPDATE, usize::MAX).unwrap();
        assert_eq!(c.ids(&found), [1, 1]);
        let change = RowChange::new(&c.schema(), found[1].key.clone(), job_with(2, 0, 1, None)).unwrap();
        let tx = c.tx.as_mut().unwrap();
        jobs.database.latch().update_rows(tx, c.table, &[change]).unwrap();
        assert!(jobs.database.latch().delete(tx, c.table, &found[0].key).unwrap());
        let found = c.find(row_index, &all, Direction::Forward, READ, usize::MAX).unwrap();
        assert_eq!(c.ids(&found), [2]);
        let table = c.table;
        jobs.database.latch().drop_table(c.tx(), table).unwrap();
        c.commit();
    }
}

#[test]
fn keys_longer_than_the_index_allows_are_refused() {
    let jobs = Jobs::new([]);
    let mut c = jobs.connect(51);
    let mut schema = jobs_schema(Lifetime::Permanent);
    schema.name = "wide".into();
    schema.columns[NAME].sql_type = SqlType::NVarChar(Length::Limit(4000));
    c.table = jobs.database.latch().create_table(c.tx(), schema).unwrap();
    assert!(c.insert(&job_with(1, 1, 0, Some(&"x".repeat(850)))).is_ok());
    let error = c.insert(&job_with(2, 1, 0, Some(&"y".repeat(851)))).unwrap_err();
    assert_eq!(error.number, 1946);
    assert!(error.message.starts_with("Operation failed. The index entry of length 1702 bytes"), "{error}");
}

#[test]
fn identity_values_are_never_given_twice() {
    let jobs = Jobs::new([]);
    let mut c = jobs.connect(51);
    let mut schema = jobs_schema(Lifetime::Permanent);
    schema.name = "numbered".into();
    schema.columns[ID].identity = Some(Identity { seed: 10, increment: 5 });
    let mut latch = jobs.database.latch();
    let table = latch.create_table(c.tx(), schema).unwrap();
    assert_eq!(latch.next_identity(table).unwrap(), 10);
    latch.note_identity(table, 100);
    latch.note_identity(table, 50);
    assert_eq!(latch.next_identity(table).unwrap(), 105);
}

#[test]
fn every_index_agrees_with_its_table_after_any_changes_and_rollbacks() {
    for seed in 1..=40 {
        let mut random = Random::new(seed);
        let jobs = Jobs::new(1..=20);
        let mut c = jobs.connect(51);
        // What the table must hold: (id, priority, state, name) by id.
        let contents = |c: &mut Connection| {
            let all = SeekRange::default();
            let found = c.find(CLUSTERED, &all, Direction::Forward, READ, usize::MAX).unwrap();
            let schema = c.schema();
            found.iter().map(|found| found.row.values(&schema)).collect::<Vec<_>>()
        };
        let mut committed = contents(&mut c);
        let mut savepoint: Option<(Mark, Vec<Vec<Value>>)> = None;
        for _ in 0..300 {
            let id = random.below(30);
            let statement = jobs.database.latch().begin_statement(c.tx());
            let names = ["a", "b", "c"];
            let outcome = match random.below(13) {
                0..=2 => {
                    let text = names.get(random.below(6) as usize).copied();
                    c.insert(&job_with(id, random.below(5), random.below(2), text)).map(|_| ())
                }
                3 | 4 => c.delete(id).map(|_| ()),
                5 => c.set(id, STATE, Value::Int(random.below(2))).map(|_| ()),
                6 => c.set(id, PRIORITY, Value::Int(random.below(5))).map(|_| ()),
                7 => c.set(id, NAME, name(names[random.below(3) as usize])).map(|_| ()),
                8 => c.set(id, ID, Value::Int(random.below(30))).map(|_| ()),
                9 => {
                    c.commit();
                    savepoint = None;
                    jobs.check();
                    committed = contents(&mut c);
                    continue;
                }
                10 => {
                    // UPDATE jobs SET id = id + 1
                    let all = SeekRange::default();
                    let found = c.find(CLUSTERED, &all, Direction::Forward, UPDATE, usize::MAX).unwrap();
                    let schema = c.schema();
                    let changes = found.into_iter().map(|found| {
                        let mut values = found.row.values(&schema);
                        values[ID] = Value::Int(int(&values[ID]) + 1);
                        RowChange::new(&schema, found.key, values).unwrap()
                    });
                    let changes: Vec<_> = changes.collect();
                    let tx = c.tx.as_mut().unwrap();
                    jobs.database.latch().update_rows(tx, jobs.table, &changes).map(|_| ())
                }
                11 => {
                    c.rollback();
                    savepoint = None;
                    jobs.check();
                    assert_eq!(contents(&mut c), committed, "seed {seed}");
                    continue;
                }
                _ => {
                    match savepoint.take() {
                        Some((mark, before)) => {
                            jobs.database.latch().rollback_to(c.tx(), mark);
                            assert_eq!(contents(&mut c), before, "seed {seed}");
                        }
                        None => savepoint = Some((c.tx().mark(), contents(&mut c))),
                    }
                    continue;
                }
            };
            if let Err(error) = outcome {
                assert!(matches!(error.number, 2601 | 2627), "seed {seed}: {error}");
                jobs.database.latch().rollback_statement(c.tx(), statement);
            }
        }
        c.rollback();
        jobs.check();
    }
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
