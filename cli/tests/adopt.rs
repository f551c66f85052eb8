//! `adopt`: a table of somebody else's, from its mapping to its removal.

use serde_json::json;

use crate::support::{Fixture, temporary_folder};

/// A table of a name of its own, and its mapping.
pub async fn table_and_mapping(fixture: &Fixture) -> (String, std::path::PathBuf) {
    let table = format!("{}_tasks", fixture.schema);
    fixture
        .sql(&format!(
            "CREATE TABLE dbo.[{table}] (Id int IDENTITY NOT NULL PRIMARY KEY, Status int NOT NULL, Body nvarchar(max) \
             NULL);
             CREATE INDEX by_status ON dbo.[{table}] (Status, Id);
             INSERT dbo.[{table}] (Status, Body) VALUES (0, N'one'), (0, N'two')"
        ))
        .await;
    let mapping = temporary_folder(&fixture.schema).join("tasks.toml");
    let text = format!(
        "table = \"dbo.{table}\"\nqueue = \"tasks\"\nkey = \"Id\"\npayload = \"Body\"\norder = \"Id\"\nready = \
         \"Status = 0\"\n\
         [claim]\nset = {{ Status = 1 }}\n[done]\nset = {{ Status = 2 }}\n"
    );
    std::fs::write(&mapping, text).unwrap();
    (table, mapping)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_adopted_worked_off_checked_and_removed() {
    let fixture = Fixture::not_installed("adopt").await;
    let (table, mapping) = table_and_mapping(&fixture).await;
    let mapping = mapping.to_str().unwrap();
    let schema = fixture.schema.as_str();

    fixture.run(&["adopt"]).failed(2);
    let message = fixture.run(&["adopt", mapping]).failed(2);
    assert!(message.contains("a schema of its own"), "{message}");
    let said = fixture.run(&["adopt", mapping, "--schema", schema]).ok();
    assert_eq!(said.trim_end(), format!("table dbo.{table} can be adopted as queue tasks in schema {schema}"));
    let script = fixture.run(&["adopt", mapping, "--schema", schema, "--print"]).ok();
    assert!(script.contains(&format!("FROM [dbo].[{table}]")) && script.contains("-- Made from this mapping:"));
    let message = fixture.run(&["adopt", "--check"]).failed(7);
    assert!(message.contains("not the adoption of a table"), "{message}");

    let answer = fixture.run(&["adopt", mapping, "--schema", schema, "--install", "--json"]).json();
    assert_eq!(answer, [json!({"table": format!("dbo.{table}"), "queue": "tasks", "schema": schema, "notes": []})]);
    let worked = fixture.run(&["work", "tasks", "--drain", "--shell", "exit 0"]).ok();
    assert!(worked.contains("2 done"), "{worked}");
    let message = fixture.run(&["enqueue", "tasks", "three"]).failed(2);
    assert!(message.contains("insert a row there"), "{message}");
    let message = fixture.run(&["install"]).ok();
    assert!(message.contains("is installed"), "{message}");

    fixture.run(&["adopt", "--check"]).ok();
    fixture.sql(&format!("ALTER TABLE dbo.[{table}] ALTER COLUMN Body nvarchar(50) NULL")).await;
    let run = fixture.run(&["adopt", "--check"]);
    assert!(run.code == 1 && run.stdout.contains("column Body was nvarchar(max)"), "{run:?}");
    let message = fixture.run(&["adopt", "--remove"]).failed(4);
    assert!(message.contains("pass --yes"), "{message}");
    let said = fixture.run(&["adopt", "--remove", "--yes"]).ok();
    assert!(said.contains("is no longer adopted"), "{said}");
    fixture.run(&["queues"]).failed(7);
    fixture.sql(&format!("DROP TABLE dbo.[{table}]")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adoption_whose_table_is_gone_is_removed_by_force() {
    let fixture = Fixture::not_installed("adopt_gone").await;
    let (table, mapping) = table_and_mapping(&fixture).await;
    let mapping = mapping.to_str().unwrap();
    fixture.run(&["adopt", mapping, "--schema", &fixture.schema, "--install"]).ok();
    fixture.sql(&format!("DROP TABLE dbo.[{table}]")).await;
    fixture.run(&["adopt", "--force"]).failed(2);
    let message = fixture.run(&["adopt", "--remove", "--force"]).failed(4);
    assert!(message.contains("without restoring"), "{message}");
    fixture.run(&["adopt", "--remove", "--force", "--yes"]).ok();
    fixture.run(&["queues"]).failed(7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_the_line_of_the_file() {
    let fixture = Fixture::not_installed("adopt_no").await;
    let (table, mapping) = table_and_mapping(&fixture).await;
    let text = std::fs::read_to_string(&mapping).unwrap().replace("order = \"Id\"", "order = \"Id DESC\"\nodder = 1");
    std::fs::write(&mapping, text).unwrap();
    let message = fixture.run(&["adopt", mapping.to_str().unwrap(), "--schema", &fixture.schema]).failed(2);
    assert!(message.contains("tasks.toml, line 6: unknown key odder; did you mean order?"), "{message}");
    fixture.run(&["adopt", "nothing.toml", "--schema", &fixture.schema]).failed(2);
    fixture.sql(&format!("DROP TABLE dbo.[{table}]")).await;
}
