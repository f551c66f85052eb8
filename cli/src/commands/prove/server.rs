//! What SQL Server tells about itself: its version and settings, waits, logical reads, plans and deadlocks.
//!
//! A view that is missing, or that the login may not read, is an error here; the report says so and goes on.

use std::collections::HashMap;

use readpast::admin::adopt_seam::{AdoptSeam, SeamRow};
use readpast::{Error, Queue};
use serde_json::{Value, json};

use super::report::Report;

/// The reason why something is not available: the first line of the error.
pub fn reason(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// A session for T-SQL, and the schema it works in.
pub struct Server {
    seam: AdoptSeam,
    schema: String,
}

/// Properties of the server.
const PROPERTIES: [(&str, &str); 3] =
    [("version", "ProductVersion"), ("edition", "Edition"), ("engine edition", "EngineEdition")];

/// Columns of sys.databases. One query each, because a version knows some and not others.
const SETTINGS: [(&str, &str); 8] = [
    ("compatibility level", "compatibility_level"),
    ("collation", "collation_name"),
    ("READ_COMMITTED_SNAPSHOT", "is_read_committed_snapshot_on"),
    ("ALLOW_SNAPSHOT_ISOLATION", "snapshot_isolation_state"),
    ("ACCELERATED_DATABASE_RECOVERY", "is_accelerated_database_recovery_on"),
    ("OPTIMIZED_LOCKING", "is_optimized_locking_on"),
    ("recovery model", "recovery_model_desc"),
    ("delayed durability", "delayed_durability_desc"),
];

/// Names of this server and login, which must not be in the report.
const SECRETS: [&str; 5] = [
    "@@SERVERNAME",
    "CAST(SERVERPROPERTY(N'MachineName') AS nvarchar(200))",
    "HOST_NAME()",
    "ORIGINAL_LOGIN()",
    "SUSER_SNAME()",
];

/// The waits that say something about a queue: locks, latches, the log, memory, threads.
const WAITS: &str =
    "SELECT CAST(wait_type AS nvarchar(120)), CAST(waiting_tasks_count AS bigint), CAST(wait_time_ms AS bigint)
    FROM sys.dm_os_wait_stats
    WHERE wait_time_ms > 0 AND (wait_type LIKE N'LCK%' OR wait_type LIKE N'PAGE%LATCH%' OR wait_type LIKE N'LATCH%'
        OR wait_type LIKE N'RESOURCE_SEMAPHORE%' OR wait_type LIKE N'HADR_SYNC%'
        OR wait_type IN (N'WRITELOG', N'LOGBUFFER', N'THREADPOOL', N'SOS_SCHEDULER_YIELD', N'ASYNC_NETWORK_IO'))";

pub type Waits = HashMap<String, (i64, i64)>;

/// The logical reads of all calls of a procedure, and of its last call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reads {
    pub total: i64,
    pub last: i64,
}

const READS: &str =
    "SELECT CAST(OBJECT_NAME(s.object_id) AS nvarchar(200)), SUM(s.total_logical_reads), MAX(s.last_logical_reads)
    FROM sys.dm_exec_procedure_stats AS s
    WHERE s.database_id = DB_ID() AND OBJECT_SCHEMA_NAME(s.object_id) = N'$(schema)'
    GROUP BY s.object_id";

/// Scans of the large tables, and warnings, in the cached plans of a list of procedures. A conversion that only affects
/// an estimate is no finding, because hints fix the plans.
const PLANS: &str = "
    WITH XMLNAMESPACES (DEFAULT 'http://schemas.microsoft.com/sqlserver/2004/07/showplan'),
    plans AS (SELECT OBJECT_NAME(s.object_id) COLLATE DATABASE_DEFAULT AS name, p.query_plan
              FROM sys.dm_exec_procedure_stats AS s CROSS APPLY sys.dm_exec_query_plan(s.plan_handle) AS p
              WHERE s.database_id = DB_ID() AND OBJECT_SCHEMA_NAME(s.object_id) = N'$(schema)'
                  AND OBJECT_NAME(s.object_id) IN ($(procedures)))
    SELECT N'plans', CAST(COUNT(CASE WHEN query_plan IS NOT NULL THEN 1 END) AS nvarchar(200)) FROM plans
    UNION ALL
    SELECT name, CONCAT(n.x.value('@PhysicalOp', 'nvarchar(60)'), N' on ',
                        n.x.value('(./*/Object/@Table)[1]', 'nvarchar(130)'),
                        N' ', n.x.value('(./*/Object/@Index)[1]', 'nvarchar(130)'))
    FROM plans CROSS APPLY query_plan.nodes('//RelOp[contains(@PhysicalOp, \"Scan\")]') AS n (x)
    WHERE n.x.value('(./*/Object/@Table)[1]', 'nvarchar(130)') IN (N'[jobs]', N'[archive]', N'[attempts]')
    UNION ALL
    SELECT name, CONCAT(N'a warning: ', n.x.value('local-name(.)', 'nvarchar(60)'))
    FROM plans CROSS APPLY query_plan.nodes('//Warnings/*') AS n (x)
    WHERE CONCAT(n.x.value('local-name(.)', 'nvarchar(60)'), N' ', n.x.value('@ConvertIssue', 'nvarchar(60)'))
        <> N'PlanAffectingConvert Cardinality Estimate'
    UNION ALL
    SELECT name, N'a warning: no join predicate'
    FROM plans CROSS APPLY query_plan.nodes('//Warnings[@NoJoinPredicate = \"1\" or @NoJoinPredicate = \"true\"]') AS n (x)
    UNION ALL
    SELECT name, N'a missing index' FROM plans CROSS APPLY query_plan.nodes('//MissingIndex') AS n (x)";

/// How often statements of each procedure were compiled again.
const RECOMPILES: &str = "SELECT CAST(OBJECT_NAME(t.objectid, t.dbid) AS nvarchar(200)), SUM(s.plan_generation_num - 1)
    FROM sys.dm_exec_query_stats AS s CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) AS t
    WHERE t.dbid = DB_ID() AND OBJECT_SCHEMA_NAME(t.objectid, t.dbid) = N'$(schema)'
    GROUP BY t.objectid, t.dbid HAVING SUM(s.plan_generation_num - 1) > 0";

/// Deadlocks in which this schema took part. Its name is random, so the text of the graph tells.
const DEADLOCKS: &str = "
    WITH target AS (SELECT CAST(t.target_data AS xml) AS events
                    FROM sys.dm_xe_session_targets AS t
                    INNER JOIN sys.dm_xe_sessions AS s ON s.address = t.event_session_address
                    WHERE s.name = N'system_health' AND t.target_name = N'ring_buffer'),
    graphs AS (SELECT CAST(n.x.query('(data/value/deadlock)[1]') AS nvarchar(max)) AS graph
               FROM target CROSS APPLY events.nodes('/RingBufferTarget/event[@name=\"xml_deadlock_report\"]') AS n (x))
    SELECT TOP (5) LEFT(graph, 50000) FROM graphs WHERE graph LIKE N'%$(schema)%'";

impl Server {
    pub async fn new(queue: &Queue) -> Result<Server, Error> {
        Ok(Server { seam: queue.admin().seam().await?, schema: queue.schema().to_owned() })
    }

    /// Runs T-SQL with `$(schema)` replaced.
    pub async fn run(&mut self, sql: &str) -> Result<Vec<Vec<SeamRow>>, Error> {
        self.seam.query("prove", &sql.replace("$(schema)", &self.schema)).await
    }

    /// The rows of the last result.
    pub async fn rows(&mut self, sql: &str) -> Result<Vec<SeamRow>, Error> {
        Ok(self.run(sql).await?.pop().unwrap_or_default())
    }

    async fn value(&mut self, of: &str) -> Result<Option<String>, Error> {
        match self.rows(&format!("SELECT {of}")).await?.pop() {
            Some(mut row) => row.optional::<String>("value"),
            None => Ok(None),
        }
    }

    /// Whether the login may install: it must be a db_owner.
    pub async fn may_install(&mut self) -> Result<bool, Error> {
        let sql = "SELECT ISNULL(HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', N'CONTROL'), 0)";
        let mut row = self.rows(sql).await?.pop();
        Ok(row.as_mut().is_some_and(|row| row.required::<i32>("may").is_ok_and(|may| may == 1)))
    }

    pub async fn describe(&mut self, report: &mut Report) {
        for name in SECRETS {
            if let Ok(Some(secret)) = self.value(name).await {
                report.hide(&secret);
            }
        }
        let property = |name: &str| format!("CAST(SERVERPROPERTY(N'{name}') AS nvarchar(200))");
        let setting = |column: &str| {
            format!("(SELECT CAST({column} AS nvarchar(200)) FROM sys.databases WHERE name = DB_NAME())")
        };
        let mut facts: Vec<(&str, String)> = PROPERTIES.iter().map(|(name, of)| (*name, property(of))).collect();
        facts.extend(SETTINGS.iter().map(|(name, of)| (*name, setting(of))));
        let mut rows = Vec::new();
        for (name, of) in facts {
            let value = match self.value(&of).await {
                Ok(value) => json!(value),
                Err(error) => json!(format!("not available here: {}", reason(&error))),
            };
            rows.push(vec![json!(name), value]);
        }
        report.section("Server and database", "", &["setting", "value"], rows);
    }

    pub async fn waits(&mut self) -> Result<Waits, Error> {
        let rows = self.rows(WAITS).await?;
        rows.into_iter()
            .map(|mut row| Ok((row.required("wait_type")?, (row.required("tasks")?, row.required("ms")?))))
            .collect()
    }

    pub async fn reads(&mut self) -> Result<HashMap<String, Reads>, Error> {
        let rows = self.rows(READS).await?;
        let read = |mut row: SeamRow| {
            let name = row.required("name")?;
            Ok((name, Reads { total: row.required("reads")?, last: row.required("last")? }))
        };
        rows.into_iter().map(read).collect()
    }

    /// The number of plans that could be read, and what is wrong with them.
    pub async fn plan_findings(&mut self, procedures: &[&str]) -> Result<(u64, Vec<String>), Error> {
        let names: Vec<String> = procedures.iter().map(|name| format!("N'{name}'")).collect();
        let (mut plans, mut findings) = (0, Vec::new());
        for mut row in self.rows(&PLANS.replace("$(procedures)", &names.join(", "))).await? {
            let (name, text): (String, String) = (row.required("name")?, row.required("finding")?);
            match name.as_str() {
                "plans" => plans = text.parse().unwrap_or_default(),
                _ => findings.push(format!("{name}: {text}")),
            }
        }
        findings.sort();
        findings.dedup();
        Ok((plans, findings))
    }

    pub async fn report_recompiles(&mut self, report: &mut Report) {
        let title = "Recompiled statements";
        match self.rows(RECOMPILES).await {
            Ok(rows) => {
                let cells = |mut row: SeamRow| -> Result<Vec<Value>, Error> {
                    Ok(vec![json!(row.required::<String>("name")?), json!(row.required::<i64>("times")?)])
                };
                let rows = rows.into_iter().filter_map(|row| cells(row).ok()).collect();
                report.section(title, "few, and not more with more calls", &["procedure", "times"], rows);
            }
            Err(error) => report.not_available(title, &reason(&error)),
        }
    }

    pub async fn report_waits(&mut self, report: &mut Report, title: &'static str, before: &Result<Waits, Error>) {
        let (before, after) = match (before, self.waits().await) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(error), _) => return report.not_available(title, &reason(error)),
            (_, Err(error)) => return report.not_available(title, &reason(&error)),
        };
        let mut grown: Vec<(i64, i64, String)> = after
            .into_iter()
            .map(|(name, (tasks, ms))| {
                let (tasks_before, ms_before) = before.get(&name).copied().unwrap_or_default();
                (ms - ms_before, tasks - tasks_before, name)
            })
            .filter(|(ms, ..)| *ms > 0)
            .collect();
        grown.sort_by(|a, b| b.cmp(a));
        let rows = grown.into_iter().take(12).map(|(ms, tasks, name)| vec![json!(name), json!(tasks), json!(ms)]);
        report.section(
            title,
            "mostly WRITELOG; the whole server is counted",
            &["wait type", "waits", "ms"],
            rows.collect(),
        );
    }

    pub async fn report_deadlocks(&mut self, report: &mut Report) {
        let promise = "no two sessions deadlock";
        let rows = match self.rows(DEADLOCKS).await {
            Ok(rows) => rows,
            Err(error) => {
                report.promise_not_available(promise, &reason(&error));
                return report.not_available("Deadlocks", &reason(&error));
            }
        };
        let graphs: Vec<String> = rows.into_iter().filter_map(|mut row| row.required("graph").ok()).collect();
        let found: Vec<String> = graphs.iter().map(|_| "a deadlock; its graph is below".to_owned()).collect();
        report.promise(promise, &found, format!("{} in the ring buffer of system_health", graphs.len()));
        let rows = graphs.iter().map(|graph| vec![json!(without_names(graph))]).collect();
        report.section("Deadlocks", "none", &["graph"], rows);
    }
}

/// A deadlock's graph without the attributes that name machines, people and databases.
fn without_names(graph: &str) -> String {
    let mut text = graph.to_owned();
    for name in ["hostname", "loginname", "clientapp", "hostpid", "currentdbname"] {
        let begin = format!(" {name}=\"");
        while let Some(at) = text.find(&begin) {
            let value = at + begin.len();
            let end = text[value..].find('"').map_or(text.len(), |length| value + length + 1);
            text.replace_range(at..end, "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_deadlock_s_graph_names_nobody() {
        let graph =
            r#"<process id="p1" hostname="db1" loginname="CORP\anne" waits="KEY: 5:1"><x clientapp="a"/></process>"#;
        let clean = super::without_names(graph);
        assert_eq!(clean, r#"<process id="p1" waits="KEY: 5:1"><x/></process>"#);
    }
}
