//! Names of collations.

use crate::session::tests::harness::check;

// Sources: "COLLATE", docs/t-sql/statements/collations.md; "Windows collation name",
// docs/t-sql/statements/windows-collation-name-transact-sql.md.
#[test]
fn a_collation_is_known_refused_by_name_or_invalid() {
    check(
        "CREATE TABLE t (a varchar(10) COLLATE Latin1_General_CI_AS, b nvarchar(10) COLLATE
             Latin1_General_100_CI_AS) => ok
         INSERT t VALUES ('Abc', N'Abc') => ok
         SELECT 1 AS found FROM t WHERE a = 'aBC' AND b = N'ABC' => 1
         SELECT collation_name FROM sys.columns WHERE object_id = OBJECT_ID('t')
             ORDER BY column_id => 'Latin1_General_CI_AS' | 'Latin1_General_100_CI_AS'
         -- Of two columns neither has the say.
         SELECT 1 FROM t WHERE a = b => error 468
         SELECT 'a' COLLATE SQL_Latin1_General_CP1_CS_AS ;; CREATE TABLE u (a varchar(10) COLLATE Turkish_100_CI_AS) ;;
             SELECT 'a' COLLATE utf8_general_ci => error 59000
         CREATE TABLE u (a varchar(10) COLLATE nothing) => error 59000",
    );
}

// Sources: "Collation precedence" (docs/t-sql/statements/collation-precedence-transact-sql.md); 468 and 1757:
// docs/relational-databases/errors-events/database-engine-events-and-errors-0-to-999.md, …-1000-to-1999.md.
#[test]
fn two_collations_meet() {
    check(
        r#"CREATE TABLE t (i varchar(9) COLLATE Latin1_General_CI_AS PRIMARY KEY,
             c varchar(9) COLLATE Latin1_General_BIN2) => ok
         INSERT t VALUES ('a', 'A'), ('b', 'b') => ok
         SELECT 1 FROM t WHERE i = c
             => error 468 conflict between "Latin1_General_CI_AS" and "Latin1_General_BIN2" in the equal to operation.
         SELECT 1 FROM t WHERE i <> c => error 468 in the not equal to operation.
         SELECT 1 FROM t WHERE i < c => error 468 in the less than operation.
         SELECT 1 FROM t WHERE i LIKE c => error 468 in the like operation.
         SELECT 1 FROM t WHERE i IN (c) => error 468 in the equal to operation.
         SELECT i COLLATE Latin1_General_CI_AS + c COLLATE Latin1_General_BIN2 FROM t
             => error 468 in the add operation.
         -- What has no collation cannot stand where one is needed.
         SELECT i + c FROM t ;; SELECT CASE WHEN i = 'a' THEN i ELSE c END FROM t ;;
             SELECT 1 FROM t ORDER BY COALESCE(i, c) ;; SELECT COUNT(*) FROM t GROUP BY COALESCE(c, i) ;;
             SELECT MAX(COALESCE(c, i)) FROM t ;; SELECT i FROM t UNION ALL SELECT c FROM t => error 59000
         SELECT LEN(i + c COLLATE Latin1_General_CI_AS) FROM t WHERE i = c COLLATE Latin1_General_CI_AS => 2 | 2
         SELECT CASE WHEN i = 'a' THEN i ELSE c END COLLATE Latin1_General_CI_AS FROM t => 'a' | 'b'
         -- A constant takes the collation of the column that it meets.
         SELECT 'a' AS x UNION SELECT c FROM t => 'a' | 'A' | 'b'
         SELECT 'A' UNION SELECT i FROM t => 'A' | 'b'
         CREATE TABLE u (c varchar(9) COLLATE Latin1_General_BIN2 REFERENCES t (i)) => error 59000"#,
    );
}
