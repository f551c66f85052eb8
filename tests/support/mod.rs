//! What every test stands on: one server for the whole program (`server.rs`) and, for each test, a schema of its own on
//! it; on the dev server most have a database of their own.
//!
//! [`Fixture`] is a schema with a queue `work`, and the library's `Queue` on it. [`Session`] is any other program:
//! plain T-SQL over a connection of its own. [`WorkerSession`] is a worker in any other language: the worker's
//! procedures by RPC. A test that fails leaves its schema behind, to be looked at.

pub mod blocked;
pub mod child;
pub mod counted;
pub mod http;
pub mod panicking_recorder;
pub mod proxy;
pub mod scripts;
mod server;
pub mod shipped;
pub mod tampered;
pub mod under_faults;

use std::time::{Duration, Instant};

use readpast::admin::QueueOptions;
use readpast::{Config, Error, NewJob, Queue};
use readpast_devserver::DevServer;
use tiberius::{AuthMethod, ColumnData, Command, CommandResult, QueryIdx, Row, SqlTableDataRow, TableValueRow};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};
use uuid::Uuid;

pub use server::{dev_server, server_url};
use server::{real_server_url, unique};

pub type Client = tiberius::Client<Compat<TcpStream>>;

/// Removes a schema with everything in it.
const UNINSTALL: &str = include_str!("../../sql/uninstall.sql");

/// A database or a login cannot be dropped, because it is in use.
const IN_USE: [u32; 2] = [3702, 15434];

/// Waits until `condition` holds, looking again and again; fails the test after half a minute.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < give_up, "waited for this in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Jobs whose payloads are 0, 1, 2, … as JSON.
pub fn numbers(count: u32) -> Vec<NewJob> {
    (0..count).map(|number| NewJob::json(&number).unwrap()).collect()
}

/// Settings with a change. Outside of the crate they have no literals, because a field may come.
pub fn changed<T>(mut settings: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut settings);
    settings
}

/// `text` as a literal of T-SQL.
pub fn literal(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

/// A schema of its own.
pub struct Fixture {
    pub config: Config,
    pub queue: Queue,
    /// That of the test's database, whatever a test does to `config`.
    url: String,
    own_database: Option<String>,
    /// The database is a copy on the dev server, and is dropped there, whoever is still connected to it.
    is_copy: bool,
}

/// A login of a test's own. Its user in the test's database has the same name.
pub struct Login {
    pub name: String,
    pub password: String,
}

/// How many rows are in each state, counted in the tables themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCounts {
    pub ready: i64,
    pub scheduled: i64,
    pub claimed: i64,
    pub done: i64,
    pub dead: i64,
    pub cancelled: i64,
    pub archived: i64,
}

impl Fixture {
    /// A schema with a queue `work`, all settings as they are by default.
    pub async fn new(test_name: &str) -> Fixture {
        Fixture::with(test_name, QueueOptions::default()).await
    }

    /// A schema with a queue `work`.
    pub async fn with(test_name: &str, options: QueueOptions) -> Fixture {
        match real_server_url() {
            Some(_) => Fixture::not_installed(test_name).await.install().await.create_queue(options).await,
            None => Fixture::on_dev_server(test_name, options).await,
        }
    }

    /// The same on the dev server whatever `READPAST_URL` is, for what only it can be made to do.
    pub async fn on_dev_server(test_name: &str, options: QueueOptions) -> Fixture {
        let name = unique(test_name);
        let url = server::installed_database(&name).await;
        let mut fixture = Fixture::connected_to(url, server::SCHEMA, Some(name)).await;
        fixture.is_copy = true;
        fixture.create_queue(options).await
    }

    /// The name of a schema in which nothing is installed yet.
    pub async fn not_installed(test_name: &str) -> Fixture {
        Fixture::connected_to(server_url().await, &unique(test_name), None).await
    }

    /// A database of its own, in which nothing is installed yet.
    pub async fn in_own_database(test_name: &str) -> Fixture {
        let name = unique(test_name);
        let url = server_url().await;
        let mut session = Session { client: connect(&url, None).await, schema: String::new() };
        session.sql(&format!("CREATE DATABASE [{name}]")).await;
        Fixture::connected_to(format!("{url};Database={name}"), &unique(test_name), Some(name)).await
    }

    /// A schema with a queue `work` on a dev server of the test's own.
    pub async fn on(server: &DevServer, test_name: &str, options: QueueOptions) -> Fixture {
        let fixture = Fixture::connected_to(server.connection_string(), &unique(test_name), None).await;
        fixture.install().await.create_queue(options).await
    }

    async fn install(self) -> Fixture {
        self.queue.admin().install().await.expect("the schema is installed");
        self
    }

    async fn create_queue(self, options: QueueOptions) -> Fixture {
        self.queue.admin().create(options).await.expect("the queue is created");
        self
    }

    async fn connected_to(url: String, schema: &str, own_database: Option<String>) -> Fixture {
        let mut config = Config::default();
        config.connection.url = url.clone().into();
        config.connection.schema = schema.to_string();
        config.queue.name = "work".to_string();
        let queue = Queue::connect(&config).await.expect("the library connects");
        Fixture { config, queue, url, own_database, is_copy: false }
    }

    /// The name of one of the schema's procedures as the dev server's faults know it.
    pub fn procedure_to_fail(&self, procedure: &str) -> String {
        match &self.own_database {
            Some(database) => format!("{database}.{}.{procedure}", self.schema()),
            None => format!("{}.{procedure}", self.schema()),
        }
    }

    /// The schema's name.
    pub fn schema(&self) -> &str {
        &self.config.connection.schema
    }

    /// The connection string of the test's database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A `Queue` for `config` as it is now.
    pub async fn connect(&self) -> Queue {
        Queue::connect(&self.config).await.expect("the library connects")
    }

    /// Why there is no `Queue` for `config` as it is now.
    pub async fn connect_error(&self) -> Error {
        Queue::connect(&self.config).await.map(|_| ()).expect_err("the connection is refused")
    }

    /// A `Queue` for another login.
    pub async fn connect_as(&self, login: &Login) -> Queue {
        let mut config = self.config.clone();
        config.connection.url = self.url_as(login).into();
        Queue::connect(&config).await.expect("the library connects")
    }

    /// The connection string of the test's database for another login. The last of several equal keys counts.
    pub fn url_as(&self, login: &Login) -> String {
        format!("{};User ID={};Password={}", self.url, login.name, login.password)
    }

    /// The test's own database, where it has one.
    pub fn database(&self) -> Option<&str> {
        self.own_database.as_deref()
    }

    /// A connection of the driver's, in the test's database.
    pub async fn client(&self) -> Client {
        connect(&self.url, None).await
    }

    /// Another program's connection.
    pub async fn session(&self) -> Session {
        Session { client: self.client().await, schema: self.schema().to_string() }
    }

    /// Azure SQL Database has logins made and dropped there only.
    async fn session_in_master(&self) -> Session {
        let client = connect(&format!("{};Database=master", self.url), None).await;
        Session { client, schema: self.schema().to_string() }
    }

    /// Another program's connection under a login of its own.
    pub async fn session_as(&self, login: &Login) -> Session {
        let client = connect(&self.url, Some(login)).await;
        Session { client, schema: self.schema().to_string() }
    }

    /// Runs one batch on a connection of its own; see [`Session::sql`].
    pub async fn sql(&self, sql: &str) -> Vec<Row> {
        self.session().await.sql(sql).await
    }

    pub async fn job_counts(&self) -> JobCounts {
        let count_by_state = "SELECT state, COUNT_BIG(*) AS jobs FROM [$(schema)].[jobs] GROUP BY state \
                              UNION ALL SELECT 255, COUNT_BIG(*) FROM [$(schema)].[archive]";
        let mut counts = JobCounts::default();
        for row in self.sql(count_by_state).await {
            let jobs = number(&row, "jobs");
            match number(&row, "state") {
                0 => counts.ready = jobs,
                1 => counts.scheduled = jobs,
                2 => counts.claimed = jobs,
                3 => counts.done = jobs,
                4 => counts.dead = jobs,
                5 => counts.cancelled = jobs,
                _ => counts.archived = jobs,
            }
        }
        counts
    }

    /// Makes a login with a user in the database that is a member of the schema's role `role` (`producer`, `worker`,
    /// `operator`, `monitor`) or of none.
    pub async fn create_login(&self, role: Option<&str>) -> Login {
        let login = Login { name: unique("login"), password: format!("Pw1-{}", Uuid::new_v4()) };
        let name = &login.name;
        let create = format!("CREATE LOGIN [{name}] WITH PASSWORD = {}", literal(&login.password));
        self.session_in_master().await.sql(&create).await;
        let mut session = self.session().await;
        session.sql(&format!("CREATE USER [{name}] FOR LOGIN [{name}]")).await;
        if let Some(role) = role {
            session.sql(&format!("ALTER ROLE [$(schema)_{role}] ADD MEMBER [{name}]")).await;
        }
        login
    }

    /// Removes a login and its user.
    pub async fn drop_login(&self, login: &Login) {
        let mut session = self.session().await;
        session.sql(&format!("DROP USER [{}]", login.name)).await;
        self.session_in_master().await.drop(&format!("LOGIN [{}]", login.name)).await;
    }

    /// Removes the schema or the database. Whatever else has connected to a database that is no copy is to be dropped
    /// before.
    pub async fn remove(self) {
        let Fixture { config, queue, url, own_database, is_copy } = self;
        drop(queue);
        if let (true, Some(name)) = (is_copy, &own_database) {
            return dev_server().await.drop_database(name).expect("it is there");
        }
        let url = if own_database.is_some() { server_url().await } else { url };
        let mut session = Session { client: connect(&url, None).await, schema: config.connection.schema };
        match own_database {
            Some(name) => session.drop(&format!("DATABASE [{name}]")).await,
            None => session.script(UNINSTALL).await.expect("the schema can be removed"),
        }
    }
}

async fn connect(url: &str, login: Option<&Login>) -> Client {
    let mut config = tiberius::Config::from_ado_string(url).expect("the driver reads the connection string");
    if let Some(login) = login {
        config.authentication(AuthMethod::sql_server(&login.name, &login.password));
    }
    let socket = TcpStream::connect(config.get_addr()).await.expect("the server listens");
    socket.set_nodelay(true).expect("a TCP socket has this option");
    Client::connect(config, socket.compat_write()).await.expect("the login succeeds")
}

/// Another program: plain T-SQL over one connection. `$(schema)` in its text stands for the test's schema.
pub struct Session {
    pub client: Client,
    schema: String,
}

impl Session {
    /// Runs a batch, and returns its result sets or SQL Server's error.
    pub async fn try_sql(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, tiberius::error::Error> {
        let sql = sql.replace("$(schema)", &self.schema);
        self.client.simple_query(sql).await?.into_results().await
    }

    /// Runs a batch that must succeed, and returns the rows of its first result set.
    pub async fn sql(&mut self, sql: &str) -> Vec<Row> {
        let results = self.try_sql(sql).await.unwrap_or_else(|error| panic!("{error}\nin {sql}"));
        results.into_iter().next().unwrap_or_default()
    }

    /// Runs a batch that must return one row.
    pub async fn row(&mut self, sql: &str) -> Row {
        let mut rows = self.sql(sql).await;
        assert_eq!(rows.len(), 1, "rows of {sql}");
        rows.remove(0)
    }

    /// Runs a batch that must return one number.
    pub async fn number(&mut self, sql: &str) -> i64 {
        number(&self.row(sql).await, 0)
    }

    /// Runs a batch, and returns the numbers in the first column.
    pub async fn numbers(&mut self, sql: &str) -> Vec<i64> {
        self.sql(sql).await.iter().map(|row| number(row, 0)).collect()
    }

    /// Runs a batch that SQL Server must refuse, and returns the number and text of the error.
    pub async fn refusal(&mut self, sql: &str) -> (u32, String) {
        match self.try_sql(sql).await {
            Err(tiberius::error::Error::Server(error)) => (error.code(), error.message().to_string()),
            Err(other) => panic!("{other}\nin {sql}"),
            Ok(_) => panic!("this was not refused: {sql}"),
        }
    }

    /// Drops a database or a login. SQL Server refuses until it has noticed that the connections to it are closed.
    async fn drop(&mut self, what: &str) {
        let give_up = Instant::now() + Duration::from_secs(30);
        while let Err(error) = self.try_sql(&format!("DROP {what}")).await {
            let is_in_use = error.code().is_some_and(|code| IN_USE.contains(&code));
            assert!(is_in_use && Instant::now() < give_up, "DROP {what}: {error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Runs a script as `sqlcmd` does: batch by batch, parted by lines that say GO.
    pub async fn script(&mut self, script: &str) -> Result<(), tiberius::error::Error> {
        let mut batch = String::new();
        for line in script.lines().chain(["GO"]) {
            if !line.trim().eq_ignore_ascii_case("GO") {
                batch.push_str(line);
                batch.push('\n');
                continue;
            }
            if !batch.trim().is_empty() {
                self.try_sql(&batch).await?;
            }
            batch.clear();
        }
        Ok(())
    }

    /// A call of one of the schema's procedures, to be given its parameters.
    pub fn procedure<'a>(&self, name: &str) -> Command<'a> {
        Command::new(format!("[{}].[{name}]", self.schema))
    }

    /// Runs a procedure.
    pub async fn try_call(&mut self, call: Command<'_>) -> Result<CommandResult, tiberius::error::Error> {
        call.exec(&mut self.client).await?.into_command_result().await
    }

    /// Runs a procedure that must succeed, and returns the rows of its first result set.
    pub async fn call(&mut self, call: Command<'_>) -> Vec<Row> {
        let shown = format!("{call:?}");
        let result = self.try_call(call).await.unwrap_or_else(|error| panic!("{error}\nin {shown:.500}"));
        result.into_iter().next().unwrap_or_default()
    }
}

/// A whole number of any width, or a bit.
pub fn number(row: &Row, column: impl QueryIdx + Copy) -> i64 {
    optional_number(row, column).unwrap_or_else(|| panic!("column {column} is NULL"))
}

/// A whole number of any width, or a bit, or NULL.
pub fn optional_number(row: &Row, column: impl QueryIdx + Copy) -> Option<i64> {
    match row.get_column_data(column).unwrap_or_else(|error| panic!("column {column}: {error}")) {
        ColumnData::Bit(value) => value.map(i64::from),
        ColumnData::U8(value) => value.map(i64::from),
        ColumnData::I16(value) => value.map(i64::from),
        ColumnData::I32(value) => value.map(i64::from),
        ColumnData::I64(value) => *value,
        other => panic!("column {column} is no whole number: {other:?}"),
    }
}

/// Text or NULL.
pub fn text(row: &Row, column: &str) -> Option<String> {
    row.get::<&str, _>(column).map(str::to_string)
}

/// Bytes or NULL.
pub fn bytes(row: &Row, column: &str) -> Option<Vec<u8>> {
    row.get::<&[u8], _>(column).map(<[u8]>::to_vec)
}

/// A job as `claim` returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub job_id: i64,
    pub fence: i32,
    pub attempt: i32,
    pub max_attempts: i32,
    pub priority: i16,
    pub waited_ms: i64,
    pub age_ms: i64,
    pub payload_utf16: bool,
    pub payload: Vec<u8>,
    /// What few jobs have; `Null` for the others.
    pub details: serde_json::Value,
    /// The first job of its run, if it was claimed with one.
    pub head_id: Option<i64>,
    /// Its group, if the claim returned it apart from the details.
    pub group_key: Option<String>,
}

impl Claimed {
    fn from_row(row: &Row) -> Claimed {
        Claimed {
            job_id: row.get("job_id").unwrap(),
            fence: row.get("fence").unwrap(),
            attempt: row.get("attempt").unwrap(),
            max_attempts: row.get("max_attempts").unwrap(),
            priority: row.get("priority").unwrap(),
            waited_ms: row.get("waited_ms").unwrap(),
            age_ms: row.get("age_ms").unwrap(),
            payload_utf16: row.get("payload_utf16").unwrap(),
            payload: bytes(row, "payload").unwrap(),
            details: text(row, "details").map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default(),
            head_id: row.try_get("head_id").ok().flatten(),
            group_key: row.try_get::<&str, _>("group_key").ok().flatten().map(str::to_owned),
        }
    }

    fn finished(&self, outcome: u8) -> Finish {
        let Claimed { job_id, fence, .. } = *self;
        Finish { job_id, fence, outcome, retry_ms: None, run_us: None, error: None, output: None }
    }

    pub fn done(&self) -> Finish {
        self.finished(0)
    }

    pub fn retry(&self, retry_ms: i64, error: &str) -> Finish {
        Finish { retry_ms: Some(retry_ms), error: Some(error.to_string()), ..self.finished(1) }
    }

    pub fn snooze(&self, retry_ms: i64, error: &str) -> Finish {
        Finish { retry_ms: Some(retry_ms), error: Some(error.to_string()), ..self.finished(3) }
    }

    pub fn dead(&self, error: &str) -> Finish {
        Finish { error: Some(error.to_string()), ..self.finished(2) }
    }
}

/// A row of `finish_list`.
#[derive(Debug, Clone)]
pub struct Finish {
    pub job_id: i64,
    pub fence: i32,
    pub outcome: u8,
    pub retry_ms: Option<i64>,
    pub run_us: Option<i64>,
    pub error: Option<String>,
    pub output: Option<Vec<u8>>,
}

impl<'a> TableValueRow<'a> for Finish {
    fn bind_fields(&self, row: &mut SqlTableDataRow<'a>) {
        row.add_field(self.job_id);
        row.add_field(self.fence);
        row.add_field(self.outcome);
        row.add_field(self.retry_ms);
        row.add_field(self.run_us);
        row.add_field(self.error.clone());
        row.add_field(self.output.clone());
    }

    fn get_db_type() -> &'static str {
        "finish_list"
    }
}

impl Finish {
    /// The parameters of `finish_one`.
    fn bind<'a>(&'a self, call: &mut Command<'a>) {
        call.bind_param("@job_id", self.job_id);
        call.bind_param("@fence", self.fence);
        call.bind_param("@outcome", self.outcome);
        call.bind_param("@retry_ms", self.retry_ms);
        call.bind_param("@run_us", self.run_us);
        call.bind_param("@error", self.error.as_deref());
        call.bind_param("@output", self.output.as_deref());
    }
}

/// A worker in another language: it calls the worker's procedures by RPC.
pub struct WorkerSession {
    pub session: Session,
    pub id: Uuid,
    queue: String,
    finish_list: String,
}

impl WorkerSession {
    /// A worker that is registered for the fixture's queue, with a lease of a minute.
    pub async fn register(fixture: &Fixture) -> WorkerSession {
        WorkerSession::register_on(fixture.session().await, fixture).await
    }

    /// The same for another queue.
    pub async fn register_for(fixture: &Fixture, queue: &str) -> WorkerSession {
        WorkerSession::registered(fixture.session().await, fixture, queue).await
    }

    /// The same under a login of its own.
    pub async fn register_as(fixture: &Fixture, login: &Login) -> WorkerSession {
        WorkerSession::register_on(fixture.session_as(login).await, fixture).await
    }

    async fn register_on(session: Session, fixture: &Fixture) -> WorkerSession {
        WorkerSession::registered(session, fixture, &fixture.config.queue.name).await
    }

    async fn registered(session: Session, fixture: &Fixture, queue: &str) -> WorkerSession {
        // Without brackets: the protocol carries plain names, and the driver sends this text as one.
        let finish_list = format!("{}.finish_list", fixture.schema());
        let mut worker = WorkerSession { session, id: Uuid::new_v4(), queue: queue.to_owned(), finish_list };
        let mut call = worker.session.procedure("register_worker");
        call.bind_param("@queue", worker.queue.clone());
        call.bind_param("@worker_id", worker.id);
        call.bind_param("@name", "a test");
        call.bind_param("@lease_ms", 60_000);
        worker.session.call(call).await;
        worker
    }

    /// Claims up to `max` jobs; returns them by id, because OUTPUT has no order.
    pub async fn claim(&mut self, max: i32) -> Vec<Claimed> {
        self.try_claim(max).await.unwrap_or_else(|error| panic!("claim: {error}"))
    }

    pub async fn try_claim(&mut self, max: i32) -> Result<Vec<Claimed>, tiberius::error::Error> {
        self.call_claim(max, false).await
    }

    /// Claims as a worker that holds nothing.
    pub async fn claim_alone(&mut self, max: i32) -> Vec<Claimed> {
        self.call_claim(max, true).await.unwrap_or_else(|error| panic!("claim: {error}"))
    }

    /// Claims runs of up to `run` jobs of a group, as a worker that runs `at_once` jobs at the same time.
    pub async fn claim_runs(&mut self, max: i32, at_once: i32, run: i32) -> Vec<Claimed> {
        let mut call = self.claim_call(max, false);
        call.bind_param("@at_once", at_once);
        call.bind_param("@run", run);
        self.claimed(call).await.unwrap_or_else(|error| panic!("claim: {error}"))
    }

    async fn call_claim(&mut self, max: i32, alone: bool) -> Result<Vec<Claimed>, tiberius::error::Error> {
        let call = self.claim_call(max, alone);
        self.claimed(call).await
    }

    fn claim_call(&self, max: i32, alone: bool) -> Command<'static> {
        let mut call = self.session.procedure("claim");
        call.bind_param("@queue", self.queue.clone());
        call.bind_param("@worker_id", self.id);
        call.bind_param("@max", max);
        call.bind_param("@alone", alone);
        call
    }

    async fn claimed(&mut self, call: Command<'_>) -> Result<Vec<Claimed>, tiberius::error::Error> {
        let result = self.session.try_call(call).await?;
        // A result set for each priority.
        let mut claimed: Vec<Claimed> = result.into_iter().flatten().map(|row| Claimed::from_row(&row)).collect();
        claimed.sort_by_key(|job| job.job_id);
        Ok(claimed)
    }

    /// Lets its lease run out and somebody notice.
    pub async fn lose(&mut self, fixture: &Fixture) {
        let run_out = "UPDATE [$(schema)].[workers] SET lease_until = DATEADD(SECOND, -1, SYSUTCDATETIME())";
        fixture.sql(&format!("{run_out} WHERE worker_id = '{}'", self.id)).await;
        fixture.sql(&format!("EXEC [$(schema)].[reap] @queue = {}", literal(&self.queue))).await;
    }

    /// Claims one job, which must be there.
    pub async fn claim_one(&mut self) -> Claimed {
        let mut claimed = self.claim(1).await;
        assert_eq!(claimed.len(), 1, "a job is ready");
        claimed.remove(0)
    }

    /// Acknowledges jobs; returns the ids that did not end as asked, and how.
    pub async fn finish(&mut self, jobs: &[Finish]) -> Vec<(i64, String)> {
        self.try_finish(jobs).await.unwrap_or_else(|error| panic!("finish: {error}"))
    }

    pub async fn try_finish(&mut self, jobs: &[Finish]) -> Result<Vec<(i64, String)>, tiberius::error::Error> {
        let mut call = self.session.procedure("finish");
        call.bind_param("@queue", self.queue.clone());
        call.bind_param("@worker_id", self.id);
        call.bind_table_with_dbtype("@jobs", &self.finish_list, jobs.to_vec());
        let result = call.exec(&mut self.session.client).await?.into_command_result().await?;
        Ok(reports(&result))
    }

    /// Gives jobs back; returns the ids of those that are not this worker's.
    pub async fn release<'a>(&mut self, jobs: impl IntoIterator<Item = &'a Claimed>) -> Vec<i64> {
        let rows: Vec<_> = jobs.into_iter().map(|job| format!("({}, {})", job.job_id, job.fence)).collect();
        let (rows, id) = (rows.join(", "), self.id);
        let call = format!(
            "DECLARE @jobs [$(schema)].[job_list]; INSERT @jobs (job_id, fence) VALUES {rows};
             EXEC [$(schema)].[release] @worker_id = '{id}', @jobs = @jobs"
        );
        self.session.numbers(&call).await
    }

    /// Moves jobs to other queues, each with the error `no`, together with jobs that end otherwise. Returns the ids
    /// that did not end as asked, and how.
    pub async fn move_jobs(&mut self, moves: &[(&Claimed, &str)], others: &[Finish]) -> Vec<(i64, String)> {
        let mut sql = "DECLARE @jobs [$(schema)].[finish_list], @changes [$(schema)].[change_list];\n".to_owned();
        for (job, queue) in moves {
            sql += &format!("INSERT @jobs VALUES ({}, {}, 2, NULL, 7000, N'no', NULL);\n", job.job_id, job.fence);
            sql += &format!("INSERT @changes (job_id, queue) VALUES ({}, {});\n", job.job_id, literal(queue));
        }
        for Finish { job_id, fence, outcome, .. } in others {
            sql += &format!("INSERT @jobs VALUES ({job_id}, {fence}, {outcome}, NULL, NULL, NULL, NULL);\n");
        }
        sql += &format!(
            "EXEC [$(schema)].[finish_with] @queue = {}, @worker_id = '{}', @jobs = @jobs, @changes = @changes;",
            literal(&self.queue),
            self.id
        );
        let rows = self.session.sql(&sql).await;
        let mut reports: Vec<_> =
            rows.iter().map(|row| (number(row, "job_id"), text(row, "result").unwrap())).collect();
        reports.sort();
        reports
    }

    /// Acknowledges one job without a table-valued parameter, in which the driver takes no value over 65,535 bytes.
    pub async fn finish_one(&mut self, job: &Finish) -> Vec<(i64, String)> {
        let mut call = self.session.procedure("finish_one");
        call.bind_param("@queue", self.queue.as_str());
        call.bind_param("@worker_id", self.id);
        job.bind(&mut call);
        let result = call.exec(&mut self.session.client).await.expect("the call is sent").into_command_result().await;
        reports(&result.unwrap_or_else(|error| panic!("finish_one: {error}")))
    }
}

/// What `finish` and `finish_one` say about jobs that did not end as asked.
fn reports(result: &CommandResult) -> Vec<(i64, String)> {
    let rows = result.to_query_result(0).expect("it returns a result set");
    let mut reports: Vec<(i64, String)> =
        rows.iter().map(|row| (number(row, "job_id"), text(row, "result").unwrap())).collect();
    reports.sort();
    reports
}
