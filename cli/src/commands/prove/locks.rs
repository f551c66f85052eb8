//! Pairs of procedures that must not wait for each other: one session holds its locks in an open transaction, and the
//! other makes its call.

use anyhow::{Result, bail};
use readpast::crates::uuid::Uuid;
use readpast::{Error, Queue};

use super::report::Report;
use super::server::Server;

/// The jobs `FIRST`, `SECOND` and `THIRD` are held by `WORKER`; others are ready, due, or held by a lost worker.
const HOLDERS: [(&str, &str); 7] =
    [ENQUEUE, ENQUEUE_BATCH, CLAIM, ("finish", FINISH_FIRST), ("release", RELEASE), PROMOTE, REAP];
const CALLERS: [(&str, &str); 11] = [
    ENQUEUE,
    ENQUEUE_BATCH,
    CLAIM,
    ("finish of another job", FINISH_SECOND),
    PROMOTE,
    REAP,
    ("heartbeat", "EXEC [$(schema)].[heartbeat] @worker_id = 'WORKER', @running = 1, @done = 1, @failed = 0"),
    ("await_jobs", "EXEC [$(schema)].[await_jobs] @queue = N'locks', @least_ms = 10, @most_ms = 10, @wait_ms = 10"),
    ("peek", "EXEC [$(schema)].[peek] @queue = N'locks', @state = 'ready'"),
    ("stats", "EXEC [$(schema)].[stats]"),
    ("backlog", "EXEC [$(schema)].[backlog] @queue = N'locks'"),
];

const ENQUEUE: (&str, &str) = ("enqueue", "EXEC [$(schema)].[enqueue] @queue = N'locks', @text = N'x'");
const ENQUEUE_BATCH: (&str, &str) = (
    "enqueue_batch",
    "DECLARE @jobs [$(schema)].[enqueue_list]; INSERT @jobs (ordinal, text) VALUES (1, N'x'), (2, N'y');
     EXEC [$(schema)].[enqueue_batch] @queue = N'locks', @jobs = @jobs",
);
const CLAIM: (&str, &str) = ("claim", "EXEC [$(schema)].[claim] @queue = N'locks', @worker_id = 'WORKER', @max = 2");
const PROMOTE: (&str, &str) = ("promote", "EXEC [$(schema)].[promote] @queue = N'locks'");
const REAP: (&str, &str) = ("reap", "EXEC [$(schema)].[reap] @queue = N'locks'");
const FINISH_FIRST: &str =
    "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES (FIRST, 1, 0);
     EXEC [$(schema)].[finish] @queue = N'locks', @worker_id = 'WORKER', @jobs = @jobs";
const FINISH_SECOND: &str =
    "DECLARE @jobs [$(schema)].[finish_list]; INSERT @jobs (job_id, fence, outcome) VALUES (SECOND, 1, 0);
     EXEC [$(schema)].[finish] @queue = N'locks', @worker_id = 'WORKER', @jobs = @jobs";
const RELEASE: &str = "DECLARE @jobs [$(schema)].[job_list]; INSERT @jobs VALUES (THIRD, 1);
     EXEC [$(schema)].[release] @worker_id = 'WORKER', @jobs = @jobs";

/// SQL Server's error if a lock could not be had in time.
const LOCK_TIMEOUT: i32 = 1222;

/// Longer than any wait that is not for the other session, which never ends.
const WAIT_MS: u32 = 1_000;

pub async fn check(queue: &Queue, report: &mut Report) -> Result<()> {
    let (mut first, mut second) = (Server::new(queue).await?, Server::new(queue).await?);
    let (worker, jobs) = prepare(&mut first).await?;
    let call = |sql: &str| {
        let sql = sql.replace("WORKER", &worker).replace("FIRST", &jobs[0].to_string());
        sql.replace("SECOND", &jobs[1].to_string()).replace("THIRD", &jobs[2].to_string())
    };
    let mut findings = Vec::new();
    for (holder, holds) in HOLDERS {
        for (caller, calls) in CALLERS {
            first.run("BEGIN TRANSACTION").await?;
            first.run(&call(holds)).await?;
            let calls = format!("SET LOCK_TIMEOUT {WAIT_MS}; BEGIN TRANSACTION; {}; ROLLBACK TRANSACTION", call(calls));
            match second.run(&calls).await {
                Ok(_) => {}
                Err(Error::Sql { number, .. }) if number == LOCK_TIMEOUT => {
                    findings.push(format!("{caller} waits for {holder}"));
                }
                Err(error) => return Err(anyhow::Error::new(error).context(format!("{caller} beside {holder}"))),
            }
            first.run("ROLLBACK TRANSACTION").await?;
        }
    }
    let pairs = format!("{} pairs", HOLDERS.len() * CALLERS.len());
    report.promise("procedures on different jobs do not wait for each other", &findings, pairs);
    Ok(())
}

/// Returns the worker, and the three jobs it holds.
async fn prepare(session: &mut Server) -> Result<(String, Vec<i64>)> {
    session.run("EXEC [$(schema)].[create_queue] @queue = N'locks'").await?;
    for _ in 0..20 {
        session.run(ENQUEUE.1).await?;
    }
    session.run("EXEC [$(schema)].[enqueue] @queue = N'locks', @text = N'x', @delay_ms = 1").await?;
    let [worker, lost] = [Uuid::new_v4(), Uuid::new_v4()].map(|id| id.to_string());
    let mut held = Vec::new();
    for id in [&lost, &worker] {
        let of = format!("@queue = N'locks', @worker_id = '{id}'");
        session
            .run(&format!("EXEC [$(schema)].[register_worker] {of}, @name = N'locks', @lease_ms = 86400000"))
            .await?;
        session.run(&format!("EXEC [$(schema)].[claim] {of}, @max = 3")).await?;
        let jobs = format!("SELECT job_id FROM [$(schema)].[jobs] WHERE worker_id = '{id}' ORDER BY job_id");
        let jobs = session.rows(&jobs).await?;
        held = jobs.into_iter().map(|mut row| row.required("job_id")).collect::<Result<Vec<i64>, Error>>()?;
    }
    if held.len() < 3 {
        bail!("the worker was given {} jobs and not 3", held.len());
    }
    let mark = "UPDATE [$(schema)].[workers] SET lost_at = SYSUTCDATETIME() WHERE worker_id =";
    session.run(&format!("{mark} '{lost}'")).await?;
    Ok((worker, held))
}
