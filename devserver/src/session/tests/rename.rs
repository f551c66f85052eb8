//! sp_rename. Source: MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-stored-procedures/sp-rename-transact-sql.md.

use crate::session::tests::harness::check;

#[test]
fn things_get_other_names() {
    check(
        "CREATE TABLE a (id int NOT NULL CONSTRAINT pk_a PRIMARY KEY, b int NULL
             CONSTRAINT ck CHECK (b > 0), c int NULL) => ok
         INSERT a VALUES (1, 2, 3) ;; EXEC sp_rename 'dbo.a', 'z' ;; EXEC sp_rename 'z.c', 'cc', 'COLUMN' => ok
         SELECT cc FROM z => 3
         SELECT * FROM a => error 208
         EXEC sp_rename 'nothing', 'x' => error 59000
         EXEC sp_rename 'z.nothing', 'x', 'COLUMN' => error 59000
         EXEC sp_rename 'z.cc', 'b', 'COLUMN' => error 59000
         EXEC sp_rename 'z.b', 'bb', 'COLUMN' => error 59000
         BEGIN TRAN; EXEC sp_rename 'z', 'y'; SELECT * FROM y; ROLLBACK; SELECT * FROM z => ok
         SELECT * FROM y => error 208",
    );
}
