//! What SQL Server makes of the procedures that workers call all the time: their actual plans, on an empty, a small and
//! a large table.
//!
//! Only a real SQL Server has plans, so that test is ignored without one: `docs/real-server.md`. Two things run
//! everywhere: the judge, over plans that were written for it, and every call of the test without its plan, so that the
//! plans are those of calls that do work.
//!
//! Judged are the statements that read or change `jobs`. Each of them must seek, and needs neither a sort, nor a memory
//! grant, nor a second thread, and SQL Server must have nothing to warn of. Allowed are, because they say nothing
//! against a plan:
//!
//! - anything in a statement that does not touch `jobs`: the result of `finish` may sort a table variable of 500 rows;
//! - a scan of another table or of a table variable: a parameter with 500 rows is read from its first row to its last;
//! - the warning that a conversion may affect an estimate (`PlanAffectingConvert`, `Cardinality Estimate`): SQL Server
//!   gives it for values that are only written or returned, too, and the plans here are fixed by hints, not by
//!   estimates. Where a conversion prevents a seek the warning says `Seek Plan`, which is not allowed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use roxmltree::{Document, Node};
use tiberius::{ColumnData, Row};
use uuid::Uuid;

use super::support::scripts::{all_t_sql, numbered};
use super::support::{Fixture, Session, number, text};

/// How many rows of `jobs` one operator may read in one execution of a statement. The largest call takes 500; more than
/// this is a range that nothing bounds, though the plan calls it a seek.
const MOST_ROWS_READ: u64 = 5_000;

/// A statement of a plan that touches the table.
#[derive(Debug)]
struct Judged {
    /// The beginning of its text.
    text: String,
    /// What it does to the table, and by which index.
    operators: Vec<String>,
    findings: Vec<String>,
}

/// What is wrong with the statements of `xml` that touch `table`.
fn findings(xml: &str, table: &str) -> Vec<String> {
    judged(xml, table).into_iter().flat_map(|statement| statement.findings).collect()
}

/// The statements of a showplan document that touch `table`, each with what is wrong with it.
fn judged(xml: &str, table: &str) -> Vec<Judged> {
    let document = Document::parse(xml).unwrap_or_else(|error| panic!("not XML: {error}\n{xml:.500}"));
    let plans = document.descendants().filter(|node| node.has_tag_name("QueryPlan"));
    plans.filter(|plan| touches(*plan, table)).map(|plan| judged_plan(plan, table)).collect()
}

fn judged_plan(plan: Node<'_, '_>, table: &str) -> Judged {
    let text = plan.ancestors().find_map(|node| node.attribute("StatementText")).unwrap_or("(a condition)");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut statement = Judged { text: text.chars().take(70).collect(), operators: Vec::new(), findings: Vec::new() };
    judge_whole(plan, &mut statement.findings);
    for operator in plan.descendants().filter(|node| node.has_tag_name("RelOp")) {
        judge_operator(operator, table, &mut statement);
    }
    statement
}

/// What holds for the statement as a whole.
fn judge_whole(plan: Node<'_, '_>, findings: &mut Vec<String>) {
    let grants = plan.descendants().filter(|node| node.has_tag_name("MemoryGrantInfo"));
    let granted = grants.map(|grant| count(grant, "GrantedMemory")).max().unwrap_or(0).max(count(plan, "MemoryGrant"));
    if granted > 0 {
        findings.push(format!("a memory grant of {granted} kB"));
    }
    let threads = count(plan, "DegreeOfParallelism");
    if threads > 1 {
        findings.push(format!("parallelism: {threads} threads"));
    }
    for warnings in plan.descendants().filter(|node| node.has_tag_name("Warnings")) {
        let flags = warnings.attributes().filter(|flag| matches!(flag.value(), "1" | "true"));
        findings.extend(flags.map(|flag| format!("a warning: {}", flag.name())));
        let details = warnings.children().filter(|node| node.is_element() && !is_about_an_estimate(*node));
        findings.extend(details.map(|node| format!("a warning: {}", described(node))));
    }
}

/// What holds for one operator.
fn judge_operator(operator: Node<'_, '_>, table: &str, statement: &mut Judged) {
    let name = operator.attribute("PhysicalOp").unwrap_or("?");
    match name {
        "Sort" => statement.findings.push(format!("a sort ({})", operator.attribute("LogicalOp").unwrap_or("?"))),
        "Parallelism" => statement.findings.push("parallelism: an exchange between threads".to_string()),
        _ => {}
    }
    let indexes: Vec<&str> = own_objects(operator).filter(|object| is_of(*object, table)).map(index).collect();
    if indexes.is_empty() {
        return;
    }
    let rows_read = rows_read(operator);
    let on = indexes.join(", ");
    statement.operators.push(format!("{name} on {on} ({rows_read} rows)"));
    if name.ends_with("Scan") {
        statement.findings.push(format!("a scan: {name} on {on}"));
    }
    if rows_read > MOST_ROWS_READ {
        statement.findings.push(format!("{rows_read} rows read: {name} on {on}"));
    }
}

/// The tables and indexes that an operator itself reads or changes, without those of its inputs.
fn own_objects<'a, 'input: 'a>(operator: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    let inner = operator.children().flat_map(|node| node.children());
    inner.filter(|node| node.has_tag_name("Object"))
}

/// Over all threads and executions. `ActualRowsRead` stands only where rows were read that the operator did not return.
fn rows_read(operator: Node<'_, '_>) -> u64 {
    let run_time = operator.children().filter(|node| node.has_tag_name("RunTimeInformation"));
    let threads = run_time.flat_map(|node| node.children()).filter(|node| node.is_element());
    threads.map(|thread| count(thread, "ActualRowsRead").max(count(thread, "ActualRows"))).sum()
}

fn touches(plan: Node<'_, '_>, table: &str) -> bool {
    plan.descendants().any(|node| node.has_tag_name("Object") && is_of(node, table))
}

/// Whether an `Object` is the table or one of its indexes.
fn is_of(object: Node<'_, '_>, table: &str) -> bool {
    object.attribute("Table").is_some_and(|name| bare(name) == table)
}

fn index<'a>(object: Node<'a, '_>) -> &'a str {
    object.attribute("Index").map_or("the heap", bare)
}

/// A name without its brackets.
fn bare(name: &str) -> &str {
    name.trim_start_matches('[').trim_end_matches(']')
}

fn is_about_an_estimate(warning: Node<'_, '_>) -> bool {
    warning.has_tag_name("PlanAffectingConvert") && warning.attribute("ConvertIssue") == Some("Cardinality Estimate")
}

/// A warning with its attributes.
fn described(warning: Node<'_, '_>) -> String {
    let attributes: Vec<_> = warning.attributes().map(|each| format!("{} {}", each.name(), each.value())).collect();
    format!("{} ({})", warning.tag_name().name(), attributes.join(", "))
}

fn count(node: Node<'_, '_>, attribute: &str) -> u64 {
    node.attribute(attribute).and_then(|value| value.parse().ok()).unwrap_or(0)
}

// The judge.

/// A claim as it should be: a seek in the ready index, a look-up of the row, and its change.
const CLEAN_CLAIM: &str = r#"<ShowPlanXML xmlns="http://schemas.microsoft.com/sqlserver/2004/07/showplan" Version="1.564" Build="16.0.4000.0">
  <BatchSequence><Batch><Statements>
    <StmtSimple StatementType="UPDATE" StatementText="WITH next_jobs AS (SELECT TOP (@max) job_id FROM jobs)&#xd;&#xa;UPDATE next_jobs SET state = 2">
      <QueryPlan DegreeOfParallelism="1" CachedPlanSize="96" CompileTime="4" CompileCPU="4" CompileMemory="600">
        <MemoryGrantInfo SerialRequiredMemory="0" SerialDesiredMemory="0" GrantedMemory="0" MaxUsedMemory="0" />
        <RelOp NodeId="0" PhysicalOp="Clustered Index Update" LogicalOp="Update" Parallel="0">
          <RunTimeInformation><RunTimeCountersPerThread Thread="0" ActualRows="500" ActualExecutions="1" /></RunTimeInformation>
          <Update>
            <Object Database="[d]" Schema="[s]" Table="[jobs]" Index="[jobs_pk]" IndexKind="Clustered" />
            <Object Database="[d]" Schema="[s]" Table="[jobs]" Index="[jobs_ready]" IndexKind="NonClustered" />
            <RelOp NodeId="1" PhysicalOp="Top" LogicalOp="Top" Parallel="0">
              <Top RowCount="0" IsPercent="0">
                <RelOp NodeId="2" PhysicalOp="Nested Loops" LogicalOp="Inner Join" Parallel="0">
                  <NestedLoops Optimized="0">
                    <RelOp NodeId="3" PhysicalOp="Index Seek" LogicalOp="Index Seek" Parallel="0">
                      <RunTimeInformation><RunTimeCountersPerThread Thread="0" ActualRows="500" ActualRowsRead="500" ActualExecutions="1" ActualLogicalReads="7" /></RunTimeInformation>
                      <IndexScan Ordered="1" ScanDirection="FORWARD" ForcedIndex="1">
                        <Object Database="[d]" Schema="[s]" Table="[jobs]" Index="[jobs_ready]" Filtered="1" IndexKind="NonClustered" />
                      </IndexScan>
                    </RelOp>
                    <RelOp NodeId="5" PhysicalOp="Clustered Index Seek" LogicalOp="Clustered Index Seek" Parallel="0">
                      <RunTimeInformation><RunTimeCountersPerThread Thread="0" ActualRows="500" ActualExecutions="500" ActualLogicalReads="1531" /></RunTimeInformation>
                      <IndexScan Lookup="1" Ordered="1" ScanDirection="FORWARD">
                        <Object Database="[d]" Schema="[s]" Table="[jobs]" Index="[jobs_pk]" TableReferenceId="-1" IndexKind="Clustered" />
                      </IndexScan>
                    </RelOp>
                  </NestedLoops>
                </RelOp>
              </Top>
            </RelOp>
          </Update>
        </RelOp>
      </QueryPlan>
    </StmtSimple>
  </Statements></Batch></BatchSequence>
</ShowPlanXML>"#;

/// The clean claim with one thing changed.
fn spoilt(part: &str, by: &str) -> String {
    assert_eq!(CLEAN_CLAIM.matches(part).count(), 1, "{part}");
    CLEAN_CLAIM.replace(part, by)
}

/// The clean claim with warnings.
fn warned(warnings: &str) -> String {
    spoilt("<MemoryGrantInfo ", &format!("<Warnings {warnings}</Warnings><MemoryGrantInfo "))
}

/// On a small table a scan costs less than a seek and a lookup, and it waits at each row that somebody's open
/// transaction has inserted: a migration that creates a queue would stop all others. "FORCESEEK" (docs/t-sql/queries/
/// hints-transact-sql-table.md) allows a seek only; with columns, of any but the target of a change.
#[test]
fn each_look_for_a_queue_by_its_name_is_a_seek() {
    let seeks = ["FORCESEEK (queues_name (name))", "FORCESEEK, INDEX (queues_name)"];
    let mut looks = 0;
    for (script, text) in all_t_sql() {
        for part in text.split("[$(schema)].[queues]").skip(1) {
            let statement = part.split(';').next().unwrap_or(part);
            let by_name = ["name = @", "name = /*{"].iter().any(|name| statement.contains(name));
            if by_name && !statement.starts_with(" AS q WITH (NOLOCK)") {
                looks += 1;
                assert!(seeks.iter().any(|seek| statement.contains(seek)), "{script}: {statement}");
            }
        }
    }
    assert!(looks > 40, "{looks}");
}

#[test]
fn a_claim_that_seeks_is_clean() {
    let statements = judged(CLEAN_CLAIM, "jobs");
    assert_eq!(statements.len(), 1);
    assert!(statements[0].text.starts_with("WITH next_jobs AS (SELECT TOP (@max) job_id FROM jobs) UPDATE"));
    let operators = [
        "Clustered Index Update on jobs_pk, jobs_ready (500 rows)",
        "Index Seek on jobs_ready (500 rows)",
        "Clustered Index Seek on jobs_pk (500 rows)",
    ];
    assert_eq!(statements[0].operators, operators);
    assert_eq!(statements[0].findings, [""; 0]);
}

#[test]
fn every_kind_of_scan_is_found() {
    for scan in ["Index Scan", "Clustered Index Scan", "Table Scan"] {
        let plan = spoilt(r#"PhysicalOp="Index Seek""#, &format!(r#"PhysicalOp="{scan}""#));
        assert_eq!(findings(&plan, "jobs"), [format!("a scan: {scan} on jobs_ready")]);
    }
}

#[test]
fn a_seek_that_reads_half_the_table_is_found() {
    let plan = spoilt(r#"ActualRowsRead="500""#, r#"ActualRowsRead="480000""#);
    assert_eq!(findings(&plan, "jobs"), ["480000 rows read: Index Seek on jobs_ready"]);
}

#[test]
fn a_sort_is_found() {
    let plan = spoilt(r#"PhysicalOp="Top" LogicalOp="Top""#, r#"PhysicalOp="Sort" LogicalOp="TopN Sort""#);
    assert_eq!(findings(&plan, "jobs"), ["a sort (TopN Sort)"]);
}

#[test]
fn a_memory_grant_is_found() {
    let plan = spoilt(r#"GrantedMemory="0""#, r#"GrantedMemory="1024""#);
    assert_eq!(findings(&plan, "jobs"), ["a memory grant of 1024 kB"]);
    let plan = spoilt(r#"<QueryPlan "#, r#"<QueryPlan MemoryGrant="512" "#);
    assert_eq!(findings(&plan, "jobs"), ["a memory grant of 512 kB"]);
}

#[test]
fn parallelism_is_found() {
    let plan = spoilt(r#"DegreeOfParallelism="1""#, r#"DegreeOfParallelism="4""#);
    assert_eq!(findings(&plan, "jobs"), ["parallelism: 4 threads"]);
    let plan = spoilt(r#"PhysicalOp="Top" LogicalOp="Top""#, r#"PhysicalOp="Parallelism" LogicalOp="Gather Streams""#);
    assert_eq!(findings(&plan, "jobs"), ["parallelism: an exchange between threads"]);
}

#[test]
fn warnings_are_found() {
    let plan = warned(r#"NoJoinPredicate="1" SpatialGuess="0">"#);
    assert_eq!(findings(&plan, "jobs"), ["a warning: NoJoinPredicate"]);
    let plan = warned(r#"><SpillToTempDb SpillLevel="1" SpilledThreadCount="1" />"#);
    assert_eq!(findings(&plan, "jobs"), ["a warning: SpillToTempDb (SpillLevel 1, SpilledThreadCount 1)"]);
    let plan = warned(r#"><PlanAffectingConvert ConvertIssue="Seek Plan" Expression="x" />"#);
    assert_eq!(findings(&plan, "jobs"), ["a warning: PlanAffectingConvert (ConvertIssue Seek Plan, Expression x)"]);
}

#[test]
fn a_conversion_that_may_affect_an_estimate_is_allowed() {
    let plan = warned(r#"><PlanAffectingConvert ConvertIssue="Cardinality Estimate" Expression="x" />"#);
    assert_eq!(findings(&plan, "jobs"), [""; 0]);
}

#[test]
fn other_tables_may_be_scanned() {
    let plan = spoilt(r#"PhysicalOp="Index Seek""#, r#"PhysicalOp="Table Scan""#);
    let parameter = r#"Table="[@jobs]" Index="[jobs_ready]" Filtered="1""#;
    let plan = plan.replace(r#"Table="[jobs]" Index="[jobs_ready]" Filtered="1""#, parameter);
    assert_eq!(findings(&plan, "jobs"), [""; 0]);
}

#[test]
fn a_statement_that_does_not_touch_the_table_is_not_judged() {
    let sorted = spoilt(r#"PhysicalOp="Top" LogicalOp="Top""#, r#"PhysicalOp="Sort" LogicalOp="Sort""#);
    assert_eq!(findings(&sorted, "jobs").len(), 1);
    for other in ["[@found]", "[jobs_of_others]"] {
        assert!(judged(&sorted.replace(r#"Table="[jobs]""#, &format!(r#"Table="{other}""#)), "jobs").is_empty());
    }
}

#[test]
fn conditions_are_judged_and_statements_without_a_plan_are_not() {
    let condition = spoilt("<QueryPlan ", "<Condition><QueryPlan ").replace("</QueryPlan>", "</QueryPlan></Condition>");
    let condition =
        condition.replace("StmtSimple", "StmtCond").replace(r#"PhysicalOp="Index Seek""#, r#"PhysicalOp="Index Scan""#);
    assert_eq!(findings(&condition, "jobs"), ["a scan: Index Scan on jobs_ready"]);
    let assignment = r#"<ShowPlanXML><StmtSimple StatementType="ASSIGN" StatementText="SET @x = 1" /></ShowPlanXML>"#;
    assert!(judged(assignment, "jobs").is_empty());
}

// The calls.

/// Of each order, completion and delivery one: every branch of the procedures has a plan of its own. The jobs of
/// `batch` are a batch; the last one has limits, and its jobs are of groups.
const QUEUES: [(&str, &str, &str, &str); 8] = [
    ("batch", "fifo", "annotate", "at_least_once"),
    ("fifo", "fifo", "delete", "at_least_once"),
    ("lifo", "lifo", "annotate", "at_least_once"),
    ("any", "any", "archive", "at_least_once"),
    ("fifo_once", "fifo", "delete", "at_most_once"),
    ("lifo_once", "lifo", "delete", "at_most_once"),
    ("any_once", "any", "delete", "at_most_once"),
    (GROUPED, "fifo", "delete", "at_least_once"),
];

const GROUPED: &str = "grouped";

/// How many groups there are.
const GROUPS: u32 = 100;

/// The procedures whose plans are judged.
const HOT: [&str; 8] = ["claim", "finish", "release", "reap", "promote", "recover", "await_jobs", "advance_groups"];

/// How many jobs of a queue are due, how many its worker holds, and how many its lost worker holds.
const HELD: usize = 16;

/// Of those that its worker holds, how many it knows of when it calls `recover`.
const KNOWN: usize = 6;

/// A job that does not exist: `finish` and `release` report it.
const INVENTED: i64 = 9_000_000_000_000;

struct TestedQueue {
    name: &'static str,
    at_most_once: bool,
    worker: Uuid,
    /// Marked lost, but nobody has given its jobs back yet.
    lost_worker: Uuid,
}

/// A call of a procedure, to be undone after it.
struct Call {
    procedure: &'static str,
    /// What is done before it, in the same transaction.
    prepare: String,
    /// Its parameters.
    parameters: String,
}

/// What a call returned.
struct Returned {
    plans: Vec<String>,
    rows: Vec<Row>,
}

impl Returned {
    /// The number in the first row that has this column.
    fn number(&self, column: &str) -> Option<i64> {
        let row = self.rows.iter().find(|row| has_column(row, column))?;
        Some(number(row, column))
    }

    fn rows_with(&self, column: &str) -> usize {
        self.rows.iter().filter(|row| has_column(row, column)).count()
    }
}

fn has_column(row: &Row, column: &str) -> bool {
    row.columns().iter().any(|each| each.name() == column)
}

/// The queues with their jobs and workers, in a schema of their own.
struct Plant {
    session: Session,
    queues: Vec<TestedQueue>,
}

impl Plant {
    async fn build(fixture: &Fixture) -> Plant {
        let mut session = fixture.session().await;
        let mut queues = Vec::new();
        for (name, order, completion, delivery) in QUEUES {
            let settings = format!("@claim_order = '{order}', @completion = '{completion}', @delivery = '{delivery}'");
            let limits = match name {
                GROUPED => ", @max_running = 100000, @rate_jobs = 1000000, @rate_ms = 100",
                _ => "",
            };
            session.sql(&format!("EXEC [$(schema)].[create_queue] @queue = N'{name}', {settings}{limits}")).await;
            let (worker, lost_worker) = (Uuid::new_v4(), Uuid::new_v4());
            for worker in [worker, lost_worker] {
                let worker = format!("@worker_id = '{worker}', @name = N'plans', @lease_ms = 86400000");
                session.sql(&format!("EXEC [$(schema)].[register_worker] @queue = N'{name}', {worker}")).await;
            }
            queues.push(TestedQueue { name, at_most_once: delivery == "at_most_once", worker, lost_worker });
        }
        Plant { session, queues }
    }

    /// Takes away all jobs and puts `jobs` into each queue. Of ten, eight are ready, one waits for its time and one is
    /// dead; `HELD` are due, and where jobs are acknowledged, both workers hold as many.
    async fn fill(&mut self, jobs: u32) {
        let Plant { session, queues } = self;
        // Row by row: TRUNCATE would begin with the first id again, behind everything that was claimed.
        session.sql("DELETE [$(schema)].[jobs]; DELETE [$(schema)].[groups]; DELETE [$(schema)].[group_events]").await;
        session.sql("UPDATE [$(schema)].[workers] SET lost_at = NULL").await;
        for queue in queues.iter().filter(|_| jobs > 0) {
            let name = queue.name;
            session.sql(&enqueue(name, jobs)).await;
            let this_queue = format!("queue_id = (SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'{name}')");
            if name == "batch" {
                // Sealed, so that each acknowledgement asks whether it has ended.
                let batch = "DECLARE @id bigint, @queue_id int = (SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'batch');
                     EXEC [$(schema)].[create_batch] @queue = N'batch', @text = N'x', @batch_id = @id OUTPUT;
                     EXEC [$(schema)].[link_queue] @queue_id;
                     UPDATE [$(schema)].[jobs] SET batch_id = @id WHERE queue_id = @queue_id;
                     INSERT [$(schema)].[batch_additions] (batch_id, jobs)
                     SELECT @id, COUNT(*) FROM [$(schema)].[jobs] WHERE batch_id = @id;
                     EXEC [$(schema)].[seal_batch] @batch_id = @id";
                session.sql(batch).await;
            }
            let dead = "SET state = 4, ended = 1, finished_at = enqueued_at WHERE job_id % 10 = 5 AND state = 0";
            session.sql(&format!("UPDATE [$(schema)].[jobs] {dead} AND {this_queue}")).await;
            let due =
                format!("UPDATE TOP ({HELD}) [$(schema)].[jobs] SET due_at = DATEADD(SECOND, -1, SYSUTCDATETIME())");
            session.sql(&format!("{due} WHERE state = 1 AND {this_queue}")).await;
            for worker in [queue.worker, queue.lost_worker].into_iter().filter(|_| !queue.at_most_once) {
                let claim = format!("@queue = N'{name}', @worker_id = '{worker}', @max = {HELD}");
                let claimed = session.sql(&format!("EXEC [$(schema)].[claim] {claim}")).await;
                assert_eq!(claimed.len(), HELD, "claimed from {name}");
            }
            let lost = "UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME()";
            session.sql(&format!("{lost} WHERE worker_id = '{}'", queue.lost_worker)).await;
        }
    }

    /// Makes a call and undoes what it did.
    async fn call(&mut self, call: &Call, with_plans: bool) -> Returned {
        let Call { procedure, prepare, parameters } = call;
        let (on, off) = if with_plans { ("SET STATISTICS XML ON;", "SET STATISTICS XML OFF;") } else { ("", "") };
        let execute = format!("EXEC [$(schema)].[{procedure}] {parameters};");
        // In a transaction it would do nothing.
        let (begin, end) = match *procedure {
            "advance_groups" => ("", ""),
            _ => ("BEGIN TRANSACTION;", "ROLLBACK TRANSACTION;"),
        };
        let batch = format!("SET NOCOUNT ON; {begin} {prepare} {on} {execute} {off} {end}");
        let results = self.session.try_sql(&batch).await.unwrap_or_else(|error| panic!("{error}\nin {batch}"));
        let mut returned = Returned { plans: Vec::new(), rows: Vec::new() };
        for row in results.into_iter().flatten() {
            match plan(&row) {
                Some(plan) => returned.plans.push(plan),
                None => returned.rows.push(row),
            }
        }
        returned
    }

    /// Every procedure, on every queue that has work for it.
    fn calls(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for queue in &self.queues {
            let (name, worker) = (queue.name, queue.worker);
            let mut add = |procedure, prepare: String, parameters: String| {
                calls.push(Call { procedure, prepare, parameters });
            };
            let claim = format!("@queue = N'{name}', @worker_id = '{worker}'");
            add("claim", String::new(), format!("{claim}, @max = 500"));
            let alone = format!(
                "UPDATE TOP (1) [$(schema)].[jobs] SET alone = 1 WHERE state = 0 \
                 AND queue_id = (SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'{name}');"
            );
            add("claim", alone, format!("{claim}, @max = 500, @alone = 1"));
            add("promote", String::new(), format!("@queue = N'{name}'"));
            add(
                "await_jobs",
                String::new(),
                format!("@queue = N'{name}', @least_ms = 10, @most_ms = 10, @wait_ms = 30"),
            );
            if queue.at_most_once {
                continue;
            }
            let held = format!("FROM [$(schema)].[jobs] WHERE worker_id = '{worker}' AND state = 2");
            let finished = format!(
                "DECLARE @jobs [$(schema)].[finish_list];
                 INSERT @jobs (job_id, fence, outcome, retry_ms, error)
                 SELECT job_id, fence, job_id % 3, CASE WHEN job_id % 3 = 1 THEN 1000 END, CASE WHEN job_id % 3 > 0 THEN N'failed' END {held};
                 INSERT @jobs (job_id, fence, outcome) VALUES ({INVENTED}, 1, 0);"
            );
            add("finish", finished, format!("{claim}, @jobs = @jobs"));
            let listed = |most: usize| {
                format!(
                    "DECLARE @jobs [$(schema)].[job_list];
                     INSERT @jobs (job_id, fence) SELECT TOP ({most}) job_id, fence {held};
                     INSERT @jobs (job_id, fence) VALUES ({INVENTED}, 1);"
                )
            };
            add("release", listed(HELD), format!("@worker_id = '{worker}', @jobs = @jobs"));
            add("recover", listed(KNOWN), format!("{claim}, @known = @jobs"));
            add("reap", String::new(), format!("@queue = N'{name}'"));
            if name == GROUPED {
                let queue_id = "(SELECT queue_id FROM [$(schema)].[queues] WHERE name = N'grouped')";
                let ends = format!(
                    "DECLARE @queue_id int = {queue_id};
                     INSERT [$(schema)].[group_events] (queue_id, group_key, ended)
                     SELECT TOP ({HELD}) queue_id, group_key, 1 FROM [$(schema)].[groups] WHERE queue_id = @queue_id;"
                );
                let is_left = "EXISTS (SELECT 1 FROM [$(schema)].[group_events])";
                let found = format!("SELECT CASE WHEN {is_left} THEN 0 ELSE 1 END AS found");
                add("advance_groups", ends, format!("@queue_id; {found}"));
            }
        }
        calls
    }
}

/// Enqueues `jobs` jobs of 100 bytes, a thousand at a time.
fn enqueue(queue: &str, jobs: u32) -> String {
    let in_a_batch = jobs.min(1_000);
    let batches = jobs / in_a_batch;
    let groups = if queue == GROUPED { "1" } else { "0" };
    let digits = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))";
    format!(
        "SET NOCOUNT ON;
         DECLARE @jobs [$(schema)].[enqueue_list], @details [$(schema)].[detail_list], @batch int = 0;
         INSERT @jobs (ordinal, payload, priority, delay_ms)
         SELECT n.i, CAST(REPLICATE('x', 100) AS varbinary(max)), n.i % 3, CASE WHEN n.i % 10 = 0 THEN 3600000 END
         FROM (SELECT a.i + 10 * b.i + 100 * c.i AS i
               FROM {digits} AS a (i) CROSS JOIN {digits} AS b (i) CROSS JOIN {digits} AS c (i)) AS n
         WHERE n.i < {in_a_batch};
         INSERT @details (ordinal, group_key) SELECT ordinal, CONCAT(N'k', ordinal % {GROUPS}) FROM @jobs WHERE {groups} = 1;
         WHILE @batch < {batches}
         BEGIN
             EXEC [$(schema)].[enqueue_batch] @queue = N'{queue}', @jobs = @jobs, @details = @details, @report = 0;
             SET @batch = @batch + 1;
         END;"
    )
}

/// The plan that SET STATISTICS XML puts after the rows of a statement, in a result set of its own.
fn plan(row: &Row) -> Option<String> {
    if !row.columns()[0].name().ends_with("XML Showplan") {
        return None;
    }
    match row.get_column_data(0).expect("the column is there") {
        ColumnData::Xml(Some(plan)) => Some(plan.to_string()),
        ColumnData::String(Some(plan)) => Some(plan.to_string()),
        other => panic!("not a plan: {other:?}"),
    }
}

/// Fails unless the call did something: a plan of a call that found nothing to do proves little.
fn assert_it_worked(call: &Call, returned: &Returned) {
    let (expected, actual) = match call.procedure {
        "claim" if call.parameters.contains("@alone") => (1, returned.rows_with("job_id")),
        // One that deletes ends with the first priority that has jobs.
        "claim" => (40, returned.rows_with("job_id").min(40)),
        // The invented job.
        "finish" | "release" => (1, returned.rows_with("job_id")),
        "recover" => (HELD - KNOWN, returned.rows_with("job_id")),
        "reap" => (HELD, returned.number("jobs_ready").unwrap_or(0) as usize),
        "promote" => (HELD, returned.number("promoted").unwrap_or(0) as usize),
        _ => (1, returned.number("found").unwrap_or(0) as usize),
    };
    assert_eq!(actual, expected, "{} {}", call.procedure, call.parameters);
}

/// Jobs of each of the eight queues: together a thousand, and a million.
const SMALL: u32 = 170;
const LARGE: u32 = 170_000;

/// On any server: without this, the plans of the next test could be those of calls that do nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_calls_whose_plans_are_judged_do_their_work() {
    let fixture = Fixture::new("plans_calls").await;
    let mut plant = Plant::build(&fixture).await;
    plant.fill(SMALL).await;
    for call in plant.calls() {
        let returned = plant.call(&call, false).await;
        assert_it_worked(&call, &returned);
    }
    let called: BTreeSet<_> = plant.calls().iter().map(|call| call.procedure).collect();
    assert_eq!(called, BTreeSet::from(HOT));
    drop(plant);
    fixture.remove().await;
}

// The plans.

/// Prints what each statement does to `jobs`, and what a job's life costs; writes the plans to `plans/` in the build's
/// folder for temporary files, to be looked at and sent.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real SQL Server: set READPAST_URL and run with --ignored"]
async fn the_plans_seek_at_every_size_of_the_table() {
    let is_set = std::env::var("READPAST_URL").is_ok_and(|url| !url.is_empty());
    assert!(is_set, "the dev server has no plans: set READPAST_URL");
    let fixture = Fixture::new("plans").await;
    let mut plant = Plant::build(&fixture).await;
    let server = plant.session.row("SELECT @@VERSION AS version").await;
    println!("{}", text(&server, "version").unwrap_or_default().lines().next().unwrap_or_default());

    let mut wrong = Vec::new();
    plant.fill(SMALL).await;
    plant.forget_plans().await;
    wrong.extend(plant.judge("1,000 jobs").await);
    plant.fill(0).await;
    plant.forget_plans().await;
    wrong.extend(plant.judge("0 jobs").await);
    // Without forgetting: a plan that was compiled on an empty table must do for a million rows, and must not be
    // compiled anew for them.
    plant.fill(LARGE).await;
    wrong.extend(plant.judge("1,000,000 jobs, plans of 0 jobs").await);
    plant.forget_plans().await;
    wrong.extend(plant.judge("1,000,000 jobs").await);
    for row in plant.session.sql(STATISTICS_OF_THE_OPTIMIZER).await {
        wrong.push(format!("statistics of the optimizer's own: {}", text(&row, "name").unwrap_or_default()));
    }
    assert!(wrong.is_empty(), "{} findings:\n{}", wrong.len(), wrong.join("\n"));
    drop(plant);
    fixture.remove().await;
}

impl Plant {
    /// Lets the next call of each procedure compile it anew.
    async fn forget_plans(&mut self) {
        for procedure in HOT.into_iter().chain(["claim_limited"]) {
            self.session.sql(&format!("EXEC sys.sp_recompile @objname = N'[$(schema)].[{procedure}]'")).await;
        }
    }

    /// The findings of all calls.
    async fn judge(&mut self, size: &str) -> Vec<String> {
        println!("\n== {size}");
        let mut wrong = Vec::new();
        let mut seen = BTreeSet::new();
        for (n, call) in self.calls().iter().enumerate() {
            let returned = self.call(call, true).await;
            if !size.starts_with("0 ") {
                assert_it_worked(call, &returned);
            }
            println!("{} {}", call.procedure, call.parameters);
            for (statement, plan) in returned.plans.iter().enumerate() {
                let file = folder(size).join(format!("{n:02}-{}-{statement:02}.sqlplan", call.procedure));
                std::fs::write(&file, plan).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                for judged in [judged(plan, "jobs"), judged(plan, "claim_places")].into_iter().flatten() {
                    seen.insert(call.procedure);
                    println!("    {}", judged.text);
                    println!("        {}", judged.operators.join("; "));
                    let found = judged.findings.into_iter();
                    wrong.extend(found.map(|each| format!("{size}: {each}, in {}", file.display())));
                }
            }
        }
        let silent: Vec<_> = HOT.iter().filter(|procedure| !seen.contains(*procedure)).collect();
        assert!(silent.is_empty(), "no plan of these touches jobs: {silent:?}");
        for procedure in HOT {
            let compiled = self.session.sql(&COMPILED_AGAIN.replace("$(procedure)", procedure)).await;
            let times: Vec<_> = compiled.iter().map(|row| number(row, "times").to_string()).collect();
            println!("{procedure}: compiled again, of each statement: {}", times.join(" "));
        }
        self.print_cost_of_a_life().await;
        wrong
    }

    /// Enqueues, claims and finishes 500 jobs in one transaction, which is undone.
    async fn print_cost_of_a_life(&mut self) {
        const JOBS: u32 = 500;
        let TestedQueue { name, worker, .. } = self.queues[0];
        let claimed = format!("FROM [$(schema)].[jobs] WHERE worker_id = '{worker}' AND state = 2");
        let finish = format!(
            "DECLARE @jobs [$(schema)].[finish_list];
             INSERT @jobs (job_id, fence, outcome) SELECT TOP ({JOBS}) job_id, fence, 0 {claimed};
             EXEC [$(schema)].[finish] @queue = N'{name}', @worker_id = '{worker}', @jobs = @jobs;"
        );
        let claim = format!("EXEC [$(schema)].[claim] @queue = N'{name}', @worker_id = '{worker}', @max = {JOBS};");
        let steps = [("enqueue_batch", enqueue(name, JOBS)), ("claim", claim), ("finish", finish)];
        self.session.sql("BEGIN TRANSACTION").await;
        let mut before = (0, 0);
        let mut jobs = i64::from(JOBS);
        for (procedure, step) in steps {
            let results = self.session.try_sql(&step).await.unwrap_or_else(|error| panic!("{error}\nin {step}"));
            if procedure == "claim" {
                // On the empty table there are only those that were enqueued just now, and some of them wait for their
                // time.
                jobs = results.iter().flatten().filter(|row| has_column(row, "job_id")).count() as i64;
            }
            let log = self.session.row(LOG_OF_THIS_TRANSACTION).await;
            let after = (number(&log, "records"), number(&log, "bytes"));
            let reads = self.session.sql(&LOGICAL_READS.replace("$(procedure)", procedure)).await;
            let reads = reads.first().map_or(0, |row| number(row, "reads"));
            let each = |total: i64| total as f64 / jobs as f64;
            let (records, bytes, reads) = (each(after.0 - before.0), each(after.1 - before.1), each(reads));
            println!(
                "a job's {procedure:<13} {records:6.2} log records, {bytes:7.0} bytes of log, {reads:6.2} logical reads"
            );
            before = after;
        }
        self.session.sql("ROLLBACK TRANSACTION").await;
    }
}

/// sys.dm_tran_database_transactions: what the open transaction has written to the log of this database so far.
const LOG_OF_THIS_TRANSACTION: &str = "
    SELECT d.database_transaction_log_record_count AS records, d.database_transaction_log_bytes_used AS bytes
    FROM sys.dm_tran_database_transactions AS d
    INNER JOIN sys.dm_tran_current_transaction AS c ON c.transaction_id = d.transaction_id
    WHERE d.database_id = DB_ID()";

/// sys.dm_exec_procedure_stats: of the last call. Unlike the counters of a plan's operators this has what the changes
/// of rows and indexes read, too.
const LOGICAL_READS: &str = "
    SELECT last_logical_reads AS reads FROM sys.dm_exec_procedure_stats
    WHERE database_id = DB_ID() AND object_id = OBJECT_ID(N'[$(schema)].[$(procedure)]')";

/// sys.dm_exec_query_stats: how often each statement of a procedure was recompiled since the procedure's plan was
/// forgotten.
const COMPILED_AGAIN: &str = "
    SELECT s.plan_generation_num - 1 AS times
    FROM sys.dm_exec_query_stats AS s CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS t
    WHERE t.dbid = DB_ID() AND t.objectid = OBJECT_ID(N'[$(schema)].[$(procedure)]')
    ORDER BY s.statement_start_offset";

/// They are updated while a statement waits for its plan.
const STATISTICS_OF_THE_OPTIMIZER: &str = "
    SELECT CONCAT(s.name, N' on ', c.name) AS name
    FROM sys.stats AS s
    INNER JOIN sys.stats_columns AS k ON k.object_id = s.object_id AND k.stats_id = s.stats_id
    INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
    WHERE s.object_id = OBJECT_ID(N'[$(schema)].[jobs]') AND s.auto_created = 1";

fn folder(size: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plans").join(size.replace([' ', ','], "_"));
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder
}

/// What operators and installations call: each has its time. Everything else is called all the time, by workers,
/// producers and the autoscaler.
const CALLED_BY_PEOPLE: [&str; 3] = ["create_queue", "stats", "list_"];

/// Whether a procedure is called all the time: the numbers below 410 are the workers', the producers' and the pollers'.
fn is_hot(script: &str) -> bool {
    let number: u32 = script[..3].parse().unwrap();
    let by_people = CALLED_BY_PEOPLE.iter().any(|name| script[4..].starts_with(name));
    (200..410).contains(&number) && !by_people || script.contains("note_requeued") || script.contains("outcomes")
}

/// The statements of a script that look for something in a table, without comments. (A semicolon ends each of ours.)
fn searches_of(table: &str, script: &str) -> Vec<String> {
    let table = format!("].[{table}]");
    let code: Vec<&str> = script.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let statements = code.split(';').map(str::to_owned);
    statements.filter(|text| text.contains(&table) && (text.contains("WHERE") || text.contains("JOIN"))).collect()
}

// "KEEPFIXED PLAN: Forces the Query Optimizer not to recompile a query due to changes in statistics": "Query hints"
// (MicrosoftDocs/sql-docs, docs/t-sql/queries/hints-transact-sql-query.md). An OPTION clause belongs to a statement, so
// that the condition of an IF can have none.
#[test]
fn every_search_of_jobs_and_of_claims_that_runs_all_the_time_keeps_its_plan() {
    let scripts = numbered();
    let hot: Vec<_> = scripts.iter().filter(|(name, _)| is_hot(name)).collect();
    assert!(hot.len() > 40, "{}", hot.len());
    let mut searches = 0;
    for (name, script) in hot {
        for statement in [searches_of("jobs", script), searches_of("claim_places", script)].concat() {
            searches += 1;
            assert!(statement.contains("KEEPFIXED PLAN"), "{name}: {statement}");
        }
    }
    assert!(searches > 60, "{searches}");
}

// "These single-column statistics are created on columns that do not already have a histogram in an existing statistics
// object. […] It applies strictly to single-column statistics for the full table": "Statistics"
// (MicrosoftDocs/sql-docs, docs/relational-databases/statistics/statistics.md). A histogram is of the first column; a
// filtered index has none of the whole table.
#[tokio::test(flavor = "multi_thread")]
async fn the_optimizer_needs_no_statistics_of_its_own_on_any_column_that_a_script_compares() {
    let fixture = Fixture::new("statistics").await;
    let mut session = fixture.session().await;
    let histograms = "SELECT c.name, s.no_recompute FROM sys.stats AS s
        INNER JOIN sys.stats_columns AS k ON k.object_id = s.object_id AND k.stats_id = s.stats_id AND k.stats_column_id = 1
        INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
        WHERE s.object_id = OBJECT_ID(N'[$(schema)].[jobs]') AND s.has_filter = 0 AND s.auto_created = 0";
    let mut with_histogram = BTreeSet::new();
    for row in session.sql(histograms).await {
        let name = text(&row, "name").unwrap();
        assert_eq!(number(&row, "no_recompute"), 1, "{name}: updated by itself");
        with_histogram.insert(name);
    }
    let columns = "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'[$(schema)].[jobs]')";
    let mut compared = 0;
    let names = session.sql(columns).await.iter().map(|row| text(row, "name").unwrap()).collect::<Vec<_>>();
    // Those two cannot be an index's key, which is what statistics can be made of; only their lengths are compared.
    for column in names.into_iter().filter(|name| name != "payload" && name != "output") {
        let mut scripts = numbered();
        scripts.retain(|(_, script)| script.contains("CREATE OR ALTER PROCEDURE"));
        let comparing =
            scripts.iter().find(|(_, script)| searches_of("jobs", script).iter().any(|text| compares(text, &column)));
        if let Some((script, _)) = comparing {
            compared += 1;
            assert!(with_histogram.contains(&column), "{column} is compared in {script}");
        }
    }
    assert!(compared > 10, "{compared}");
    fixture.remove().await;
}

/// Whether one of a statement's conditions compares the column with something, or it sorts or groups by it.
fn compares(statement: &str, column: &str) -> bool {
    let words = statement.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '@')));
    let mut in_condition = false;
    words.filter(|word| !word.is_empty()).any(|word| {
        match word {
            "WHERE" | "ON" | "BY" => in_condition = true,
            "SELECT" | "SET" | "OUTPUT" | "INSERT" | "UPDATE" | "DELETE" | "OPTION" | "FROM" | "WITH" => {
                in_condition = false
            }
            _ => {}
        }
        in_condition && word == column
    })
}
