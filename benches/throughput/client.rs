//! The driver itself, without the library: what somebody would write by hand with tiberius. The measures that compare
//! use it.

use readpast::crates::tiberius::{self, Command, CommandResult, IntoSql, SqlTableDataRow, TableValueRow};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};
use uuid::Uuid;

/// The packet size that the library asks for.
const PACKET_SIZE: u32 = 16_000;

pub struct Client {
    driver: tiberius::Client<Compat<TcpStream>>,
}

/// What a claim brings: enough to run a job and to acknowledge it.
#[allow(dead_code)] // nobody reads the payload, but a claim that did not decode it would be no match
pub struct RawJob {
    pub job_id: i64,
    pub fence: i32,
    pub payload: Vec<u8>,
}

/// One row of `finish_list`, for a job that is done.
struct DoneRow {
    job_id: i64,
    fence: i32,
}

impl<'a> TableValueRow<'a> for DoneRow {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.job_id);
        row.add_field(self.fence);
        row.add_field(0_u8);
        row.add_field(None::<i64>);
        row.add_field(None::<i64>);
        row.add_field(None::<std::borrow::Cow<'a, str>>);
        row.add_field(None::<&'a [u8]>);
    }

    fn get_db_type() -> &'static str {
        "finish_list"
    }
}

impl Client {
    pub async fn connect(url: &str) -> Client {
        let mut config = tiberius::Config::from_ado_string(url).expect("the connection string is right");
        config.packet_size(PACKET_SIZE);
        let stream = TcpStream::connect(config.get_addr()).await.expect("the server listens");
        stream.set_nodelay(true).expect("a socket option");
        let driver = tiberius::Client::connect(config, stream.compat_write()).await.expect("the login is right");
        Client { driver }
    }

    /// Runs a batch without parameters and returns the rows of its last result.
    pub async fn sql(&mut self, sql: &str) -> Vec<tiberius::Row> {
        self.try_sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// As [`sql`](Self::sql), where an error is an answer too.
    pub async fn try_sql(&mut self, sql: &str) -> tiberius::Result<Vec<tiberius::Row>> {
        let results = self.driver.simple_query(sql).await?.into_results().await?;
        Ok(results.into_iter().last().unwrap_or_default())
    }

    /// Runs a statement with parameters `@P1`, … and returns its rows.
    pub async fn query(&mut self, sql: &str, parameters: &[&dyn tiberius::ToSql]) -> Vec<tiberius::Row> {
        let rows = self.driver.query(sql, parameters).await.expect("the statement runs");
        rows.into_first_result().await.expect("the statement runs")
    }

    async fn call(&mut self, command: Command<'_>) -> CommandResult {
        let answer = command.exec(&mut self.driver).await.expect("the procedure runs");
        answer.into_command_result().await.expect("the procedure runs")
    }

    pub async fn register_worker(&mut self, queue: &str) -> Uuid {
        self.register_worker_in("readpast_bench", queue).await
    }

    /// The same in another schema.
    pub async fn register_worker_in(&mut self, schema: &str, queue: &str) -> Uuid {
        let worker_id = Uuid::new_v4();
        let mut command = Command::new(format!("[{schema}].[register_worker]"));
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker_id);
        command.bind_param("@name", "bench");
        command.bind_param("@lease_ms", 3_600_000_i32);
        self.call(command).await;
        worker_id
    }

    pub async fn claim(&mut self, queue: &str, worker_id: Uuid, max: i32) -> Vec<RawJob> {
        self.claim_in("readpast_bench", queue, worker_id, max).await
    }

    /// The same in another schema.
    pub async fn claim_in(&mut self, schema: &str, queue: &str, worker_id: Uuid, max: i32) -> Vec<RawJob> {
        let mut command = Command::new(format!("[{schema}].[claim]"));
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker_id);
        command.bind_param("@max", max);
        // A result set for each priority.
        let results = self.call(command).await;
        results
            .into_iter()
            .flatten()
            .map(|row| {
                let mut columns = row.into_iter();
                let job_id = take(columns.next());
                let fence = take(columns.next());
                let payload = take(columns.nth(7));
                RawJob { job_id, fence, payload }
            })
            .collect()
    }

    pub async fn finish(&mut self, queue: &str, worker_id: Uuid, jobs: &[RawJob]) {
        self.finish_in("readpast_bench", queue, worker_id, jobs).await;
    }

    /// The same in another schema.
    pub async fn finish_in(&mut self, schema: &str, queue: &str, worker_id: Uuid, jobs: &[RawJob]) {
        let mut rows: Vec<DoneRow> = jobs.iter().map(|job| DoneRow { job_id: job.job_id, fence: job.fence }).collect();
        rows.sort_unstable_by_key(|row| row.job_id);
        let list = format!("{schema}.finish_list");
        let mut command = Command::new(format!("[{schema}].[finish]"));
        command.bind_param("@queue", queue);
        command.bind_param("@worker_id", worker_id);
        command.bind_table_with_dbtype("@jobs", &list, rows);
        let not_ours = self.call(command).await.into_iter().last().unwrap_or_default();
        assert!(not_ours.is_empty(), "every job was this worker's");
    }

    /// Enqueues one job by the procedure for one job, as a producer in another process would.
    pub async fn enqueue(&mut self, queue: &str, payload: &[u8]) {
        let mut command = Command::new("[readpast_bench].[enqueue]");
        command.bind_param("@queue", queue);
        command.bind_param("@payload", payload.into_sql());
        self.call(command).await;
    }
}

fn take<T: tiberius::FromSqlOwned>(column: Option<tiberius::ColumnData<'static>>) -> T {
    T::from_sql_owned(column.expect("the claim has this column")).expect("of this type").expect("and not NULL")
}
