//! MERGE.
//!
//! Source: "MERGE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/merge-transact-sql.md), and the messages of
//! docs/relational-databases/errors-events/database-engine-events-and-errors-5000-to-5999.md and -8000-to-8999.md.

use crate::error::NOT_SUPPORTED;
use crate::session::client_session::Session;
use crate::session::tests::harness::{engine, errors, login, ok, rows, run, session};

fn stock(s: &mut Session) {
    ok(
        s,
        "CREATE TABLE dbo.stock (sku varchar(10) NOT NULL PRIMARY KEY, n int NOT NULL CONSTRAINT n_range CHECK (n >= 0),
             seen datetime2 NOT NULL DEFAULT SYSUTCDATETIME());
         INSERT dbo.stock (sku, n) VALUES ('a', 1), ('b', 2), ('c', 3)",
    );
}

fn all(s: &mut Session) -> Vec<String> {
    rows(s, "SELECT sku, n FROM dbo.stock ORDER BY sku")
}

#[test]
fn an_upsert_updates_what_is_there_and_inserts_what_is_not() {
    let (_e, mut s) = session();
    stock(&mut s);
    let tokens = run(
        &mut s,
        "MERGE INTO dbo.stock WITH (HOLDLOCK) AS t
         USING (VALUES ('b', 20), ('d', 40)) AS v (sku, n) ON t.sku = v.sku
         WHEN MATCHED THEN UPDATE SET n = t.n + v.n
         WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (v.sku, v.n)
         OUTPUT deleted.n, inserted.sku, inserted.n, v.n;",
    );
    let found: Vec<&String> = tokens.iter().filter(|token| token.starts_with("ROW")).collect();
    assert_eq!(found, ["ROW(Int(2), String(\"b\"), Int(22), Int(20))", "ROW(Null, String(\"d\"), Int(40), Int(40))"]);
    assert!(tokens.contains(&"DONE(count=2)".to_string()), "{tokens:?}");
    assert_eq!(
        all(&mut s),
        [
            "ROW(String(\"a\"), Int(1))",
            "ROW(String(\"b\"), Int(22))",
            "ROW(String(\"c\"), Int(3))",
            "ROW(String(\"d\"), Int(40))"
        ]
    );
}

#[test]
fn a_clause_can_have_a_condition() {
    let (_e, mut s) = session();
    stock(&mut s);
    let changes = rows(
        &mut s,
        "DECLARE @new TABLE (sku varchar(10) PRIMARY KEY, n int);
         INSERT @new VALUES ('a', 0), ('b', 5), ('x', 0), ('y', 9);
         DECLARE @log TABLE (sku varchar(10));
         MERGE dbo.stock AS t USING @new AS s ON s.sku = t.sku
         WHEN MATCHED AND s.n > 0 THEN UPDATE SET n = s.n, seen = DEFAULT
         WHEN NOT MATCHED BY TARGET AND s.n > 0 THEN INSERT (sku, n, seen) VALUES (sku, n, DEFAULT)
         OUTPUT inserted.sku INTO @log;
         SELECT @@ROWCOUNT; SELECT sku FROM @log ORDER BY sku",
    );
    assert_eq!(changes, ["ROW(Int(2))", "ROW(String(\"b\"))", "ROW(String(\"y\"))"]);
}

#[test]
fn a_row_that_is_hit_twice_is_an_error() {
    let (_e, mut s) = session();
    stock(&mut s);
    assert_eq!(
        errors(
            &mut s,
            "MERGE dbo.stock AS t USING (VALUES ('a', 1), ('a', 2)) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = v.n;"
        ),
        [8672]
    );
}

#[test]
fn a_merge_that_fails_leaves_nothing_behind() {
    let (_e, mut s) = session();
    stock(&mut s);
    let before = all(&mut s);
    let merge = |source: &str| {
        format!(
            "MERGE dbo.stock AS t USING (VALUES {source}) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = v.n WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (v.sku, v.n);"
        )
    };
    assert_eq!(errors(&mut s, &merge("('a', 7), ('z', -1)")), [547]);
    assert_eq!(errors(&mut s, &merge("('a', 7), ('z', NULL)")), [515]);
    assert_eq!(errors(&mut s, &merge("('a', 7), ('z', 1), ('z', 2)")), [2627]);
    assert_eq!(all(&mut s), before);
}

#[test]
fn the_rules_of_the_clauses_are_checked() {
    let (_e, mut s) = session();
    stock(&mut s);
    let refused = |s: &mut Session, clauses: &str| {
        errors(s, &format!("MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku {clauses}"))
    };
    assert_eq!(refused(&mut s, "WHEN MATCHED THEN UPDATE SET n = 1"), [10713]);
    assert_eq!(refused(&mut s, "WHEN NOT MATCHED THEN UPDATE SET n = 1;"), [10710]);
    assert_eq!(
        refused(&mut s, "WHEN NOT MATCHED AND t.n = 1 THEN INSERT (sku, n) VALUES (v.sku, 1);"),
        [NOT_SUPPORTED]
    );
    assert_eq!(errors(&mut s, "MERGE dbo.stock USING dbo.stock ON 1 = 1 WHEN MATCHED THEN UPDATE SET n = 1;"), [5318]);
    for rare in [
        "WHEN MATCHED THEN DELETE;",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 1;",
        "WHEN MATCHED AND v.n = 1 THEN UPDATE SET n = 1 WHEN MATCHED THEN UPDATE SET n = 2;",
        "WHEN MATCHED THEN UPDATE SET n = 1 OUTPUT $action;",
    ] {
        assert_eq!(refused(&mut s, rare), [NOT_SUPPORTED], "{rare}");
    }
}

#[test]
fn a_key_can_go_from_one_row_to_another() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE slot (place int NOT NULL PRIMARY KEY, who char(1) NOT NULL UNIQUE WITH (IGNORE_DUP_KEY = ON));
         INSERT slot VALUES (1, 'x'), (2, 'y');
         MERGE slot AS t USING (VALUES (1, 'z'), (3, 'x')) AS v (place, who) ON t.place = v.place
         WHEN MATCHED THEN UPDATE SET who = v.who
         WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (v.place, v.who);",
    );
    // "If IGNORE_DUP_KEY is set to ON on any unique indexes on the target table, MERGE ignores this setting."
    assert_eq!(
        errors(
            &mut s,
            "MERGE slot AS t USING (VALUES (9, 'x')) AS v (place, who) ON t.place = v.place
             WHEN NOT MATCHED THEN INSERT VALUES (v.place, v.who);"
        ),
        [2627]
    );
}

#[test]
fn the_matched_row_is_locked_until_the_transaction_ends() {
    let engine = engine();
    let (mut a, mut b) = (login(&engine, "sa", "secret"), login(&engine, "sa", "secret"));
    stock(&mut a);
    ok(
        &mut a,
        "BEGIN TRAN; MERGE dbo.stock AS t USING (VALUES ('a')) AS v (sku) ON t.sku = v.sku
         WHEN MATCHED THEN UPDATE SET n = 5;",
    );
    assert_eq!(errors(&mut b, "SET LOCK_TIMEOUT 0; SELECT n FROM dbo.stock WHERE sku = 'a'"), [1222]);
    assert_eq!(rows(&mut b, "SELECT n FROM dbo.stock WITH (READPAST)"), ["ROW(Int(2))", "ROW(Int(3))"]);
    // READPAST on the target: the locked row counts as not matched.
    assert_eq!(
        errors(
            &mut b,
            "MERGE dbo.stock WITH (READPAST) AS t USING (VALUES ('a'), ('b')) AS v (sku) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = 6;"
        ),
        [] as [i32; 0]
    );
    ok(&mut a, "ROLLBACK");
    assert_eq!(all(&mut b)[..2], ["ROW(String(\"a\"), Int(1))", "ROW(String(\"b\"), Int(6))"]);
}

#[test]
fn two_sessions_that_merge_a_new_key_wait_for_each_other_under_holdlock() {
    let engine = engine();
    let (mut a, mut b) = (login(&engine, "sa", "secret"), login(&engine, "sa", "secret"));
    stock(&mut a);
    let merge = "MERGE dbo.stock WITH (HOLDLOCK) AS t USING (VALUES ('new', 1)) AS v (sku, n) ON t.sku = v.sku
                 WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (v.sku, v.n);";
    ok(&mut a, &format!("BEGIN TRAN; {merge}"));
    assert_eq!(errors(&mut b, &format!("SET LOCK_TIMEOUT 0; {merge}")), [1222]);
    ok(&mut a, "COMMIT");
    ok(&mut b, merge);
    assert_eq!(rows(&mut b, "SELECT n FROM dbo.stock WHERE sku = 'new'"), ["ROW(Int(2))"]);
}

#[test]
fn the_source_can_be_a_cte_over_the_target() {
    let (_e, mut s) = session();
    stock(&mut s);
    ok(
        &mut s,
        "WITH doubled AS (SELECT sku, n * 2 AS n FROM dbo.stock WHERE n > 1)
         MERGE dbo.stock AS t USING doubled ON doubled.sku = t.sku WHEN MATCHED THEN UPDATE SET t.n = doubled.n;",
    );
    assert_eq!(rows(&mut s, "SELECT SUM(n) FROM dbo.stock"), ["ROW(Int(11))"]);
}
