//! What cannot be adopted is refused, with the line of the mapping and what to do about it.

use readpast::Queue;
use readpast_adopt::Mapping;

use crate::adopted::{OUTBOX, SIMPLE_QUEUE, STATUS_QUEUE, example};
use crate::support::Fixture;

/// Line by line, so that the tests can name them.
const GOOD: &str = "\
table = \"dbo.Tasks\"
schema = \"tasks\"
key = \"Id\"
payload = \"Body\"
order = \"Id\"
ready = \"Status = 'new'\"
[claim]
set = { Status = \"'taken'\" }
[done]
set = { Status = \"'done'\", Note = \"{worker}\" }
";

const TASKS: &str = "
CREATE TABLE Tasks
(
    Id int NOT NULL CONSTRAINT Tasks_pk PRIMARY KEY,
    Status varchar(10) NOT NULL,
    Body nvarchar(max) NULL,
    Created datetime NOT NULL,
    Note varchar(20) NULL,
    Twice AS Id * 2,
    Version rowversion,
    Raw varbinary(max) NULL
);
CREATE INDEX Tasks_status ON Tasks (Status, Id);
CREATE TABLE Archive (Id int NOT NULL, Body nvarchar(max) NULL, At datetime NOT NULL);
CREATE TABLE Checked (Id int NOT NULL, Body nvarchar(max) NULL, CONSTRAINT Checked_id CHECK (Id > 0));
";

async fn message(queue: &Queue, mapping: &str) -> String {
    let mapping = match Mapping::from_toml(mapping) {
        Ok(mapping) => mapping,
        Err(error) => return error.to_string(),
    };
    match readpast_adopt::plan(queue, &mapping).await {
        Err(error @ readpast_adopt::Error::Mapping { .. }) => error.to_string(),
        Err(error) => panic!("{error:?}\n{}", mapping.table()),
        Ok(adoption) => format!("adopted {}", adoption.table()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapping_that_does_not_fit_its_table_is_refused_with_its_line() {
    let fixture = Fixture::in_own_database("adopt_refusals").await;
    fixture.session().await.script(TASKS).await.unwrap();
    let queue = fixture.connect().await;
    assert_eq!(message(&queue, GOOD).await, "adopted dbo.Tasks");
    for (from, to, line, parts) in [
        // Names.
        ("dbo.Tasks", "dbo.Nothing", 1, &["the table dbo.Nothing does not exist", "may not see it"][..]),
        ("dbo.Tasks", "elsewhere.dbo.Tasks", 1, &["of the connection string's database"]),
        ("\"Body\"", "\"Boddy\"", 4, &["has no column Boddy", "did you mean Body?"]),
        ("order = \"Id\"", "order = \"Priority\"", 5, &["has no column Priority", "it has Id, Status"]),
        ("Status = 'new'", "State = 'new'", 6, &["has no column State"]),
        ("Note =", "Nota =", 10, &["has no column Nota"]),
        ("\"tasks\"", "\"order\"", 2, &["reserved word"]),
        // The predicate.
        ("\"Status = 'new'\"", "\"Status\"", 6, &["it is not a predicate"]),
        ("\"Status = 'new'\"", "\"Status = 'new' AND EXISTS (SELECT 1)\"", 6, &["EXISTS"]),
        ("\"Status = 'new'\"", "\"Status = 'new' AND Id = 'x'\"", 6, &["a text for Id, which is int"]),
        ("\"Status = 'new'\"", "\"Status = 'new' AND Note = {worker}\"", 6, &["{worker}", "no words"]),
        ("\"Status = 'new'\"", "\"Note = 'new'\"", 7, &["could still be ready"]),
        ("\"Status = 'new'\"", "\"Status < 'new'\"", 7, &["could still be ready"]),
        ("\"Status = 'new'\"", "\"Status = 'new' AND 10 / Id > 1\"", 6, &["could fail for a row"]),
        ("\"'taken'\"", "\"'taken by a worker'\"", 8, &["'taken by a worker' for Status"]),
        ("Note = \"{worker}\"", "Created = \"LEFT(Note, 3)\"", 10, &["which SQL Server cannot convert"]),
        ("Note = \"{worker}\"", "Note = \"ISNULL(Note, Id)\"", 10, &["ISNULL mixes"]),
        ("Note = \"{worker}\"", "status = \"'x'\"", 10, &["done.set has Status twice"]),
        ("Status = \"'done'\"", "Status = \"'new'\"", 9, &["could be ready again"]),
        // The key.
        (
            "key = \"Id\"",
            "key = \"Created\"",
            3,
            &["no unique index", "CREATE UNIQUE INDEX [readpast_key] ON [dbo].[Tasks] ([Created])"],
        ),
        ("key = \"Id\"", "key = \"Note\"", 3, &["Note, which can be NULL"]),
        ("key = \"Id\"", "key = \"Raw\"", 3, &["Raw, which is varbinary(max)"]),
        ("key = \"Id\"", "key = [\"Id\", \"Status\"]", 8, &["Status is part of the key and must not be set"]),
        // The index.
        (
            "order = \"Id\"",
            "order = \"Created\"",
            5,
            &[
                "each claim would read, sort and lock all of them",
                "CREATE INDEX [readpast_ready] ON [dbo].[Tasks] ([Status], [Created])",
            ],
        ),
        (
            "\"Status = 'new'\"",
            "\"Status = 'new' AND Created <= GETDATE()\"",
            5,
            &["begin order with Created", "CREATE INDEX [readpast_ready] ON [dbo].[Tasks] ([Status], [Created], [Id])"],
        ),
        ("\"Status = 'new'\"", "\"Status LIKE 'n%'\"", 7, &["could still be ready"]),
        (
            "\"Status = 'new'\"",
            "\"Status IN ('new', 'old')\"",
            5,
            &["WHERE [Status] IN ('new', 'old')", "QUOTED_IDENTIFIER"],
        ),
        // What is set.
        ("Note = \"{worker}\"", "Twice = 1", 10, &["it is computed"]),
        ("Note = \"{worker}\"", "Version = 1", 10, &["SQL Server gives it its value"]),
        ("Note = \"{worker}\"", "Created = \"NULL\"", 10, &["it cannot be NULL"]),
        ("Note = \"{worker}\"", "Note = 5", 10, &["a number for Note, which is varchar(20)"]),
        ("Note = \"{worker}\"", "Created = \"{attempt}\"", 10, &["a number for Created, which is datetime"]),
        ("Note = \"{worker}\"", "Note = \"{error}\"", 10, &["{error}", "only {attempt}"]),
        // The payload.
        ("payload = \"Body\"", "payload = [\"Body\", \"Raw\"]", 4, &["Raw of bytes beside others"]),
        ("payload = \"Body\"", "payload = \"Version\"", 4, &["cannot be sent"]),
        // Where rows go.
        (
            "set = { Status = \"'done'\", Note = \"{worker}\" }",
            "move = \"dbo.Gone\"\nwith = { Id = \"Id\" }",
            10,
            &["the table does not exist"],
        ),
        (
            "set = { Status = \"'done'\", Note = \"{worker}\" }",
            "move = \"dbo.Archive\"\nwith = { Id = \"Id\" }",
            10,
            &["lacks At"],
        ),
        (
            "set = { Status = \"'done'\", Note = \"{worker}\" }",
            "move = \"dbo.Archive\"\nwith = { Id = \"Created\", At = \"Created\" }",
            11,
            &["puts Created (datetime) into Id (int)"],
        ),
        (
            "set = { Status = \"'done'\", Note = \"{worker}\" }",
            "move = \"dbo.Archive\"\nwith = { Nr = \"Id\" }",
            11,
            &["has no column Nr"],
        ),
        (
            "set = { Status = \"'done'\", Note = \"{worker}\" }",
            "move = \"dbo.Checked\"\nwith = { Id = \"Id\" }",
            10,
            &["the check constraint Checked_id", "OUTPUT INTO"],
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = message(&queue, &GOOD.replace(from, to)).await;
        assert!(found.contains(&format!("line {line}: ")), "{to}: {found}");
        for part in parts {
            assert!(found.contains(part), "{to}: {found}");
        }
    }
    drop(queue);
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_makes_it_unsafe_is_refused_with_a_remedy() {
    let fixture = Fixture::in_own_database("adopt_unsafe").await;
    let mut session = fixture.session().await;
    session.script(TASKS).await.unwrap();
    session
        .script(
            "CREATE TRIGGER Tasks_changed ON Tasks AFTER UPDATE AS SET NOCOUNT ON\nGO\nDISABLE TRIGGER \
                 Tasks_changed ON Tasks",
        )
        .await
        .unwrap();
    let queue = fixture.connect().await;
    assert_eq!(message(&queue, GOOD).await, "adopted dbo.Tasks", "a trigger that is disabled does nothing");
    session.sql("ENABLE TRIGGER Tasks_changed ON Tasks").await;
    let found = message(&queue, GOOD).await;
    assert!(
        found.contains("line 1: ") && found.contains("DISABLE TRIGGER [Tasks_changed] ON [dbo].[Tasks]"),
        "{found}"
    );

    // A schema that is somebody else's: its procedures would be among theirs, and go with the adoption.
    session.script("DROP TRIGGER Tasks_changed").await.unwrap();
    let found = message(&queue, &GOOD.replace("schema = \"tasks\"", "")).await;
    assert_eq!(found, "adopted dbo.Tasks", "the connection's schema");
    let mut config = fixture.config.clone();
    config.connection.schema = "dbo".to_string();
    let in_dbo = Queue::connect(&config).await.unwrap();
    let found = message(&in_dbo, GOOD).await;
    assert!(found.contains("line 2: ") && found.contains("schema is dbo"), "{found}");

    // A table that does not belong to dbo.
    let shop = "CREATE USER shop WITHOUT LOGIN\nGO\nCREATE SCHEMA shop AUTHORIZATION shop\nGO\n\
                CREATE TABLE shop.Tasks (Id int NOT NULL PRIMARY KEY, Status varchar(10), Body nvarchar(max), Note
                varchar(20))";
    session.script(shop).await.unwrap();
    let found = message(&queue, &GOOD.replace("dbo.Tasks", "shop.Tasks")).await;
    let remedy = "ALTER AUTHORIZATION ON OBJECT::[shop].[Tasks] TO dbo";
    assert!(found.contains("line 1: ") && found.contains(remedy), "{found}");
    drop((session, in_dbo, queue));
    fixture.remove().await;
}

/// As the article has it, the table has neither a key nor an index. The refusals say what it needs, one after the
/// other.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_indexes_is_told_which_it_needs() {
    let fixture = Fixture::in_own_database("adopt_indexes").await;
    let mut session = fixture.session().await;
    session.script(STATUS_QUEUE).await.unwrap();
    let (queue, mapping) = (fixture.connect().await, example("status-queue.toml"));
    for _ in 0..2 {
        let refusal = readpast_adopt::plan(&queue, &mapping).await.unwrap_err().to_string();
        assert!(refusal.contains("status-queue.toml, line 1"), "{refusal}");
        let statement = &refusal[refusal.find("CREATE").expect("it names a statement")..];
        session.sql(statement).await;
    }
    readpast_adopt::plan(&queue, &mapping).await.unwrap();
    drop((session, queue));
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_without_rights_is_told_so() {
    let fixture = Fixture::in_own_database("adopt_rights").await;
    let mut session = fixture.session().await;
    session.script(SIMPLE_QUEUE).await.unwrap();
    let mapping = example("simple-queue.toml");
    let login = fixture.create_login(None).await;
    let stranger = fixture.connect_as(&login).await;
    let refusal = readpast_adopt::plan(&stranger, &mapping).await.unwrap_err().to_string();
    assert!(refusal.contains("line 8: the table dbo.SimpleQueue does not exist"), "{refusal}");
    // Who may see the definition can have the script, for somebody else to run.
    session.sql(&format!("GRANT VIEW DEFINITION ON dbo.SimpleQueue TO [{}]", login.name)).await;
    assert!(readpast_adopt::plan(&stranger, &mapping).await.unwrap().script().contains("[dbo].[SimpleQueue]"));
    let refusal = readpast_adopt::adopt(&stranger, &mapping).await.unwrap_err().to_string();
    assert!(refusal.contains("db_owner"), "{refusal}");
    // What a role sees of an installation is no somebody else's, and what it does not see may be there.
    fixture.queue.admin().install().await.unwrap();
    let worker = fixture.create_login(Some("worker")).await;
    session.sql(&format!("GRANT VIEW DEFINITION ON dbo.SimpleQueue TO [{}]", worker.name)).await;
    let known = fixture.connect_as(&worker).await;
    let refusal = readpast_adopt::adopt(&known, &mapping).await.unwrap_err().to_string();
    assert!(!refusal.contains("not readpast's"), "{refusal}");
    let refusal = readpast_adopt::check(&known).await.unwrap_err().to_string();
    assert!(refusal.contains("or this login may not see the adoption"), "{refusal}");
    drop(known);
    fixture.drop_login(&worker).await;
    drop((session, stranger));
    fixture.drop_login(&login).await;
    fixture.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_adopted_table_has_not_is_refused_by_name() {
    let (fixture, _) = crate::adopted::adopted("adopt_procedures", OUTBOX, "outbox.toml").await;
    let mut session = fixture.session().await;
    for call in [
        "EXEC [$(schema)].[enqueue] @queue = N'outbox', @text = N'x'",
        "DECLARE @jobs [$(schema)].[enqueue_list]; EXEC [$(schema)].[enqueue_batch] @queue = N'outbox', @jobs = @jobs",
        "EXEC [$(schema)].[create_batch] @queue = N'outbox'",
        "EXEC [$(schema)].[create_queue] @queue = N'another'",
        "EXEC [$(schema)].[create_queue] @queue = N'outbox', @completion = 'archive'",
        "EXEC [$(schema)].[create_queue] @queue = N'outbox', @delivery = 'at_most_once'",
        "EXEC [$(schema)].[create_queue] @queue = N'outbox', @claim_order = 'lifo'",
        "EXEC [$(schema)].[create_queue] @queue = N'outbox', @max_running = 5",
        "EXEC [$(schema)].[create_queue] @queue = N'outbox', @rate_jobs = 5, @rate_ms = 1000",
        "EXEC [$(schema)].[set_schedule] @queue = N'outbox', @name = N'n', @cron = '* * * * *', @text = N'x'",
        "EXEC [$(schema)].[purge] @queue = N'outbox', @state = 'ready'",
        "EXEC [$(schema)].[delete_queue] @queue = N'outbox'",
    ] {
        let (number, text) = session.refusal(call).await;
        assert!(number == 58003 && text.contains("dbo.Outbox"), "{call}: {number} {text}");
    }
    // What does not change how rows are used can be set.
    session.sql("EXEC [$(schema)].[create_queue] @queue = N'outbox', @max_attempts = 7, @keep_dead_s = 3600").await;
    drop(session);
    fixture.remove().await;
}
