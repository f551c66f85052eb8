//! What the parser accepts and refuses, compared with Microsoft's own parser (the corpus), and that no input brings the
//! server down.

use crate::error::NOT_SUPPORTED;
use crate::tsql::ast::StatementKind;
use crate::tsql::parser::tests::fixture::{batches, error_number, parse_batch};

const ACCEPTED: &str = include_str!("../corpus/accepted.sql");
const REFUSED: &str = include_str!("../corpus/refused.sql");
const UNSUPPORTED: &str = include_str!("../corpus/unsupported.sql");

#[test]
fn what_microsofts_parser_accepts_is_accepted() {
    for batch in batches(ACCEPTED) {
        if let Err(error) = parse_batch(batch) {
            panic!("{error}: {batch}");
        }
    }
}

#[test]
fn what_microsofts_parser_refuses_is_refused_with_the_right_number() {
    for batch in batches(REFUSED) {
        let comments: Vec<&str> = batch.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        let expected: i32 = comments.last().and_then(|comment| comment.parse().ok()).unwrap();
        assert_eq!(error_number(batch), expected, "{batch}");
    }
}

#[test]
fn what_the_tree_has_no_place_for_is_refused_as_not_supported() {
    for batch in batches(UNSUPPORTED) {
        assert_eq!(error_number(batch), NOT_SUPPORTED, "{batch}");
    }
}

/// Microsoft's parser leaves these to the server, whose errors they are.
#[test]
fn what_only_the_server_refuses_is_refused_here_too() {
    let refused = [
        (10753, "SELECT ROW_NUMBER() FROM t"),
        (10741, "SELECT TOP 5 a FROM t ORDER BY a OFFSET 1 ROWS"),
        (1023, "SELECT DATEADD('day', 1, a)"),
        (155, "SELECT DATEADD(foo, 1, a)"),
        (8155, "SELECT * FROM (VALUES (1, 2)) v"),
        (10709, "SELECT * FROM (VALUES (1, 2), (3)) v (a, b)"),
        (131, "SELECT CAST(1 AS nvarchar(4001))"),
        (105, "SELECT 'abc"),
        (113, "/* abc"),
        (102, "SELECT 1; GO"),
    ];
    for (number, batch) in refused {
        assert_eq!(error_number(batch), number, "{batch}");
    }
    let many_rows = format!("INSERT t (a) VALUES (1){}", ", (1)".repeat(1000));
    assert_eq!(error_number(&many_rows), 10738);
    let cases = format!("SELECT {} 1 {}", "CASE WHEN 1 = 1 THEN ".repeat(11), "END ".repeat(11));
    assert_eq!(error_number(&cases), 125);
}

/// The install scripts are what the dev server is for; `GO` and `$(schema)` are the client's.
#[test]
fn every_install_script_is_understood() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql");
    let mut scripts = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // archive-options.sql is for a DBA to adapt: filegroups and partitions are nothing that the dev server knows.
        let is_other = path.file_name().is_some_and(|name| name == "archive-options.sql");
        if is_other || path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        scripts += 1;
        let script = std::fs::read_to_string(&path).unwrap().replace("$(schema)", "readpast");
        let without_last_go = script.trim_end().trim_end_matches("\nGO");
        for batch in batches(without_last_go) {
            if let Err(error) = parse_batch(batch) {
                panic!("{}: {error} of\n{batch}", path.display());
            }
        }
    }
    assert!(scripts > 0, "no script in {folder}");
}

// No input may bring the server down

/// Each is repeated far beyond any limit; the thread has half of the usual stack.
#[test]
fn endless_nesting_is_an_error_and_no_stack_overflow() {
    let nested = [
        ("SELECT ", "(", "1", ")"),
        ("SELECT ", "- ", "1", ""),
        ("SELECT ", "f(", "1", ")"),
        ("SELECT ", "(SELECT ", "1", ")"),
        ("SELECT ", "1 + (", "1", ")"),
        ("SELECT ", "1 * (2 + f(", "1", "))"),
        ("SELECT ", "COALESCE(CAST(", "1", " AS int), 1)"),
        ("SELECT 1 WHERE ", "(", "1 = 1", ")"),
        ("SELECT 1 WHERE ", "NOT ", "1 = 1", ""),
        ("SELECT 1 WHERE ", "(1 = 1 OR (2 = 2 AND ", "1 = 1", "))"),
        ("SELECT 1 WHERE ", "EXISTS (SELECT 1 WHERE ", "1 = 1", ")"),
        ("SELECT 1 WHERE ", "1 IN (SELECT 1 WHERE ", "1 = 1", ")"),
        ("SELECT * FROM ", "(SELECT * FROM ", "t", ") x"),
        ("SELECT * FROM ", "(", "t JOIN u ON 1 = 1", ")"),
        ("SELECT * FROM ", "t JOIN ", "t", " ON 1 = 1"),
        ("", "(", "SELECT 1", ")"),
        ("", "BEGIN ", "SELECT 1", " END"),
        ("", "IF 1 = 1 ", "SELECT 1", ""),
        ("", "IF 1 = 1 SELECT 1 ELSE ", "SELECT 1", ""),
        ("", "WHILE 1 = 1 ", "SELECT 1", ""),
        ("", "BEGIN TRY ", "SELECT 1", " END TRY BEGIN CATCH END CATCH"),
        ("CREATE INDEX i ON t (a) WHERE ", "(", "a = 1", ")"),
        ("SELECT 1", " + 1", "", ""),
        ("SELECT 1", " COLLATE x", "", ""),
        ("SELECT 1", " UNION ALL SELECT 1", "", ""),
        ("SELECT * FROM t", " CROSS JOIN t", "", ""),
        ("EXEC ('a'", " + 'a'", ")", ""),
    ];
    let check = move || {
        for (start, open, inner, close) in nested {
            let text = format!("{start}{}{inner}{}", open.repeat(5000), close.repeat(5000));
            assert_eq!(error_number(&text), 191, "{start}{open}");
        }
    };
    // A quarter of what a session has, for a build without optimization.
    std::thread::Builder::new().stack_size(4 << 20).spawn(check).unwrap().join().unwrap();
}

#[test]
fn a_batch_cut_off_anywhere_is_no_panic() {
    for batch in batches(ACCEPTED) {
        for (end, _) in batch.char_indices() {
            let _ = parse_batch(&batch[..end]);
            let _ = parse_batch(&batch[end..]);
        }
    }
}

// Errors say where

#[test]
fn errors_and_statements_know_their_line() {
    let statements = parse_batch("\n-- comment\nSELECT 1;\n\nIF 1 = 1\n  SELECT 2").unwrap();
    assert_eq!(statements[0].line, 3);
    assert_eq!(statements[1].line, 5);
    let StatementKind::If { then, .. } = &statements[1].kind else { panic!() };
    assert_eq!(then.line, 6);

    let error = parse_batch("SELECT 1;\nSELECT a\nFORM t WHERE").unwrap_err();
    assert_eq!((error.number, error.line, error.severity), (102, 3, 15));
    assert_eq!(error.message, "Incorrect syntax near 't'.");
    let error = parse_batch("SELECT a FROM\nWHERE").unwrap_err();
    assert_eq!(error.message, "Incorrect syntax near the keyword 'WHERE'.");
    let error = parse_batch("SELECT 1;\nCHECKPOINT").unwrap_err();
    assert_eq!((error.number, error.line), (NOT_SUPPORTED, 2));
}
