//! Extended properties. Sources: "sp_addextendedproperty", "sp_updateextendedproperty", "sp_dropextendedproperty"
//! (docs/relational-databases/system-stored-procedures/), "sys.fn_listextendedproperty"
//! (docs/relational-databases/system-functions/sys-fn-listextendedproperty-transact-sql.md), "sys.extended_properties"
//! (docs/relational-databases/system-catalog-views/extended-properties-catalog-views-sys-extended-properties.md).

use crate::session::tests::harness::{errors, ok, rows, session};

const ALL: &str = "SELECT class, OBJECT_NAME(major_id), minor_id, name, CAST(value AS nvarchar(20))
    FROM sys.extended_properties ORDER BY class, minor_id";

#[test]
fn tables_and_columns_have_comments() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (a int, b int); EXEC (N'CREATE VIEW v AS SELECT b FROM t')");
    ok(
        &mut s,
        "EXECUTE sp_addextendedproperty 'MS_Description', N'a table', 'schema', [dbo], 'table', t
         EXEC sys.sp_addextendedproperty @name = N'MS_Description', @value = 'a column', @level0type = N'Schema',
            @level0name = 'dbo', @level1type = N'Table', @level1name = 'T', @level2type = N'Column', @level2name = 'B'
         EXEC sp_addextendedproperty 'Caption', 7
         EXEC sp_addextendedproperty 'Caption', NULL, 'SCHEMA', 'dbo'",
    );
    let database = "ROW(TinyInt(0), Null, Int(0), String(\"Caption\"), String(\"7\"))".to_string();
    let table = "ROW(TinyInt(1), String(\"t\"), Int(0), String(\"MS_Description\"), String(\"a table\"))".to_string();
    let column = |place| {
        format!("ROW(TinyInt(1), String(\"t\"), Int({place}), String(\"MS_Description\"), String(\"a column\"))")
    };
    let schema = "ROW(TinyInt(3), Null, Int(0), String(\"Caption\"), Null)".to_string();
    assert_eq!(rows(&mut s, ALL), [database.clone(), table.clone(), column(2), schema.clone()]);
    // They go with the column.
    ok(&mut s, "EXEC sp_rename 't.b', 'c', 'COLUMN'; ALTER TABLE t DROP COLUMN a");
    assert_eq!(rows(&mut s, ALL), [database.clone(), table.clone(), column(1), schema.clone()]);
    ok(&mut s, "ALTER TABLE t ADD d int; BEGIN TRAN; ALTER TABLE t DROP COLUMN c");
    assert_eq!(rows(&mut s, ALL), [database.clone(), table.clone(), schema.clone()]);
    ok(&mut s, "ROLLBACK; BEGIN TRAN; EXEC sp_rename 't.c', 'e', 'COLUMN'; ROLLBACK");
    assert_eq!(rows(&mut s, ALL), [database.clone(), table, column(1), schema.clone()]);
    ok(&mut s, "DROP VIEW v; DROP TABLE t");
    assert_eq!(rows(&mut s, ALL), [database, schema]);
}

#[test]
fn they_are_listed_by_level() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (a int, b int); CREATE TABLE u (a int)
         EXEC sp_addextendedproperty 'n', 'db'
         EXEC sp_addextendedproperty 'n', 's', 'schema', 'dbo'
         EXEC sp_addextendedproperty 'n', 't', 'schema', 'dbo', 'table', 't'
         EXEC sp_addextendedproperty 'n', 'u', 'schema', 'dbo', 'table', 'u'
         EXEC sp_addextendedproperty 'n', 'ta', 'schema', 'dbo', 'table', 't', 'column', 'a'
         EXEC sp_addextendedproperty 'm', 'tb', 'schema', 'dbo', 'table', 't', 'column', 'b'",
    );
    let mut listed = |arguments: &str| {
        let sql = format!("SELECT objtype, objname, value FROM fn_listextendedproperty({arguments}) ORDER BY objname");
        rows(&mut s, &sql)
    };
    let row = |kind: &str, name: &str, value: &str| {
        format!("ROW(String(\"{kind}\"), String(\"{name}\"), String(\"{value}\"))")
    };
    assert_eq!(
        listed("default, default, default, default, default, default, default"),
        ["ROW(Null, Null, String(\"db\"))"]
    );
    assert_eq!(listed("NULL, 'schema', NULL, NULL, NULL, NULL, NULL"), [row("SCHEMA", "dbo", "s")]);
    let tables = [row("TABLE", "t", "t"), row("TABLE", "u", "u")];
    assert_eq!(listed("NULL, 'schema', 'dbo', 'table', default, NULL, NULL"), tables);
    let columns = [row("COLUMN", "a", "ta"), row("COLUMN", "b", "tb")];
    assert_eq!(listed("NULL, 'schema', 'dbo', 'table', 't', 'column', default"), columns);
    assert_eq!(listed("'n', 'schema', 'dbo', 'table', 't', 'column', default"), columns[..1]);
    assert!(listed("NULL, 'schema', NULL, 'table', 't', NULL, NULL").is_empty());
    assert!(listed("NULL, 'schema', 'dbo', 'view', NULL, NULL, NULL").is_empty());
    assert_eq!(
        errors(&mut s, "SELECT * FROM sys.fn_listextendedproperty(NULL, 'user', 'x', NULL, NULL, NULL, NULL)"),
        [59000]
    );
}

#[test]
fn changes_and_their_errors() {
    let (_e, mut s) = session();
    let of_table = "'schema', 'dbo', 'table', 't'";
    ok(&mut s, &format!("CREATE TABLE t (a int); EXEC sp_addextendedproperty 'n', 'x', {of_table}"));
    ok(&mut s, &format!("EXEC sp_updateextendedproperty 'N', N'y', {of_table}"));
    assert_eq!(rows(&mut s, "SELECT name, value FROM sys.extended_properties"), ["ROW(String(\"n\"), String(\"y\"))"]);
    assert_eq!(errors(&mut s, &format!("EXEC sp_addextendedproperty 'n', 'x', {of_table}")), [15233]);
    ok(&mut s, &format!("BEGIN TRAN; EXEC sp_dropextendedproperty 'n', {of_table}; ROLLBACK"));
    ok(&mut s, &format!("EXEC sp_dropextendedproperty 'n', {of_table}"));
    for (sql, number) in [
        (format!("sp_dropextendedproperty 'n', {of_table}"), 15217),
        (format!("sp_updateextendedproperty 'n', 'x', {of_table}"), 15217),
        ("sp_addextendedproperty 'n', 'x', 'schema', 'dbo', 'table', 'nothing'".into(), 15135),
        (format!("sp_addextendedproperty 'n', 'x', {of_table}, 'column', 'nothing'"), 15135),
        ("sp_addextendedproperty 'n', 'x', 'schema', 'dbo', 'table'".into(), 15600),
        ("sp_addextendedproperty 'n', 'x', 'thing', 'dbo'".into(), 15600),
        ("sp_addextendedproperty NULL, 'x'".into(), 15600),
        (format!("sp_addextendedproperty 'n', 'x', {of_table}, 'index', 'i'"), 59000),
        ("sp_addextendedproperty 'n', 'x', 'user', 'dbo'".into(), 59000),
    ] {
        assert_eq!(errors(&mut s, &format!("EXEC {sql}")), [number], "{sql}");
    }
    let long = "DECLARE @v nvarchar(4000) = REPLICATE(N'x', 3751); EXEC sp_addextendedproperty 'n', @v";
    assert_eq!(errors(&mut s, long), [15097]);
}
