//! What columns do by themselves: rowversion, identity.

use crate::session::tests::harness::check;

#[test]
fn columns_with_values_of_their_own() {
    check(
        r#"== a row version grows with each change
         -- "rowversion" (docs/t-sql/data-types/rowversion-transact-sql.md).
         CREATE TABLE t (id int PRIMARY KEY, n int, v rowversion); INSERT t (id, n) VALUES (1, 1), (2, 2) => ok
         DECLARE @seen rowversion = (SELECT MAX(v) FROM t), @old rowversion = (SELECT v FROM t WHERE id = 1);
             UPDATE t SET n = n WHERE id = 1;
             IF NOT EXISTS (SELECT * FROM t WHERE id = 1 AND v > @seen) THROW 50000, 'not greater', 1;
             UPDATE t SET n = 9 WHERE id = 1 AND v = @old;
             IF @@ROWCOUNT <> 0 THROW 50000, 'changed by an old version', 1;
             IF (SELECT COUNT(*) FROM t WHERE v > @seen) <> 1 THROW 50000, 'too many', 1 => ok
         INSERT t (id, v) VALUES (3, DEFAULT); INSERT t VALUES (4, 4, DEFAULT) => ok
         INSERT t (id, v) VALUES (5, 0x01) ;; INSERT t (id, v) SELECT 5, v FROM t WHERE id = 1 => error 59000
         UPDATE t SET v = 0x01 => error 272
         MERGE t USING (SELECT 9 AS id) AS s ON s.id = t.id WHEN NOT MATCHED THEN INSERT (id, v)
             VALUES (9, 0x01); => error 59000
         == identities are given only when asked for
         -- "SET IDENTITY_INSERT" (docs/t-sql/statements/set-identity-insert-transact-sql.md).
         CREATE TABLE t (id int IDENTITY PRIMARY KEY, n int) => ok
         INSERT t VALUES (7, 1) ;; INSERT t SELECT 7, 1 => error 213
         INSERT t (id, n) VALUES (7, 1) => error 544
         UPDATE t SET id = 1 => error 8102
         SET IDENTITY_INSERT t ON; INSERT t (n) VALUES (1) => error 545
         INSERT t (id, n) VALUES (7, 1); SET IDENTITY_INSERT t OFF; INSERT t (n) VALUES (2) => ok
         SELECT id, n FROM t ORDER BY id => 7, 1 | 8, 2
         SET IDENTITY_INSERT t ON; INSERT t (id, n) VALUES (3, 1); SET IDENTITY_INSERT t OFF;
             INSERT t (n) OUTPUT inserted.id VALUES (2) => 9
         == a checksum of a new id is a random number
         -- The usual way to a random number.
         IF ABS(CHECKSUM(NEWID())) % 10 NOT BETWEEN 0 AND 9 THROW 50000, 'out of range', 1 => ok
         == operations in a view can be null
         -- "The result of most expressions is considered nullable even if only nonnullable columns are present."
         -- Sources: "CREATE TABLE" (docs/t-sql/statements/create-table-transact-sql.md) and "COALESCE"
         -- (docs/t-sql/language-elements/coalesce-transact-sql.md).
         CREATE TABLE t (a int NOT NULL, s varchar(5) NOT NULL) => ok
         CREATE VIEW v AS SELECT a, a + 1 AS b, s + 'y' AS c, CAST(a AS bigint) AS d, ISNULL(a + 1, 0) AS e,
             CASE WHEN a = 1 THEN 1 ELSE 2 END AS f, COALESCE(a, 1) AS g FROM t => ok
         SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('v') AND is_nullable = 0 ORDER BY name => 'a' | 'e'"#,
    );
}

/// Source: "decimal and numeric" (docs/t-sql/data-types/decimal-and-numeric-transact-sql.md): "synonyms", "a constant
/// with a decimal point is automatically converted into a numeric data value"; "sys.types"
/// (docs/relational-databases/system-catalog-views/sys-types-transact-sql.md) has both.
#[test]
fn decimal_and_numeric_are_one_type_with_two_names() {
    check(
        "CREATE TABLE t (d decimal(9, 2), n numeric(9, 2), s dec(5)) => ok
         CREATE PROCEDURE p @n numeric(5, 1), @d decimal(5, 1) AS RETURN ;; CREATE VIEW w AS SELECT n, d FROM t ;;
             CREATE VIEW copied AS SELECT n, 1.5 AS constant, COALESCE(n, d) AS computed FROM t => ok
         SELECT y.name FROM sys.columns c JOIN sys.types y ON y.user_type_id = c.system_type_id
             WHERE c.object_id = OBJECT_ID('t') ORDER BY c.column_id => 'decimal' | 'numeric' | 'decimal'
         SELECT y.name FROM sys.columns c JOIN sys.types y ON y.user_type_id = c.system_type_id
             WHERE c.object_id = OBJECT_ID('w') ORDER BY c.column_id => 'numeric' | 'decimal'
         SELECT y.name FROM sys.columns c JOIN sys.types y ON y.user_type_id = c.system_type_id
             WHERE c.object_id = OBJECT_ID('copied') ORDER BY c.column_id => 'numeric' | 'numeric' | 'decimal'
         SELECT y.name FROM sys.parameters c JOIN sys.types y ON y.user_type_id = c.system_type_id
             WHERE c.object_id = OBJECT_ID('p') ORDER BY c.parameter_id => 'numeric' | 'decimal'
         SELECT DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 't'
             ORDER BY ORDINAL_POSITION => 'decimal' | 'numeric' | 'decimal'
         ALTER TABLE t ADD DEFAULT 1 FOR d; ALTER TABLE t ALTER COLUMN d numeric(9, 2) => ok
         SELECT DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 't' AND COLUMN_NAME = 'd' => 'numeric'",
    );
}
