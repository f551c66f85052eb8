//! MERGE.
//!
//! Source: "MERGE" (MicrosoftDocs/sql-docs, docs/t-sql/statements/merge-transact-sql.md), and the messages of
//! docs/relational-databases/errors-events/database-engine-events-and-errors-5000-to-5999.md and -8000-to-8999.md.

use crate::session::tests::harness::check;

#[test]
fn clauses_sources_and_locks() {
    check(
        r#"CREATE TABLE dbo.stock (sku varchar(10) NOT NULL PRIMARY KEY, n int NOT NULL CONSTRAINT n_range CHECK (n >= 0),
                 seen datetime2 NOT NULL DEFAULT SYSUTCDATETIME());
             INSERT dbo.stock (sku, n) VALUES ('a', 1), ('b', 2), ('c', 3) => ok
         == an upsert updates what is there and inserts what is not
         MERGE INTO dbo.stock WITH (HOLDLOCK) AS t
             USING (VALUES ('b', 20), ('d', 40)) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = t.n + v.n
             WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (v.sku, v.n)
             OUTPUT deleted.n, inserted.sku, inserted.n, v.n;
             => tokens COLMETADATA(n Int, sku VarChar(Limit(10)), n Int, n Int)
             | ROW(2, 'b', 22, 20) | ROW(NULL, 'd', 40, 40) | DONE(count=2)
         SELECT sku, n FROM dbo.stock ORDER BY sku => 'a', 1 | 'b', 22 | 'c', 3 | 'd', 40
         == a clause can have a condition
         DECLARE @new TABLE (sku varchar(10) PRIMARY KEY, n int);
             INSERT @new VALUES ('a', 0), ('b', 5), ('x', 0), ('y', 9);
             DECLARE @log TABLE (sku varchar(10));
             MERGE dbo.stock AS t USING @new AS s ON s.sku = t.sku
             WHEN MATCHED AND s.n > 0 THEN UPDATE SET n = s.n, seen = DEFAULT
             WHEN NOT MATCHED BY TARGET AND s.n > 0 THEN INSERT (sku, n, seen) VALUES (sku, n, DEFAULT)
             OUTPUT inserted.sku INTO @log;
             SELECT @@ROWCOUNT; SELECT sku FROM @log ORDER BY sku => 2 | 'b' | 'y'
         == a row that is hit twice is an error
         MERGE dbo.stock AS t USING (VALUES ('a', 1), ('a', 2)) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = v.n; => error 8672
         == a merge that fails leaves nothing behind
         MERGE dbo.stock AS t USING (VALUES ('a', 7), ('z', -1)) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = v.n WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (v.sku, v.n);
             => error 547
         MERGE dbo.stock AS t USING (VALUES ('a', 7), ('z', 1), ('z', 2)) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = v.n WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (sku, v.n); => error 2627
         SELECT SUM(n) FROM dbo.stock => 6
         == a key can go from one row to another
         CREATE TABLE slot (place int NOT NULL PRIMARY KEY, who char(1) NOT NULL UNIQUE WITH (IGNORE_DUP_KEY = ON));
             INSERT slot VALUES (1, 'x'), (2, 'y');
             MERGE slot AS t USING (VALUES (1, 'z'), (3, 'x')) AS v (place, who) ON t.place = v.place
             WHEN MATCHED THEN UPDATE SET who = v.who
             WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (v.place, v.who); => ok
         -- "If IGNORE_DUP_KEY is set to ON on any unique indexes on the target table, MERGE ignores this setting."
         MERGE slot AS t USING (VALUES (9, 'x')) AS v (place, who) ON t.place = v.place
             WHEN NOT MATCHED THEN INSERT VALUES (v.place, v.who); => error 2627
         == the rules of the clauses are checked
         MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku WHEN MATCHED THEN UPDATE
             SET n = 1 => error 10713
         MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku WHEN NOT MATCHED THEN UPDATE
             SET n = 1; => error 59000
         MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku WHEN NOT MATCHED AND t.n = 1 THEN
             INSERT (sku, n) VALUES (v.sku, 1); => error 59000
         MERGE dbo.stock USING dbo.stock ON 1 = 1 WHEN MATCHED THEN UPDATE SET n = 1; => error 59000
         MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku WHEN MATCHED THEN
             DELETE; => error 59000
         MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku WHEN NOT MATCHED BY SOURCE THEN
             UPDATE SET n = 1; => error 59000
         MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku WHEN MATCHED AND v.n = 1 THEN
             UPDATE SET n = 1 WHEN MATCHED THEN UPDATE SET n = 2; => error 59000
         MERGE dbo.stock AS t USING (VALUES ('a', 1)) AS v (sku, n) ON t.sku = v.sku WHEN MATCHED THEN UPDATE SET n = 1
             OUTPUT $action; => error 59000
         == the matched row is locked until the transaction ends
         BEGIN TRAN; MERGE dbo.stock AS t USING (VALUES ('a')) AS v (sku) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = 5; => ok
         2: SET LOCK_TIMEOUT 0; SELECT n FROM dbo.stock WHERE sku = 'a' => error 1222
         2: SELECT n FROM dbo.stock WITH (READPAST) => 2 | 3
         -- READPAST on the target: the locked row counts as not matched.
         2: MERGE dbo.stock WITH (READPAST) AS t USING (VALUES ('a'), ('b')) AS v (sku) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = 6; => ok
         ROLLBACK => ok
         2: SELECT sku, n FROM dbo.stock ORDER BY sku => 'a', 1 | 'b', 6 | 'c', 3
         == two sessions that merge a new key wait for each other under holdlock
         BEGIN TRAN; MERGE dbo.stock WITH (HOLDLOCK) AS t USING (VALUES ('new', 1)) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (v.sku, v.n); => ok
         2: SET LOCK_TIMEOUT 0; MERGE dbo.stock WITH (HOLDLOCK) AS t USING (VALUES ('new')) AS v (sku) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = t.n + 1; => error 1222
         COMMIT => ok
         2: MERGE dbo.stock WITH (HOLDLOCK) AS t USING (VALUES ('new', 1)) AS v (sku, n) ON t.sku = v.sku
             WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (sku, n) VALUES (v.sku, v.n); => ok
         2: SELECT n FROM dbo.stock WHERE sku = 'new' => 2
         == the source can be a cte over the target
         WITH doubled AS (SELECT sku, n * 2 AS n FROM dbo.stock WHERE n > 1)
             MERGE dbo.stock AS t USING doubled ON doubled.sku = t.sku WHEN MATCHED THEN UPDATE
             SET t.n = doubled.n; => ok
         SELECT SUM(n) FROM dbo.stock => 11"#,
    );
}
