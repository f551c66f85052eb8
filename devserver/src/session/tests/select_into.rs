//! SELECT … INTO.
//!
//! Source: "INTO Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-into-clause-transact-sql.md).

use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, ok, rows, session};

fn jobs(s: &mut Session) {
    ok(
        s,
        "CREATE TABLE jobs (id int IDENTITY(10, 10) PRIMARY KEY, state tinyint NOT NULL, note varchar(20) NULL, v rowversion);
         INSERT jobs (state, note) VALUES (0, 'a'), (1, 'b'), (0, NULL)",
    );
}

#[test]
fn a_temporary_table_takes_names_types_and_the_identity() {
    let (_e, mut s) = session();
    jobs(&mut s);
    let found = rows(
        &mut s,
        "SELECT id, note, state + 1 AS next INTO #ready FROM jobs WHERE state = 0;
         SELECT @@ROWCOUNT;
         INSERT #ready (note, next) VALUES ('new', 7);
         SELECT id, note, next FROM #ready ORDER BY id",
    );
    assert_eq!(
        found,
        [
            "ROW(Int(2))",
            "ROW(Int(10), String(\"a\"), Int(1))",
            "ROW(Int(30), Null, Int(1))",
            "ROW(Int(40), String(\"new\"), Int(7))"
        ]
    );
    assert_eq!(errors(&mut s, "SELECT 1 AS a INTO #ready"), [2714]);
}

#[test]
fn a_join_or_a_union_gives_no_identity() {
    let (_e, mut s) = session();
    jobs(&mut s);
    ok(
        &mut s,
        "SELECT a.id INTO dbo.joined FROM jobs AS a JOIN jobs AS b ON b.id = a.id; INSERT joined (id) VALUES (1)",
    );
    ok(&mut s, "SELECT id INTO both FROM jobs UNION ALL SELECT id FROM jobs; INSERT both VALUES (1)");
    assert_eq!(
        rows(&mut s, "SELECT (SELECT COUNT(*) FROM joined), (SELECT COUNT(*) FROM both)"),
        ["ROW(Int(4), Int(7))"]
    );
}

#[test]
fn an_empty_copy_and_what_is_refused() {
    let (_e, mut s) = session();
    jobs(&mut s);
    ok(&mut s, "SELECT TOP (0) * INTO archive FROM jobs; INSERT archive (state) VALUES (3)");
    assert_eq!(rows(&mut s, "SELECT id, state FROM archive"), ["ROW(Int(10), TinyInt(3))"]);
    assert_eq!(errors(&mut s, "SELECT 1 INTO nameless"), [1038]);
    assert_eq!(errors(&mut s, "SELECT 1 AS a, 2 AS A INTO twice"), [2705]);
    assert_eq!(errors(&mut s, "SELECT * INTO archive FROM jobs"), [2714]);
    assert_eq!(errors(&mut s, "SELECT * INTO nowhere FROM missing"), [208]);
}

#[test]
fn the_empty_table_stays_when_the_rows_cannot_be_read() {
    let (_e, mut s) = session();
    jobs(&mut s);
    assert_eq!(errors(&mut s, "SELECT id / (id - 20) AS n INTO broken FROM jobs"), [8134]);
    assert_eq!(rows(&mut s, "SELECT COUNT(*) FROM broken"), ["ROW(Int(0))"]);
    ok(&mut s, "BEGIN TRAN; SELECT id INTO gone FROM jobs; ROLLBACK");
    assert_eq!(errors(&mut s, "SELECT * FROM gone"), [208]);
}
