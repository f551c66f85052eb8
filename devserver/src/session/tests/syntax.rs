//! What the parser makes of T-SQL, seen by what it does.

use crate::session::tests::harness::check;

#[test]
fn texts_mean_what_they_mean_in_tsql() {
    check(
        r#"CREATE TABLE t (f int INDEX ix); INSERT t VALUES (2), (1) => ok
         == operators bind as in tsql
         SELECT 1 + 2 * 3, 1 - 2 - 3, (1 - (2 - 3)) * 4, 1 + 2 & 6 - 4, 100 / -2 * 5, -1 + 2
             => 7, -4, 8, -2, -10, 1
         SELECT 'a' + 'B' COLLATE Latin1_General_BIN2 => 'aB'
         == conditions bind as in tsql
         SELECT 1 WHERE 1 = 1 OR 1 = 2 AND 1 = 3 => 1
         SELECT 1 WHERE NOT 1 = 2 AND 1 = 2 => none
         SELECT 1 WHERE (1 = 1 AND 2 = 2) AND 3 !> 3 AND ((1) + 1) * 2 > (3) AND ((1 = 1)) => 1
         SELECT 1 WHERE 1 BETWEEN 1 AND 2 AND 3 NOT IN (1, 2) => 1
         == literals and names have their types and parts
         CREATE VIEW typed AS SELECT 2147483647 AS a, 2147483648 AS [b]]c], 1.50 AS "d""e" => ok
         SELECT system_type_id, precision, scale, name FROM sys.columns WHERE object_id = OBJECT_ID('typed')
             => TinyInt(56), TinyInt(10), TinyInt(0), 'a' | TinyInt(108), TinyInt(10), TinyInt(0), 'b]c'
             | TinyInt(108), TinyInt(3), TinyInt(2), 'd"e'
         SELECT N'it''s' AS größe, NULL => 'it's', NULL
         sElEcT 0xABC, 0x, N'日本', '日本' => Bytes([10, 188]), Bytes([]), '日本', '??'
         SELECT [t].[f] FROM [readpast]..t WHERE f = 1 => 1
         BEGIN TRY -- one
             /* two /* three
             */ */ SELECT 'x
             y', 1 / 0 END TRY BEGIN CATCH SELECT ERROR_LINE() END CATCH => 3
         == select items are aliases assignments and wildcards
         SELECT a = 1, 2 AS b, 3 c, 'd' = 4, *, t.*, f FROM t WHERE f = 1
             => tokens COLMETADATA(a Int, b Int, c Int, d Int, f Int, f Int, f Int) | ROW(1, 2, 3, 4, 1, 1, 1)
             | DONE(count=1)
         DECLARE @a int = 1, @b int = 1; SELECT @a = 5, @b += f FROM t WHERE f = 2; SELECT @a, @b => 5, 3
         == hints are known wherever they stand
         SELECT f FROM t x WITH (ROWLOCK, READPAST, INDEX(ix)) => 1 | 2
         SELECT f FROM t WITH (rowlock READPAST INDEX (ix)) => 1 | 2
         SELECT x.f FROM t (NOLOCK) x OPTION (MAXDOP 1, LOOP JOIN) => 2 | 1
         == joins nest by their on
         CREATE TABLE u (f int); INSERT u VALUES (2), (3) => ok
         SELECT t.f, a.f, b.f FROM t LEFT JOIN u a JOIN u b ON b.f = a.f ON a.f = t.f ORDER BY t.f
             => 1, NULL, NULL | 2, 2, 2
         SELECT t.f, a.f, b.f FROM t LEFT JOIN (u a CROSS JOIN u b) ON a.f = t.f ORDER BY t.f, b.f
             => 1, NULL, NULL | 2, 2, 2 | 2, 2, 3
         SELECT t.f, a.f, b.f FROM t LEFT OUTER LOOP JOIN u a ON a.f = t.f JOIN u b ON b.f = a.f, u c
             => 2, 2, 2 | 2, 2, 2
         == else belongs to the nearest if
         IF 1 = 0 IF 2 = 2 SELECT 1; ELSE SELECT 2 => none
         == execute tells arguments from the next statement
         CREATE PROCEDURE p @a int, @b nvarchar(9), @c nvarchar(9), @n int = 7 AS SELECT @a, @b, @c, @n; RETURN 3 => ok
         DECLARE @r int; EXEC @r = p 1, N'a', word, @n = DEFAULT SELECT @r => 1, 'a', 'word', 7 | 3
         sp_executesql N'SELECT 1' => 1
         == throw without a semicolon before it is what sql server makes of it
         PRINT 'a' THROW 50000, 'x', 1 => error 102
         BEGIN TRAN; ROLLBACK TRAN THROW => error 59000
         == quoted identifier stays on
         SET QUOTED_IDENTIFIER, ANSI_NULLS ON => ok
         SET QUOTED_IDENTIFIER OFF => error 59000
         == keys longer than the index allows are refused
         CREATE TABLE wide (k nvarchar(4000) INDEX by_k) ;; INSERT wide VALUES (REPLICATE(N'x', 850)) => ok
         INSERT wide VALUES (REPLICATE(N'x', 851))
             => error 1946 Operation failed. The index entry of length 1702 bytes"#,
    );
}
