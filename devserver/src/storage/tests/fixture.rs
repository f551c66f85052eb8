//! What the storage tests share: a small jobs table, and connections that do one thing a call.

use std::sync::Arc;

use crate::error::SqlResult;
use crate::storage::{
    CLUSTERED, Column, Database, Direction, Filter, FilterTerm, Found, Index, IndexId, IndexOptions, Inserted,
    KeyColumn, Lifetime, LockMode, LockPlan, ObjectId, ReadVersion, RowChange, RowLock, Scan, SeekRange, Session,
    TableSchema, Transaction, Uniqueness, check_consistency,
};
use crate::tsql::ast::{CompareOp, LockEscalation};
use crate::value::{Collation, Length, SqlType, Value};

pub(super) const ID: usize = 0;
pub(super) const QUEUE: usize = 1;
pub(super) const PRIORITY: usize = 2;
pub(super) const STATE: usize = 3;
pub(super) const NAME: usize = 4;

/// The non-clustered indexes of [`jobs_schema`].
pub(super) const READY: IndexId = 2;
pub(super) const BY_NAME: IndexId = 3;
pub(super) const BY_PRIORITY: IndexId = 4;

pub(super) fn column(name: &str, sql_type: SqlType, nullable: bool) -> Column {
    Column {
        name: name.into(),
        sql_type,
        nullable,
        collation: Collation::default(),
        identity: None,
        default: None,
        computed: None,
        is_sparse: false,
        value_when_absent: Value::Null,
    }
}

pub(super) fn key(column: usize, descending: bool) -> KeyColumn {
    KeyColumn { column, descending }
}

pub(super) fn index(id: IndexId, name: &str, key: Vec<KeyColumn>, uniqueness: Uniqueness) -> Index {
    Index {
        id,
        name: name.into(),
        key,
        uniqueness,
        included: Vec::new(),
        filter: None,
        options: IndexOptions::default(),
    }
}

/// jobs(id primary key, queue, priority, state, name): ready jobs by queue and priority, unique names, priority
/// descending.
pub(super) fn jobs_schema(lifetime: Lifetime) -> TableSchema {
    let is_ready = FilterTerm::Compare { column: STATE, operator: CompareOp::Equal, constant: Value::Int(0) };
    let mut ready =
        index(READY, "ready", vec![key(QUEUE, false), key(PRIORITY, false), key(ID, false)], Uniqueness::None);
    ready.filter = Some(Filter { terms: vec![is_ready], text: "[state]=(0)".into() });
    let mut by_name = index(BY_NAME, "by_name", vec![key(NAME, false)], Uniqueness::Index);
    by_name.filter =
        Some(Filter { terms: vec![FilterTerm::IsNotNull { column: NAME }], text: "[name] IS NOT NULL".into() });
    let mut by_priority = index(BY_PRIORITY, "by_priority", vec![key(PRIORITY, true)], Uniqueness::None);
    by_priority.included = vec![STATE];
    TableSchema {
        id: 0,
        schema: "dbo".into(),
        name: "jobs".into(),
        lifetime,
        columns: vec![
            column("id", SqlType::Int, false),
            column("queue", SqlType::Int, false),
            column("priority", SqlType::Int, true),
            column("state", SqlType::Int, false),
            column("name", SqlType::NVarChar(Length::Limit(50)), true),
        ],
        indexes: vec![
            index(CLUSTERED, "pk", vec![key(ID, false)], Uniqueness::PrimaryKey),
            ready,
            by_name,
            by_priority,
        ],
        statistics: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        lock_escalation: LockEscalation::Table,
    }
}

/// A ready job of queue 1.
pub(super) fn job(id: i32) -> Vec<Value> {
    job_with(id, id, 0, None)
}

pub(super) fn job_with(id: i32, priority: i32, state: i32, name: Option<&str>) -> Vec<Value> {
    let name = name.map_or(Value::Null, |name| Value::String(name.into()));
    vec![Value::Int(id), Value::Int(1), Value::Int(priority), Value::Int(state), name]
}

/// SELECT at READ COMMITTED.
pub(super) const READ: LockPlan = LockPlan {
    table_mode: LockMode::IntentShared,
    row: RowLock::Shared,
    hold: false,
    readpast: false,
    read: ReadVersion::Current,
    keep_rejected: false,
    serializable: false,
};

/// The target of an UPDATE, and WITH (UPDLOCK).
pub(super) const UPDATE: LockPlan =
    LockPlan { table_mode: LockMode::IntentExclusive, row: RowLock::Update, hold: true, ..READ };

/// WITH (UPDLOCK, READPAST).
pub(super) const CLAIM: LockPlan = LockPlan { readpast: true, ..UPDATE };

/// A database with a jobs table in it.
pub(super) struct Jobs {
    pub(super) database: Arc<Database>,
    pub(super) table: ObjectId,
}

impl Jobs {
    /// With the jobs of these ids.
    pub(super) fn new(ids: impl IntoIterator<Item = i32>) -> Jobs {
        let database = Arc::new(Database::new("test"));
        let session = database.open_session(50);
        let mut tx = Transaction::begin(&session);
        let mut latch = database.latch();
        let table = latch.create_table(&mut tx, jobs_schema(Lifetime::Permanent)).unwrap();
        for id in ids {
            latch.insert(&mut tx, table, &job(id)).unwrap();
        }
        latch.commit(tx);
        drop(latch);
        database.close_session(session);
        Jobs { database, table }
    }

    pub(super) fn connect(&self, spid: i32) -> Connection {
        let session = self.database.open_session(spid);
        let tx = Some(Transaction::begin(&session));
        Connection { database: Arc::clone(&self.database), table: self.table, session, tx }
    }

    /// Until so many sessions wait for a lock.
    pub(super) fn until_waiting(&self, count: usize) {
        while self.database.latch().waiting_count() != count {
            std::thread::yield_now();
        }
    }

    pub(super) fn check(&self) {
        let latch = self.database.latch();
        check_consistency(latch.table(self.table).unwrap()).unwrap();
        assert_eq!(latch.locks(), [], "every transaction has ended");
    }
}

/// A session with an open transaction.
pub(super) struct Connection {
    pub(super) database: Arc<Database>,
    pub(super) table: ObjectId,
    pub(super) session: Session,
    pub(super) tx: Option<Transaction>,
}

impl Connection {
    pub(super) fn tx(&mut self) -> &mut Transaction {
        self.tx.as_mut().unwrap()
    }

    /// Commits, and begins the next transaction.
    pub(super) fn commit(&mut self) {
        let tx = self.tx.replace(Transaction::begin(&self.session)).unwrap();
        self.database.latch().commit(tx);
    }

    pub(super) fn rollback(&mut self) {
        let tx = self.tx.replace(Transaction::begin(&self.session)).unwrap();
        self.database.latch().rollback(tx);
    }

    pub(super) fn insert(&mut self, values: &[Value]) -> SqlResult<Inserted> {
        let tx = self.tx.as_mut().unwrap();
        self.database.latch().insert(tx, self.table, values)
    }

    /// Up to `limit` rows of an index range.
    pub(super) fn find(
        &mut self,
        index: IndexId,
        range: &SeekRange,
        direction: Direction,
        plan: LockPlan,
        limit: usize,
    ) -> SqlResult<Vec<Found>> {
        let tx = self.tx.as_mut().unwrap();
        let mut latch = self.database.latch();
        let mark = latch.begin_statement(tx);
        let rows = (|| {
            let mut scan = Scan::open(&mut latch, tx, self.table, index, range, direction, plan, false)?;
            let mut rows = Vec::new();
            while rows.len() < limit
                && let Some(found) = scan.next(&mut latch, tx)?
            {
                rows.push(found);
            }
            Ok(rows)
        })();
        latch.end_statement(tx, mark);
        rows
    }

    /// The ids of all ready jobs that the plan lets through.
    pub(super) fn ready(&mut self, plan: LockPlan) -> SqlResult<Vec<i32>> {
        let found = self.find(READY, &SeekRange::default(), Direction::Forward, plan, usize::MAX)?;
        Ok(self.ids(&found))
    }

    /// The job with this id, by the primary key.
    pub(super) fn get(&mut self, id: i32, plan: LockPlan) -> SqlResult<Option<Vec<Value>>> {
        let found = self.find(CLUSTERED, &equal(&[Value::Int(id)]), Direction::Forward, plan, 1)?;
        let schema = self.schema();
        Ok(found.first().map(|found| found.row.values(&schema)))
    }

    pub(super) fn schema(&self) -> Arc<TableSchema> {
        Arc::clone(self.database.latch().schema(self.table).unwrap())
    }

    pub(super) fn ids(&self, found: &[Found]) -> Vec<i32> {
        let schema = self.schema();
        found.iter().map(|found| int(&found.row.get(&schema, ID))).collect()
    }

    /// UPDATE jobs SET column = value WHERE id = id
    pub(super) fn set(&mut self, id: i32, column: usize, value: Value) -> SqlResult<usize> {
        let found = self.find(CLUSTERED, &equal(&[Value::Int(id)]), Direction::Forward, UPDATE, 1)?;
        let schema = self.schema();
        let changes: Vec<RowChange> = found
            .iter()
            .map(|found| {
                let mut values = found.row.values(&schema);
                values[column] = value.clone();
                RowChange::new(&schema, found.key.clone(), values).unwrap()
            })
            .collect();
        let tx = self.tx.as_mut().unwrap();
        self.database.latch().update_rows(tx, self.table, &changes)
    }

    /// DELETE FROM jobs WHERE id = id
    pub(super) fn delete(&mut self, id: i32) -> SqlResult<bool> {
        let found = self.find(CLUSTERED, &equal(&[Value::Int(id)]), Direction::Forward, UPDATE, 1)?;
        let Some(found) = found.first() else { return Ok(false) };
        let tx = self.tx.as_mut().unwrap();
        self.database.latch().delete(tx, self.table, &found.key)
    }
}

pub(super) fn equal(values: &[Value]) -> SeekRange {
    SeekRange { equal: values.to_vec(), ..SeekRange::default() }
}

pub(super) fn int(value: &Value) -> i32 {
    match value {
        Value::Int(number) => *number,
        other => panic!("{other:?} is no int"),
    }
}

/// A generator of test cases: Marsaglia's xorshift.
pub(in crate::storage) struct Random(u64);

impl Random {
    pub(in crate::storage) fn new(seed: u64) -> Self {
        Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed))
    }

    pub(in crate::storage) fn below(&mut self, limit: u64) -> i32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit) as i32
    }
}
