//! sp_rename and ALTER SCHEMA. Source: MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-stored-procedures/sp-rename-transact-sql.md and
//! docs/t-sql/statements/alter-schema-transact-sql.md.

use crate::session::tests::harness::{errors, ok, rows, script, session};

#[test]
fn things_get_other_names() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE a (id int NOT NULL CONSTRAINT pk_a PRIMARY KEY, b int NULL CONSTRAINT ck CHECK (b > 0), c int NULL)
GO
CREATE INDEX ix ON a (c)
GO
CREATE PROCEDURE p AS SELECT 1
GO
INSERT a VALUES (1, 2, 3)
GO
EXEC sp_rename 'dbo.a', 'z'
GO
EXEC sp_rename 'z.c', 'cc', 'COLUMN'
GO
EXEC sp_rename N'dbo.z.ix', N'iy', N'INDEX'
GO
EXEC sp_rename 'pk_a', 'pk_z', 'OBJECT'
GO
EXEC sp_rename @objname = 'p', @newname = 'q'",
    );
    assert_eq!(rows(&mut s, "SELECT cc FROM z WITH (INDEX (iy))"), ["ROW(Int(3))"]);
    assert_eq!(rows(&mut s, "EXEC q"), ["ROW(Int(1))"]);
    assert_eq!(errors(&mut s, "SELECT * FROM a"), [208]);
    assert_eq!(errors(&mut s, "EXEC p"), [2812]);
    assert_eq!(
        rows(&mut s, "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('z') ORDER BY index_id"),
        ["ROW(String(\"pk_z\"))", "ROW(String(\"iy\"))"]
    );
    assert_eq!(errors(&mut s, "EXEC sp_rename 'nothing', 'x'"), [15225]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'z.nothing', 'x', 'COLUMN'"), [15248]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'z.cc', 'b', 'COLUMN'"), [15335]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'z.b', 'bb', 'COLUMN'"), [15336]);
    ok(&mut s, "BEGIN TRAN; EXEC sp_rename 'z', 'y'; SELECT * FROM y; ROLLBACK; SELECT * FROM z");
    assert_eq!(errors(&mut s, "SELECT * FROM y"), [208]);
}

#[test]
fn things_move_to_another_schema() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE SCHEMA other
GO
CREATE TABLE t (a int)
GO
CREATE VIEW v AS SELECT 1 AS one
GO
ALTER SCHEMA other TRANSFER dbo.t
GO
ALTER SCHEMA other TRANSFER OBJECT::dbo.v
GO
INSERT other.t VALUES (1); SELECT * FROM other.v",
    );
    assert_eq!(errors(&mut s, "SELECT * FROM t"), [208]);
    assert_eq!(errors(&mut s, "ALTER SCHEMA nowhere TRANSFER other.t"), [15151]);
    ok(&mut s, "CREATE TABLE t (a int)");
    assert_eq!(errors(&mut s, "ALTER SCHEMA other TRANSFER dbo.t"), [15530]);
}
