//! What queries give.

use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, ok, rows, run, session};

fn people(s: &mut Session) {
    ok(
        s,
        "CREATE TABLE people (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL, town varchar(10) NULL, age int NULL);
         INSERT people VALUES (1, N'Ann', 'Bonn', 30), (2, N'Bob', 'Bonn', 20), (3, N'Cid', 'Rome', 40), (4, NULL, NULL, NULL)",
    );
}

fn ints(s: &mut Session, sql: &str) -> Vec<String> {
    rows(s, sql)
        .into_iter()
        .map(|row| row.replace("Int(", "").replace("Big", "").replace("ROW(", "").replace(')', ""))
        .collect()
}

#[test]
fn conditions_with_null_are_unknown() {
    let (_e, mut s) = session();
    people(&mut s);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE age > 25"), ["1", "3"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE NOT age > 25"), ["2"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE age IS NULL"), ["4"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE age IN (20, NULL)"), ["2"]);
    assert!(ints(&mut s, "SELECT id FROM people WHERE age NOT IN (20, NULL)").is_empty());
    assert!(ints(&mut s, "SELECT id FROM people WHERE id NOT IN (SELECT age FROM people)").is_empty());
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE name LIKE N'%b'"), ["2"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE age BETWEEN 30 AND 40"), ["1", "3"]);
}

#[test]
fn groups_and_aggregates() {
    let (_e, mut s) = session();
    people(&mut s);
    let sql = "SELECT town, COUNT(*), COUNT(age), SUM(age), MIN(age), MAX(age) FROM people GROUP BY town ORDER BY town";
    assert_eq!(
        rows(&mut s, sql),
        [
            "ROW(Null, Int(1), Int(0), Null, Null, Null)",
            "ROW(String(\"Bonn\"), Int(2), Int(2), Int(50), Int(20), Int(30))",
            "ROW(String(\"Rome\"), Int(1), Int(1), Int(40), Int(40), Int(40))",
        ]
    );
    assert_eq!(ints(&mut s, "SELECT COUNT(*) FROM people WHERE id > 100"), ["0"]);
    assert_eq!(rows(&mut s, "SELECT MAX(id) FROM people WHERE id > 100"), ["ROW(Null)"]);
    assert!(rows(&mut s, "SELECT COUNT(*) FROM people WHERE id > 100 GROUP BY town").is_empty());
    assert_eq!(ints(&mut s, "SELECT COUNT(*) FROM people GROUP BY town HAVING COUNT(*) > 1"), ["2"]);
    assert_eq!(ints(&mut s, "SELECT COUNT(DISTINCT town) FROM people"), ["2"]);
    assert_eq!(ints(&mut s, "SELECT age / 10 * 2 + COUNT(*) FROM people WHERE id = 1 GROUP BY age / 10"), ["7"]);
    assert_eq!(rows(&mut s, "SELECT STRING_AGG(name, ', ') FROM people"), ["ROW(String(\"Ann, Bob, Cid\"))"]);
}

#[test]
fn joins_of_all_kinds() {
    let (_e, mut s) = session();
    people(&mut s);
    ok(
        &mut s,
        "CREATE TABLE towns (town varchar(10) NOT NULL, land int); INSERT towns VALUES ('bonn', 1), ('Oslo', 2)",
    );
    let inner = "SELECT p.id, t.land FROM people p JOIN towns t ON t.town = p.town ORDER BY p.id";
    assert_eq!(ints(&mut s, inner), ["1, 1", "2, 1"]);
    let left = "SELECT p.id, t.land FROM people p LEFT JOIN towns t ON t.town = p.town ORDER BY p.id";
    assert_eq!(ints(&mut s, left), ["1, 1", "2, 1", "3, Null", "4, Null"]);
    let anti = "SELECT p.id FROM people p LEFT JOIN towns t ON t.town = p.town WHERE t.town IS NULL ORDER BY p.id";
    assert_eq!(ints(&mut s, anti), ["3", "4"]);
    let right = "SELECT p.id, t.land FROM people p RIGHT JOIN towns t ON t.town = p.town ORDER BY t.land, p.id";
    assert_eq!(ints(&mut s, right), ["1, 1", "2, 1", "Null, 2"]);
    assert_eq!(ints(&mut s, "SELECT COUNT(*) FROM people CROSS JOIN towns"), ["8"]);
    let hinted = "SELECT p.id FROM people p INNER LOOP JOIN towns t ON t.town = p.town ORDER BY p.id";
    assert_eq!(ints(&mut s, hinted), ["1", "2"]);
    let apply = "SELECT p.id, a.n FROM people p OUTER APPLY (SELECT COUNT(*) AS n FROM towns t WHERE t.town = p.town) a ORDER BY p.id";
    assert_eq!(ints(&mut s, apply), ["1, 1", "2, 1", "3, 0", "4, 0"]);
    let outer_apply = "SELECT p.id, a.land FROM people p OUTER APPLY (SELECT t.land FROM towns t WHERE t.town = p.town) a ORDER BY p.id";
    assert_eq!(ints(&mut s, outer_apply), ["1, 1", "2, 1", "3, Null", "4, Null"]);
    let constant = "SELECT p.id, d.one FROM people p LEFT JOIN (SELECT town, 1 AS one FROM towns) d ON d.town = p.town ORDER BY p.id";
    assert_eq!(ints(&mut s, constant), ["1, 1", "2, 1", "3, Null", "4, Null"]);
}

#[test]
fn order_top_and_offset() {
    let (_e, mut s) = session();
    people(&mut s);
    assert_eq!(ints(&mut s, "SELECT TOP (2) id FROM people ORDER BY age DESC"), ["3", "1"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people ORDER BY id DESC"), ["4", "3", "2", "1"]);
    assert_eq!(ints(&mut s, "SELECT id AS x FROM people ORDER BY x OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY"), ["2", "3"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people ORDER BY town, 1 DESC"), ["4", "2", "1", "3"]);
    assert_eq!(ints(&mut s, "DECLARE @n int = 0; SELECT TOP (@n) id FROM people"), Vec::<String>::new());
    assert_eq!(ints(&mut s, "SELECT DISTINCT LEN(town) FROM people ORDER BY LEN(town)"), ["Null", "4"]);
}

#[test]
fn set_operations() {
    let (_e, mut s) = session();
    people(&mut s);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE id < 3 UNION ALL SELECT 2 ORDER BY 1"), ["1", "2", "2"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE id < 3 UNION SELECT 2 ORDER BY id"), ["1", "2"]);
    assert_eq!(errors(&mut s, "SELECT p.id FROM people AS p UNION SELECT 2 ORDER BY p.id"), [59000]);
    assert_eq!(rows(&mut s, "SELECT 1 UNION ALL SELECT NULL"), ["ROW(Int(1))", "ROW(Null)"]);
    assert_eq!(rows(&mut s, "SELECT NULL UNION ALL SELECT 'x'"), ["ROW(Null)", "ROW(String(\"x\"))"]);
}

#[test]
fn windows_number_rows_within_partitions() {
    let (_e, mut s) = session();
    people(&mut s);
    let sql = "SELECT id, ROW_NUMBER() OVER (PARTITION BY town ORDER BY age DESC) AS n FROM people ORDER BY id";
    assert_eq!(ints(&mut s, sql), ["1, 1", "2, 2", "3, 1", "4, 1"]);
    let filtered = "WITH n AS (SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS n FROM people) SELECT id FROM n WHERE n <= 2 ORDER BY n";
    assert_eq!(ints(&mut s, filtered), ["4", "3"]);
    let rank = "SELECT ROW_NUMBER() OVER (ORDER BY town, id), COUNT(*) OVER () FROM people ORDER BY id";
    assert_eq!(ints(&mut s, rank), ["2, 4", "3, 4", "4, 4", "1, 4"]);
}

#[test]
fn subqueries_see_the_row_around_them() {
    let (_e, mut s) = session();
    people(&mut s);
    let scalar = "SELECT id, (SELECT COUNT(*) FROM people AS o WHERE o.town = p.town) FROM people AS p ORDER BY id";
    assert_eq!(ints(&mut s, scalar), ["1, 2", "2, 2", "3, 1", "4, 0"]);
    let exists =
        "SELECT id FROM people AS p WHERE EXISTS (SELECT 1 FROM people AS o WHERE o.town = p.town AND o.id <> p.id)";
    assert_eq!(ints(&mut s, exists), ["1", "2"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE age = (SELECT MAX(age) FROM people)"), ["3"]);
    assert_eq!(ints(&mut s, "SELECT id FROM people WHERE id IN (SELECT id FROM people WHERE age < 35)"), ["1", "2"]);
    assert_eq!(ints(&mut s, "SELECT v.n FROM (VALUES (1), (2)) AS v (n) WHERE v.n > 1"), ["2"]);
    assert_eq!(ints(&mut s, "SELECT CASE WHEN EXISTS (SELECT 1 FROM people) THEN 1 ELSE 0 END"), ["1"]);
}

#[test]
fn variables_take_values_in_order() {
    let (_e, mut s) = session();
    people(&mut s);
    assert_eq!(ints(&mut s, "DECLARE @a int, @b int; SELECT @a = 1, @b = @a + 1; SELECT @a, @b"), ["1, 2"]);
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @all nvarchar(100) = N''; SELECT @all += name FROM people WHERE name IS NOT NULL; SELECT @all"
        ),
        ["ROW(String(\"AnnBobCid\"))"]
    );
    assert_eq!(ints(&mut s, "DECLARE @a int = 5; SELECT @a = id FROM people WHERE id = 99; SELECT @a"), ["5"]);
    assert_eq!(
        ints(&mut s, "DECLARE @i int = 0; WHILE @i < 5 BEGIN SET @i += 1; IF @i = 3 BREAK; END; SELECT @i"),
        ["3"]
    );
}

/// `SELECT *` has the columns of the time when the view or function was made ("sp_refreshview",
/// docs/relational-databases/system-stored-procedures/sp-refreshview-transact-sql.md). 4502:
/// docs/relational-databases/errors-events/database-engine-events-and-errors-4000-to-4999.md.
#[test]
fn what_selects_all_columns_does_not_follow_its_table() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE b (x int, y int); INSERT b VALUES (1, 2)");
    ok(&mut s, "CREATE VIEW v AS SELECT * FROM b");
    ok(&mut s, "CREATE VIEW named (p, q) AS SELECT * FROM b");
    ok(&mut s, "CREATE VIEW x_only AS SELECT x FROM b");
    let all = ["SELECT * FROM v", "SELECT * FROM named"];
    let outcomes = |s: &mut Session| all.map(|query| errors(s, query));
    ok(&mut s, "ALTER TABLE b ADD z int");
    assert_eq!(outcomes(&mut s), [[59000], [59000]]);
    ok(&mut s, "ALTER TABLE b DROP COLUMN z");
    assert!(outcomes(&mut s).concat().is_empty());
    ok(&mut s, "EXEC sp_rename 'b.y', 'w', 'COLUMN'");
    assert_eq!(outcomes(&mut s).concat(), [59000]);
    assert_eq!(rows(&mut s, "SELECT q FROM named"), ["ROW(Int(2))"]);
    ok(&mut s, "ALTER TABLE b DROP COLUMN w");
    assert_eq!(outcomes(&mut s), [[4502], [4502]]);
    assert_eq!(rows(&mut s, "SELECT * FROM x_only"), ["ROW(Int(1))"]);
    ok(&mut s, "ALTER VIEW v AS SELECT * FROM b");
    assert_eq!(rows(&mut s, "SELECT * FROM v"), ["ROW(Int(1))"]);
}

#[test]
fn views_are_part_of_the_query_that_uses_them() {
    let (_e, mut s) = session();
    people(&mut s);
    ok(&mut s, "CREATE VIEW adults AS SELECT id, name, age FROM people WHERE age >= 30");
    assert_eq!(ints(&mut s, "SELECT id FROM adults WHERE age < 40"), ["1"]);
    assert_eq!(ints(&mut s, "SELECT COUNT(*) FROM adults"), ["2"]);
}

#[test]
fn the_number_of_rows_is_known_to_the_next_statement() {
    let (_e, mut s) = session();
    people(&mut s);
    assert_eq!(rows(&mut s, "SELECT id FROM people WHERE id < 3; SELECT @@ROWCOUNT")[2], "ROW(Int(2))");
    assert_eq!(rows(&mut s, "UPDATE people SET age = 1; SELECT @@ROWCOUNT"), ["ROW(Int(4))"]);
    assert_eq!(rows(&mut s, "DECLARE @a int; SET @a = 2; SELECT @@ROWCOUNT"), ["ROW(Int(1))"]);
    // IF is a statement too.
    assert_eq!(rows(&mut s, "DELETE people WHERE id = 4; IF @@ROWCOUNT = 1 SELECT @@ROWCOUNT"), ["ROW(Int(0))"]);
}

#[test]
fn subqueries_read_the_columns_of_group_by() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE j (id int PRIMARY KEY, q char(1), n int); INSERT j VALUES (1, 'a', 5), (2, 'a', 7), (3, 'b', 1), (4, NULL, 2);
         CREATE TABLE q (name char(1), most int); INSERT q VALUES ('a', 10), ('b', 20)",
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT j.q, COUNT(*), (SELECT q.most FROM q WHERE q.name = j.q) FROM j GROUP BY j.q
             HAVING SUM(j.n) < (SELECT MAX(most) FROM q WHERE name >= j.q) OR j.q IS NULL ORDER BY j.q"
        ),
        ["ROW(Null, Int(1), Null)", "ROW(String(\"a\"), Int(2), Int(10))", "ROW(String(\"b\"), Int(1), Int(20))"]
    );
    assert_eq!(
        errors(&mut s, "SELECT q, (SELECT most FROM q WHERE q.name = j.q AND most > j.n) FROM j GROUP BY q"),
        [8120]
    );
}

// Source: [MS-TDS] 2.2.7, "ORDER": by which columns the rows are ordered, behind COLMETADATA.
#[test]
fn the_client_is_told_by_which_columns_a_result_is_ordered() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b int, c int); INSERT t VALUES (1, 2, 3)");
    let order = |s: &mut _, sql: &str| {
        let tokens = run(s, sql);
        assert!(tokens[0].starts_with("COLMETADATA"), "{tokens:?}");
        tokens.into_iter().nth(1).filter(|token| token.starts_with("ORDER"))
    };
    for (sql, columns) in [
        ("SELECT a, b, c FROM t ORDER BY c, a DESC", Some("ORDER(3, 1)")),
        // In order by its index: nothing is sorted.
        ("SELECT b, a FROM t ORDER BY a", Some("ORDER(2)")),
        ("SELECT a AS x, b + 1 FROM t ORDER BY 2, x", Some("ORDER(2, 1)")),
        ("SELECT a FROM t UNION ALL SELECT b FROM t ORDER BY a", Some("ORDER(1)")),
        ("SELECT b, COUNT(*) AS n FROM t GROUP BY b ORDER BY n", Some("ORDER(2)")),
        ("SELECT a FROM t", None),
        ("SELECT d.a FROM (SELECT TOP (1) a FROM t ORDER BY a) AS d", None),
        ("DELETE t OUTPUT deleted.a WHERE a = 9", None),
    ] {
        assert_eq!(order(&mut s, sql).as_deref(), columns, "{sql}");
    }
}

/// Source: "SET FMTONLY" (docs/t-sql/statements/set-fmtonly-transact-sql.md): "No rows are processed or sent to the
/// client because of the request when SET FMTONLY is turned ON."
#[test]
fn under_fmtonly_there_are_columns_and_no_rows() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int NOT NULL PRIMARY KEY, b varchar(5)); INSERT t VALUES (1, 'x')");
    // As bulk copy clients ask.
    assert_eq!(
        run(&mut s, "SET FMTONLY ON select * from t SET FMTONLY OFF"),
        ["DONE(more)", "COLMETADATA(a Int, b VarChar(Limit(5)))", "DONE(count=0, more)", "DONE()"]
    );
    ok(&mut s, "SET FMTONLY ON");
    assert_eq!(run(&mut s, "SELECT 1 / 0 AS x"), ["COLMETADATA(x Int)", "DONE(count=0)"]);
    assert_eq!(
        run(&mut s, "DELETE t OUTPUT deleted.b; INSERT t VALUES (2, 'y')"),
        ["COLMETADATA(b VarChar(Limit(5)))", "DONE(count=0, more)", "DONE()"]
    );
    assert_eq!(errors(&mut s, "SELECT * FROM nobody"), [208]);
    // As Microsoft's bulk copy clients ask (SqlBulkCopy.cs of dotnet/SqlClient).
    assert_eq!(
        run(&mut s, "EXEC (N'SELECT a' + N' FROM t')"),
        ["COLMETADATA(a Int)", "DONEINPROC(count=0, more)", "DONEPROC()"]
    );
    for refused in ["IF 1 = 1 SELECT 1", "CREATE TABLE u (a int)", "EXEC sp_executesql N'SELECT 1'", "PRINT 'a'"] {
        assert_eq!(errors(&mut s, refused), [59000], "{refused}");
    }
    assert_eq!(rows(&mut s, "SET FMTONLY OFF; SELECT a, b FROM t"), ["ROW(Int(1), String(\"x\"))"]);
}

/// Source: "SELECT @local_variable" (docs/t-sql/language-elements/select-local-variable-transact-sql.md), which calls
/// it undefined; the query is that of Microsoft's bulk copy clients.
#[test]
fn a_variable_gathers_the_rows_in_their_order() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (b int, a int, c int)");
    assert_eq!(
        rows(
            &mut s,
            "DECLARE @names nvarchar(max) = NULL;
             SELECT @names = COALESCE(@names + N', ', N'') + QUOTENAME(name) FROM sys.all_columns
             WHERE object_id = OBJECT_ID(N't') ORDER BY column_id DESC;
             SELECT @names"
        ),
        ["ROW(String(\"[c], [a], [b]\"))"]
    );
}

/// The separator of STRING_AGG "is an expression of type nvarchar or varchar … It can be literal or variable". Source:
/// "STRING_AGG" (MicrosoftDocs/sql-docs, docs/t-sql/functions/string-agg-transact-sql.md).
#[test]
fn the_separator_of_string_agg_is_one_text() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a varchar(5), b varchar(5)); INSERT t VALUES ('x', 'y'), ('x', 'z')");
    for separator in ["','", "N','", "','+''"] {
        assert_eq!(rows(&mut s, &format!("SELECT STRING_AGG(a, {separator}) FROM t")), ["ROW(String(\"x,x\"))"]);
    }
    assert_eq!(
        rows(&mut s, "DECLARE @s varchar(2) = '; '; SELECT STRING_AGG(a, @s) FROM t"),
        ["ROW(String(\"x; x\"))"]
    );
    for separator in ["b", "1", "CAST(',' AS varchar(max))", "',' COLLATE Latin1_General_BIN2"] {
        assert_eq!(errors(&mut s, &format!("SELECT STRING_AGG(a, {separator}) FROM t")), [59000], "{separator}");
    }
}

/// 408, 5308 and 5309 (docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md and
/// …-5000-to-5999.md).
#[test]
fn constants_are_no_order() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int); INSERT t VALUES (2), (1)");
    let tokens = run(&mut s, "SELECT a FROM t ORDER BY a, 1 + 0");
    assert!(
        tokens[0].starts_with("ERROR(408, A constant expression was encountered in the ORDER BY list, position 2.")
    );
    for (query, number) in [
        ("SELECT a FROM t ORDER BY 'a' + 'b'", 408),
        ("SELECT a FROM t ORDER BY NULL", 408),
        ("SELECT a FROM t ORDER BY -1", 59000),
        ("SELECT ROW_NUMBER() OVER (ORDER BY 1) FROM t", 5308),
        ("SELECT ROW_NUMBER() OVER (ORDER BY NULL) FROM t", 5309),
        ("SELECT ROW_NUMBER() OVER (ORDER BY 'x') FROM t", 5309),
    ] {
        assert_eq!(errors(&mut s, query), [number], "{query}");
    }
    let expected = ["ROW(Int(1))", "ROW(Int(2))"];
    for query in [
        "SELECT a FROM (SELECT a, 1 AS one FROM t) AS d ORDER BY d.one + 0, a",
        "DECLARE @v int = 1; SELECT a FROM t ORDER BY @v + 1, a",
        "SELECT a FROM t ORDER BY (SELECT NULL), a",
    ] {
        assert_eq!(rows(&mut s, query), expected, "{query}");
    }
    ok(&mut s, "SELECT ROW_NUMBER() OVER (ORDER BY (SELECT NULL)) FROM t");
    ok(&mut s, "SELECT ROW_NUMBER() OVER (ORDER BY d.one) FROM (SELECT a, 1 AS one FROM t) AS d");
}
