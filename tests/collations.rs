//! Text is compared by the collation that its column names, whatever the database's is.

use std::path::Path;

use crate::support::scripts::columns_without_collation;

/// What is only carried from one place to another: nothing compares, groups or sorts by it. The tables' columns have
/// the database's collation, too, so that no statement mixes two.
const CARRIED: [(&str, &str); 9] = [
    ("100_enqueue_list.sql", "text nvarchar(max) NULL"),
    ("110_finish_list.sql", "error nvarchar(4000) NULL"),
    ("115_attempt_list.sql", "error nvarchar(4000) NULL"),
    ("127_progress_list.sql", "log nvarchar(max) NULL"),
    ("127_progress_list.sql", "text nvarchar(400) NULL"),
    ("300_reap.sql", "name nvarchar(128) NOT NULL"),
    ("300_reap.sql", "name nvarchar(128) NOT NULL"),
    ("450_peek.sql", "error nvarchar(4000) NULL"),
    ("459_list_errors.sql", "error nvarchar(800) NULL"),
];

/// Of each script in the folder and those below it.
fn uncollated(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            uncollated(&path, found);
        } else if path.extension().is_some_and(|end| end == "sql" || end == "part") {
            let name = path.file_name().unwrap().to_str().unwrap();
            let script = std::fs::read_to_string(&path).unwrap();
            found.extend(columns_without_collation(&script).into_iter().map(|column| (name.to_owned(), column)));
        }
    }
}

#[test]
fn every_text_that_is_compared_in_a_table_variable_or_type_names_its_collation() {
    let mut found = Vec::new();
    uncollated(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sql"), &mut found);
    found.sort();
    assert_eq!(found, CARRIED.map(|(script, column)| (script.to_owned(), column.to_owned())));
}

#[test]
fn a_column_without_a_collation_is_found_however_it_is_declared() {
    let script = "CREATE TYPE [s].[list] AS TABLE
        (
            id  int          NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON),
            key nvarchar(9)  NOT NULL,  -- COLLATE Latin1_General_100_BIN2
            is  nvarchar(9)  COLLATE Latin1_General_100_BIN2 NULL
        );
        DECLARE @a TABLE (one varchar(max) NULL); CREATE TABLE #b (two sysname NOT NULL, n decimal(9, 2) NULL);
        CREATE TABLE [s].[kept] (name nvarchar(9) NOT NULL); ALTER TABLE t ADD c char(1) NULL;";
    let found = columns_without_collation(script);
    assert_eq!(found, ["key nvarchar(9) NOT NULL", "one varchar(max) NULL", "two sysname NOT NULL"]);
}
