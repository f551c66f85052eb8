//! The catalog as tools ask it. Source: "Catalog views" and "Information schema views" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-catalog-views/ and docs/relational-databases/system-information-schema-views/).

use crate::session::tests::harness::{check, session};

#[test]
fn views_of_tables() {
    check(
        r#"CREATE TABLE parent (id int NOT NULL CONSTRAINT pk_parent PRIMARY KEY, code varchar(10) COLLATE
             Latin1_General_BIN2 NULL CONSTRAINT uq_code UNIQUE) => ok
         CREATE TABLE child (
             id bigint NOT NULL IDENTITY (5, 2) CONSTRAINT pk_child PRIMARY KEY NONCLUSTERED,
             parent_id int NOT NULL CONSTRAINT fk_parent REFERENCES parent (id) ON DELETE CASCADE,
             amount decimal(9, 2) NOT NULL CONSTRAINT df_amount DEFAULT (0) CONSTRAINT ck_amount CHECK (amount >= 0),
             twice AS parent_id * 2,
             at datetime2(3) NULL) => ok
         CREATE INDEX ix_at ON child (at DESC) INCLUDE (amount) WHERE at IS NOT NULL => ok
         INSERT parent VALUES (1, 'a'), (2, 'b'); INSERT child (parent_id) VALUES (1), (1), (2) => ok
         CREATE VIEW v AS SELECT id FROM parent => ok
         CREATE PROCEDURE p @a int, @b nvarchar(20) = N'x' OUTPUT AS SELECT 1 => ok
         CREATE TRIGGER tr ON child AFTER INSERT, DELETE AS SELECT 1 AS one => ok
         CREATE TYPE ids AS TABLE (id int NOT NULL PRIMARY KEY) => ok
         == objects and constraints
         SELECT RTRIM(type), COUNT(*) FROM sys.objects GROUP BY type ORDER BY type => 'C', 1 | 'D', 1 | 'F', 1 | 'P', 1
             | 'PK', 2 | 'TR', 1 | 'TT', 1 | 'U', 2 | 'UQ', 1 | 'V', 1
         SELECT definition FROM sys.check_constraints WHERE is_not_trusted = 0
             AND OBJECT_NAME(parent_object_id) = 'child' => '([amount]>=(0))'
         SELECT c.name, d.definition FROM sys.default_constraints d
             JOIN sys.columns c ON c.object_id = d.parent_object_id
             AND c.column_id = d.parent_column_id => 'amount', '((0))'
         SELECT k.name, p.name, r.name, k.delete_referential_action_desc FROM sys.foreign_keys k
             JOIN sys.foreign_key_columns c ON c.constraint_object_id = k.object_id
             JOIN sys.columns p ON p.object_id = c.parent_object_id AND p.column_id = c.parent_column_id
             JOIN sys.columns r ON r.object_id = c.referenced_object_id
             AND r.column_id = c.referenced_column_id => 'fk_parent', 'parent_id', 'id', 'CASCADE'
         SELECT k.name, i.type_desc FROM sys.key_constraints k JOIN sys.indexes i ON i.object_id = k.parent_object_id
             AND i.index_id = k.unique_index_id ORDER BY k.name => 'pk_child', 'NONCLUSTERED' | 'pk_parent', 'CLUSTERED'
             | 'uq_code', 'NONCLUSTERED'
         SELECT IIF(create_date <= modify_date AND create_date > '20200101', 1, 0) FROM sys.tables => 1 | 1
         SELECT name, is_disabled FROM sys.triggers WHERE parent_id = OBJECT_ID('child') => 'tr', Bit(false)
         SELECT COUNT(*) FROM sys.sql_modules m JOIN sys.all_objects o ON o.object_id = m.object_id => 3
         SELECT xtype FROM sysobjects WHERE name = 'parent' => 'U '
         SELECT OBJECT_ID('fk_parent', 'PK'), OBJECT_NAME(OBJECT_ID('dbo.fk_parent', 'F')) => NULL, 'fk_parent'
         == columns indexes and their rows
         SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_identity, c.is_computed
             FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.user_type_id
             WHERE c.object_id = OBJECT_ID('child') ORDER BY c.column_id
             => 'id', 'bigint', SmallInt(8), TinyInt(19), TinyInt(0), Bit(false), Bit(true), Bit(false)
             | 'parent_id', 'int', SmallInt(4), TinyInt(10), TinyInt(0), Bit(false), Bit(false), Bit(false)
             | 'amount', 'decimal', SmallInt(5), TinyInt(9), TinyInt(2), Bit(false), Bit(false), Bit(false)
             | 'twice', 'int', SmallInt(4), TinyInt(10), TinyInt(0), Bit(true), Bit(false), Bit(true)
             | 'at', 'datetime2', SmallInt(7), TinyInt(23), TinyInt(3), Bit(true), Bit(false), Bit(false)
         SELECT name FROM sys.computed_columns => 'twice'
         SELECT i.filter_definition, c.name, ic.is_descending_key, ic.is_included_column FROM sys.indexes i
             JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
             JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id WHERE i.name = 'ix_at'
             ORDER BY ic.index_column_id => '([at] IS NOT NULL)', 'at', Bit(true), Bit(false)
             | '([at] IS NOT NULL)', 'amount', Bit(false), Bit(true)
         SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID('parent') ORDER BY index_id => BigInt(2)
             | BigInt(2)
         SELECT name, max_length, is_nullable FROM sys.types WHERE is_user_defined = 1
             ORDER BY name => 'ids', SmallInt(-1), Bit(false)
         SELECT * FROM sys.dm_db_index_usage_stats => error 59000
         == information schema
         SELECT TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES ORDER BY TABLE_NAME => 'child', 'BASE TABLE'
             | 'parent', 'BASE TABLE' | 'v', 'VIEW'
         SELECT COLUMN_NAME, COLUMN_DEFAULT, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION,
             CHARACTER_MAXIMUM_LENGTH
             FROM INFORMATION_SCHEMA.COLUMNS WHERE COLUMN_NAME IN ('amount', 'at', 'code')
             ORDER BY COLUMN_NAME => 'amount', '((0))', TinyInt(9), 2, NULL, NULL
             | 'at', NULL, NULL, NULL, SmallInt(3), NULL | 'code', NULL, NULL, NULL, NULL, 10
         SELECT t.CONSTRAINT_TYPE, k.COLUMN_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS t
             JOIN INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE k ON k.CONSTRAINT_NAME = t.CONSTRAINT_NAME
             WHERE t.TABLE_NAME = 'child' ORDER BY 1 DESC => 'PRIMARY KEY', 'id' | 'FOREIGN KEY', 'parent_id'
             | 'CHECK', 'amount'
         SELECT ROUTINE_NAME, ROUTINE_TYPE FROM INFORMATION_SCHEMA.ROUTINES => 'p', 'PROCEDURE'
         SELECT name, is_output FROM sys.parameters ORDER BY parameter_id => '@a', Bit(false) | '@b', Bit(true)
         == fill factors and what constraints are on
         -- Sources: "sys.indexes" and "sys.partition_schemes", docs/relational-databases/system-catalog-views/;
         -- "CONSTRAINT_COLUMN_USAGE",
         -- docs/relational-databases/system-information-schema-views/constraint-column-usage-transact-sql.md.
         CREATE INDEX ix_full ON child (parent_id) WITH (FILLFACTOR = 80);
             CREATE TABLE sums (a int, b int, CONSTRAINT ck_sums CHECK (a < b)) => ok
         SELECT i.name, i.fill_factor, p.name FROM sys.indexes AS i LEFT
             JOIN sys.partition_schemes AS p ON p.data_space_id = i.data_space_id
             WHERE i.name IN ('ix_full', 'ix_at') ORDER BY i.name => 'ix_at', TinyInt(0), NULL
             | 'ix_full', TinyInt(80), NULL
         CREATE INDEX more ON child (parent_id) WITH (FILLFACTOR = 0) => error 129
         CREATE INDEX more ON child (parent_id) WITH (FILLFACTOR = 101) => error 129
         SELECT CONSTRAINT_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE
             WHERE TABLE_NAME IN ('child', 'sums') ORDER BY CONSTRAINT_NAME, COLUMN_NAME => 'ck_amount', 'amount'
             | 'ck_sums', 'a' | 'ck_sums', 'b' | 'fk_parent', 'parent_id' | 'pk_child', 'id'
         == what schema tools look for
         -- "SEQUENCES" (docs/relational-databases/system-information-schema-views/), "sys.partition_functions"
         -- (docs/relational-databases/system-catalog-views/), "sys.sysobjects"
         -- (docs/relational-databases/system-compatibility-views/).
         CREATE SEQUENCE dbo.numbers AS int START WITH 7 INCREMENT BY 2 => ok
         SELECT SEQUENCE_SCHEMA, SEQUENCE_NAME, DATA_TYPE, NUMERIC_PRECISION, START_VALUE, INCREMENT
             FROM INFORMATION_SCHEMA.SEQUENCES => 'dbo', 'numbers', 'int', TinyInt(10), BigInt(7), BigInt(2)
         SELECT f.name, f.boundary_value_on_right, CAST(v.value AS int) FROM sys.partition_functions AS f
             JOIN sys.partition_parameters AS p ON p.function_id = f.function_id
             LEFT JOIN sys.partition_range_values AS v ON v.function_id = f.function_id ORDER BY v.boundary_id => none
         SELECT name, type FROM sysobjects WHERE name IN ('p', 'v', 'pk_parent') ORDER BY name => 'p', 'P '
             | 'pk_parent', 'K ' | 'v', 'V '
         SELECT CAST(SERVERPROPERTY('IsFullTextInstalled') AS int) => 0"#,
    );
}

#[test]
fn other_views_and_names() {
    check(
        r#"== a column that is missing here is no wrong name
         -- The views have fewer columns here: 207 would say that SQL Server has none of that name.
         SELECT is_replicated FROM sys.tables => error 59000
         SELECT t.is_replicated FROM sys.tables AS t JOIN sys.columns AS c ON c.object_id = t.object_id => error 59000
         SELECT 1 FROM sys.indexes AS i WHERE EXISTS (SELECT 1 WHERE i.fill_factor = nothing) => error 59000
         SELECT name FROM sys.databases ORDER BY is_broker_enabled => error 59000
         CREATE TABLE t (a int NULL) => ok
         SELECT t.nothing FROM t, sys.tables AS s => error 207
         SELECT x.nothing FROM sys.tables AS s => error 4104
         == other databases have their ids and names
         -- docs/t-sql/functions/db-id-transact-sql.md, db-name-transact-sql.md; the usual guard before CREATE DATABASE.
         IF DB_ID(N'other') IS NULL CREATE DATABASE other ;; IF DB_ID(N'OTHER') IS NULL CREATE DATABASE other => ok
         SELECT DB_NAME(DB_ID(N'other')) => 'other'
         SELECT DB_ID(N'tempdb') => SmallInt(2)
         CREATE DATABASE master => error 1801
         DROP DATABASE other => ok
         SELECT DB_ID(N'other') => NULL
         == views have columns
         -- "Returns a row for each column of an object that has columns, such as views or tables … Inline table-valued
         -- SQL functions (IF) … Views (V)"
         -- (docs/relational-databases/system-catalog-views/sys-columns-transact-sql.md).
         CREATE TABLE t (id int NOT NULL IDENTITY PRIMARY KEY, n nvarchar(7) COLLATE Latin1_General_BIN2 NULL) => ok
         CREATE VIEW v AS SELECT id AS a, n AS b, NULLIF(id, 1) AS c FROM t => ok
         SELECT name, column_id, system_type_id, max_length, collation_name, is_nullable
             FROM sys.columns WHERE object_id = OBJECT_ID('v')
             ORDER BY column_id => 'a', 1, TinyInt(56), SmallInt(4), NULL, Bit(false)
             | 'b', 2, TinyInt(231), SmallInt(14), 'Latin1_General_BIN2', Bit(true)
             | 'c', 3, TinyInt(56), SmallInt(4), NULL, Bit(true)
         SELECT name FROM sys.all_columns WHERE object_id = OBJECT_ID('v') ORDER BY column_id => 'a' | 'b' | 'c'
         SELECT COLUMN_NAME, IS_NULLABLE, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH FROM INFORMATION_SCHEMA.COLUMNS
             WHERE TABLE_NAME IN ('v', 'f') AND ORDINAL_POSITION < 3 ORDER BY ORDINAL_POSITION => 'a', 'NO', 'int', NULL
             | 'b', 'YES', 'nvarchar', 7
         SELECT COL_LENGTH('dbo.v', 'B') ;; SELECT COLUMNPROPERTY(OBJECT_ID('v'), 'a', 'AllowsNull') => error 59000
         EXEC (N'ALTER VIEW v AS SELECT n FROM t') => ok
         SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('v') => 'n'
         == functions of the system are refused by name
         -- What SQL Server has and is not here is refused as such:
         -- docs/relational-databases/system-dynamic-management-views/ and docs/relational-databases/system-functions/.
         SELECT * FROM sys.dm_exec_sql_text(0x01) => error 59000
         SELECT * FROM sys.dm_exec_requests AS r CROSS APPLY sys.dm_exec_input_buffer(r.session_id, 0) AS b
             => error 59000
         SELECT * FROM sys.fn_my_permissions(NULL, 'DATABASE') ;; SELECT sys.fn_varbintohexstr(0x01) => error 59000
         SELECT * FROM dbo.dm_exec_sql_text(0x01) => error 208
         -- docs/t-sql/functions/columnproperty-transact-sql.md
         CREATE TABLE t (a int) => ok
         SELECT COLUMNPROPERTY(OBJECT_ID('t'), 'a', 'Precision') => error 59000
         == a temporary table is found by the name of tempdb
         -- Source: "OBJECT_ID" (docs/t-sql/functions/object-id-transact-sql.md): "When you specify a temporary table
         -- name, the database name must precede the temporary table name, unless the current database is tempdb."
         SELECT IIF(OBJECT_ID(N'tempdb..#t') IS NULL, 0, 1) => 0
         CREATE TABLE #t (a int) => ok
         SELECT IIF(OBJECT_ID(N'tempdb..#t') IS NULL, 0, 1) => 1"#,
    );
}

// Source: "sys.indexes", docs/relational-databases/system-catalog-views/sys-indexes-transact-sql.md
// (filter_definition); the form is what SQL Server's own scripts of filtered indexes show.
#[test]
fn a_filter_is_shown_in_its_normal_form() {
    let (_e, mut s) = session();
    s.check(
        "CREATE TABLE t (state tinyint, kind varchar(10), name nvarchar(10), big bigint, rate decimal(5, 2),
             [a]]b] int)",
    );
    for (written, shown) in [
        ("state = 0", "([state]=(0))"),
        ("((state <> 2))", "([state]<>(2))"),
        ("state != 2 and kind = 'it''s'", "([state]<>(2) AND [kind]='it''s')"),
        ("state IN (1,2)", "([state] IN ((1), (2)))"),
        ("kind in ('a','b') AND name IS NOT NULL", "(([kind] IN ('a', 'b')) AND [name] IS NOT NULL)"),
        ("name=N'x' AND [state] is null", "([name]=N'x' AND [state] IS NULL)"),
        ("big>1 AND big<=3000000000", "([big]>(1) AND [big]<=(3000000000.))"),
        ("rate >= 1.50 AND [a]]b] < 7", "([rate]>=(1.50) AND [a]]b]<(7))"),
    ] {
        s.check(&format!(
            "CREATE INDEX ix ON t (state) WHERE {written} => ok
             SELECT filter_definition FROM sys.indexes WHERE name = 'ix' => '{shown}'
             DROP INDEX t.ix => ok"
        ));
    }
}

// Source: the script of AdventureWorks (microsoft/sql-server-samples) shows the forms.
#[test]
fn defaults_are_shown_in_their_normal_form() {
    let (_e, mut s) = session();
    for (ty, written, shown) in [
        ("int", "((-1))", "((-1))"),
        ("decimal(5, 2)", "0.50", "((0.50))"),
        ("varchar(9)", "('it''s')", "('it''s')"),
        ("int", "NULL", "(NULL)"),
        ("datetime", "CURRENT_TIMESTAMP", "(getdate())"),
        ("datetimeoffset", "(SysDateTimeOffset())", "(sysdatetimeoffset())"),
    ] {
        s.check(&format!(
            "CREATE TABLE t (d {ty} NULL DEFAULT {written}) => ok
             SELECT definition FROM sys.default_constraints => '{shown}'
             DROP TABLE t => ok"
        ));
    }
}
