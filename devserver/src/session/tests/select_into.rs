//! SELECT … INTO.
//!
//! Source: "INTO Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-into-clause-transact-sql.md).

use crate::session::tests::harness::check;

#[test]
fn the_new_table_is_made_of_the_query() {
    check(
        "CREATE TABLE jobs (id int IDENTITY(10, 10) PRIMARY KEY, state tinyint NOT NULL, note varchar(20) NULL, v
             rowversion);
             INSERT jobs (state, note) VALUES (0, 'a'), (1, 'b'), (0, NULL) => ok
         == a temporary table takes names types and the identity
         SELECT id, note, state + 1 AS next INTO #ready FROM jobs WHERE state = 0;
             SELECT @@ROWCOUNT;
             INSERT #ready (note, next) VALUES ('new', 7);
             SELECT id, note, next FROM #ready ORDER BY id => 2 | 10, 'a', 1 | 30, NULL, 1 | 40, 'new', 7
         SELECT 1 AS a INTO #ready => error 2714
         == a join or a union gives no identity
         SELECT a.id INTO #joined FROM jobs AS a JOIN jobs AS b ON b.id = a.id; INSERT #joined (id) VALUES (1) => ok
         SELECT id INTO #both FROM jobs UNION ALL SELECT id FROM jobs; INSERT #both VALUES (1) => ok
         SELECT (SELECT COUNT(*) FROM #joined), (SELECT COUNT(*) FROM #both) => 4, 7
         == an empty copy and what is refused
         SELECT TOP (0) * INTO #archive FROM jobs; INSERT #archive (state) VALUES (3) => ok
         SELECT id, state FROM #archive => 10, TinyInt(3)
         SELECT 1 INTO #nameless ;; SELECT 1 AS a, 2 AS A INTO #twice => error 59000
         SELECT * INTO #nowhere FROM missing => error 208
         SELECT * INTO archive FROM jobs => error 59000
         == the empty table stays when the rows cannot be read
         SELECT id / (id - 20) AS n INTO #broken FROM jobs => error 8134
         SELECT COUNT(*) FROM #broken => 0",
    );
}
