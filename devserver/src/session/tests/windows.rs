//! Window functions.
//!
//! Source: "SELECT - OVER Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-over-clause-transact-sql.md) and
//! the pages of the functions in docs/t-sql/functions/.

use crate::session::tests::harness::check;

#[test]
fn windows_over_sales() {
    check(
        r#"CREATE TABLE sales (who char(1) NOT NULL, day int NOT NULL, n int NOT NULL);
             INSERT sales VALUES ('a', 1, 10), ('a', 2, 20), ('a', 2, 30), ('a', 4, 40), ('b', 1, 5), ('b', 3, 7) => ok
         == running totals take peers along
         SELECT SUM(n) OVER (PARTITION BY who ORDER BY day) FROM sales ORDER BY who, day, n
             => 10 | 60 | 60 | 100 | 5 | 12
         SELECT SUM(n) OVER (PARTITION BY who) FROM sales ORDER BY who => 100 | 100 | 100 | 100 | 12 | 12
         SELECT FIRST_VALUE(n) OVER (PARTITION BY who ORDER BY day DESC) FROM sales ORDER BY who
             => 40 | 40 | 40 | 40 | 7 | 7
         SELECT DISTINCT SUM(n) OVER () FROM sales => 112
         == what over refuses
         SELECT FIRST_VALUE(n) OVER (PARTITION BY who) FROM sales => error 4112
         SELECT ROW_NUMBER() OVER (ORDER BY n ROWS UNBOUNDED PRECEDING) FROM sales ;;
             SELECT LAG(n) OVER (ORDER BY n) FROM sales ;; SELECT SUM(COUNT(*)) OVER () FROM sales ;;
             SELECT COUNT(DISTINCT n) OVER () FROM sales => error 59000
         SELECT ROW_NUMBER() FROM sales => error 10753
         SELECT 1 FROM sales WHERE ROW_NUMBER() OVER (ORDER BY n) = 1 => error 4108
         == a sequence gives one value to a row
         -- "NEXT VALUE FOR" (docs/t-sql/functions/next-value-for-transact-sql.md): one value for each row, however
         -- often it is named.
         CREATE SEQUENCE numbers AS int START WITH 1 => ok
         SELECT NEXT VALUE FOR numbers, NEXT VALUE FOR numbers + 100 FROM (VALUES (1), (2)) AS v (x) => 1, 101 | 2, 102
         SELECT n, NEXT VALUE FOR numbers OVER (ORDER BY n DESC) FROM sales WHERE who = 'b' ORDER BY n => 5, 4 | 7, 3"#,
    );
}
