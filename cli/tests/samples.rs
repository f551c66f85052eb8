//! The producers and workers in `examples/`, each in its own language. A test is skipped, and says so, where the
//! machine lacks the language or a package.

use std::path::Path;
use std::process::Command;

use readpast::NewJob;
use readpast::admin::{JobState, QueueOptions};

use crate::server::{installed_database, real_server_url, unique};
use crate::support::{Fixture, run, temporary_folder};
use crate::worker_process::{WorkFixture, has, skip};

/// The price of what the producers order is 2 × 1250 + 3 × 120 cents.
const ORDER: &str =
    r#"{"customer":"größe 🦀 \u2028","items":[{"product":"book","quantity":2},{"product":"pen","quantity":3}]}"#;

fn sample(name: &str) -> String {
    format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Checks a program for `work --keep` that prices orders.
async fn prices_orders(test_name: &str, program: &[&str]) {
    let mut check = Command::new(env!("CARGO_BIN_EXE_readpast"));
    check.args(["check-program", "--within", "60s", "--payload", ORDER, "--"]).args(program);
    let text = run(&mut check).ok();
    assert!(text.contains("ok     a text\n"), "{text}");
    assert!(text.ends_with("\nthe program conforms to protocol 1\n"), "{text}");

    let work = WorkFixture::new(test_name).await;
    // The separator itself, which some readers take for the end of a line.
    let order = work.enqueue(NewJob::text(ORDER.replace(r"\u2028", "\u{2028}"))).await;
    let empty = work.enqueue(NewJob::text(r#"{"items":[]}"#)).await;
    let mut bad = Vec::new();
    for job in [NewJob::text("two books"), NewJob::text("7"), NewJob::text(r#"{"id":7}"#), NewJob::bytes([0xFF])] {
        bad.push(work.enqueue(job.max_attempts(2)).await);
    }
    let unknown = NewJob::text(r#"{"items":[{"product":"ink","quantity":1}]}"#).max_attempts(2);
    let unknown = work.enqueue(unknown).await;

    work.drain(&[&["--keep", "--threads", "1", "--"], program].concat()).ok();
    assert_eq!((work.output(order).await, work.output(empty).await), ("2860".to_owned(), "0".to_owned()));
    for job in bad {
        let row = work.row(job).await;
        assert_eq!((row.state, row.attempt), (JobState::Dead, 1), "{row:?}");
    }
    let row = work.row(unknown).await;
    assert_eq!((row.state, row.attempt), (JobState::Dead, 2), "{row:?}");
    assert!(row.error.as_deref().is_some_and(|error| error.contains("ink")), "{row:?}");
}

/// Checks a producer that adds `orders` orders, and takes back what it has begun when it fails.
async fn adds_orders(test_name: &str, program: &[&str], orders: i32) {
    if real_server_url().is_some() {
        return skip("the examples' producers need a database of their own");
    }
    let url = installed_database(&unique(test_name)).await;
    let shop = Fixture { url, schema: "readpast".to_owned() };
    let queue = shop.queue("orders").await;
    queue.admin().install().await.unwrap();
    let produce = || {
        let arguments = [&program[1..], &["1001"]].concat();
        run(shop.command_of(program[0], &arguments).env("JDBC_URL", jdbc_url(&shop.url)))
    };

    let without_queue = produce();
    assert!(without_queue.code != 0 && without_queue.stderr.contains("'orders'"), "{without_queue:?}");
    assert_eq!(rows(&shop).await, []);

    queue.admin().create(QueueOptions::default()).await.unwrap();
    let added = produce().ok();
    let mut jobs = jobs(&shop);
    jobs.sort();
    let mut expected = Vec::new();
    for ((order, pricing_job), (_, job)) in rows(&shop).await.into_iter().zip(&jobs) {
        // Jobs that are enqueued together are not noted in their rows.
        assert!(pricing_job.is_none_or(|noted| noted == *job && added.contains(&format!("job {job}\n"))), "{added}");
        expected.push((order, *job));
    }
    assert_eq!(jobs, expected);
    assert_eq!(jobs.iter().map(|(order, _)| *order).collect::<Vec<_>>(), (1001..1001 + orders).collect::<Vec<_>>());

    // The job is enqueued before the row turns out to be there.
    let again = produce();
    assert!(again.code != 0 && again.stderr.contains("PRIMARY KEY"), "{again:?}");
    assert_eq!((rows(&shop).await.len(), self::jobs(&shop).len()), (jobs.len(), jobs.len()));
}

/// The orders with the jobs that are noted in them.
async fn rows(shop: &Fixture) -> Vec<(i32, Option<i64>)> {
    let mut client = shop.client().await;
    let answer = client.simple_query("SELECT id, pricing_job FROM dbo.orders ORDER BY id").await.unwrap();
    let rows = answer.into_first_result().await.unwrap();
    rows.iter().map(|row| (row.get(0).unwrap(), row.get(1))).collect()
}

/// The orders in the queue, with their jobs.
fn jobs(shop: &Fixture) -> Vec<(i32, i64)> {
    let order_of = |job: serde_json::Value| {
        assert_eq!(job["kind"], "price");
        let order: serde_json::Value = serde_json::from_str(job["payload_text"].as_str().unwrap()).unwrap();
        assert_eq!(order["items"][0], serde_json::json!({"product": "book", "quantity": 2}));
        (order["id"].as_i64().unwrap() as i32, job["job_id"].as_i64().unwrap())
    };
    shop.run(&["jobs", "orders", "--json"]).json().into_iter().map(order_of).collect()
}

fn jdbc_url(url: &str) -> String {
    let value = |key: &str| {
        let mut values = url.split(';').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| *name == key);
        values.next_back().unwrap_or_else(|| panic!("there is a {key}")).1
    };
    let (server, database) = (value("Server").trim_start_matches("tcp:").replace(',', ":"), value("Database"));
    let (user, password) = (value("User ID"), value("Password"));
    format!(
        "jdbc:sqlserver://{server};databaseName={database};user={user};password={password};trustServerCertificate=true"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_worker_prices_orders() {
    if has("node") {
        prices_orders("node_worker", &["node", &sample("node/price_orders.mjs")]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_producer_adds_orders() {
    if !has("node") {
        return;
    }
    if !Path::new(&sample("node/node_modules/mssql")).exists() {
        return skip("examples/node/producer.mjs has no mssql: npm install --prefix examples/node");
    }
    adds_orders("node_producer", &["node", &sample("node/producer.mjs")], 3).await;
}

/// A jar as examples/README.md installs it, or as a Debian package does.
fn jar(name: &str) -> Option<String> {
    let folders = [sample("java/lib"), "/usr/share/java".to_owned()];
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = files.map(|file| file.unwrap().path().to_str().unwrap().to_owned());
    let found = paths.filter(|path| path.ends_with(".jar")).find(|path| {
        let file = path.rsplit('/').next().unwrap();
        file == format!("{name}.jar") || file.starts_with(&format!("{name}-"))
    });
    if found.is_none() {
        skip(&format!("there is no {name}.jar here: examples/README.md installs it"));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_java_worker_prices_orders() {
    if !has("java") {
        return;
    }
    let Some(gson) = jar("gson") else { return };
    prices_orders("java_worker", &["java", "-cp", &gson, &sample("java/PriceOrders.java")]).await;
}

#[test]
fn the_java_producer_compiles_without_a_driver() {
    if has("javac") {
        let folder = temporary_folder("java_producer");
        let mut compile = Command::new("javac");
        run(compile.args(["-Xlint:all", "-Werror", "-d"]).arg(&folder).arg(sample("java/Producer.java"))).ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_java_producer_adds_orders() {
    if !has("java") {
        return;
    }
    let Some(driver) = jar("mssql-jdbc") else { return };
    adds_orders("java_producer", &["java", "-cp", &driver, &sample("java/Producer.java")], 3).await;
}

/// Builds a project outside of its folder, and gives the path of its program.
fn dotnet_program(project: &str) -> Option<String> {
    if !has("dotnet") {
        return None;
    }
    let folder = temporary_folder(&format!("dotnet_{project}"));
    let dotnet = |arguments: &[&str]| {
        let mut command = Command::new("dotnet");
        command.args(arguments).arg(sample(&format!("csharp/{project}"))).arg("--artifacts-path").arg(&folder);
        run(command.env("DOTNET_NOLOGO", "1"))
    };
    let restored = dotnet(&["restore"]);
    if restored.code != 0 {
        skip(&format!("the packages of examples/csharp/{project} cannot be had here: {}", restored.stdout));
        return None;
    }
    // The build servers would outlive the test.
    let program = folder.join("program");
    dotnet(&["publish", "--no-restore", "--disable-build-servers", "--output", program.to_str().unwrap()]).ok();
    Some(program.join(format!("{project}.dll")).to_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_csharp_worker_prices_orders() {
    if let Some(program) = dotnet_program("Worker") {
        prices_orders("csharp_worker", &["dotnet", &program]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_csharp_producer_adds_orders() {
    if let Some(program) = dotnet_program("Producer") {
        adds_orders("csharp_producer", &["dotnet", &program], 4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_powershell_worker_prices_orders() {
    if has("pwsh") {
        let script = sample("powershell/price_orders.ps1");
        prices_orders("powershell_worker", &["pwsh", "-NoProfile", "-File", &script]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_powershell_producer_adds_orders() {
    if has("pwsh") {
        let script = sample("powershell/producer.ps1");
        adds_orders("powershell_producer", &["pwsh", "-NoProfile", "-File", &script], 1).await;
    }
}
