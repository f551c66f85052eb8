//! sp_rename. Source: MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-stored-procedures/sp-rename-transact-sql.md.

use crate::session::tests::harness::{errors, ok, rows, script, session};

#[test]
fn things_get_other_names() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE a (id int NOT NULL CONSTRAINT pk_a PRIMARY KEY, b int NULL CONSTRAINT ck CHECK (b > 0), c int NULL)
GO
INSERT a VALUES (1, 2, 3)
GO
EXEC sp_rename 'dbo.a', 'z'
GO
EXEC sp_rename 'z.c', 'cc', 'COLUMN'",
    );
    assert_eq!(rows(&mut s, "SELECT cc FROM z"), ["ROW(Int(3))"]);
    assert_eq!(errors(&mut s, "SELECT * FROM a"), [208]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'nothing', 'x'"), [15225]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'z.nothing', 'x', 'COLUMN'"), [15248]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'z.cc', 'b', 'COLUMN'"), [15335]);
    assert_eq!(errors(&mut s, "EXEC sp_rename 'z.b', 'bb', 'COLUMN'"), [15336]);
    ok(&mut s, "BEGIN TRAN; EXEC sp_rename 'z', 'y'; SELECT * FROM y; ROLLBACK; SELECT * FROM z");
    assert_eq!(errors(&mut s, "SELECT * FROM y"), [208]);
}
