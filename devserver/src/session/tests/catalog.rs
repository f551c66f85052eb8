//! The catalog as tools ask it. Source: "Catalog views" and "Information schema views" (MicrosoftDocs/sql-docs,
//! docs/relational-databases/system-catalog-views/ and docs/relational-databases/system-information-schema-views/).

use crate::session::client_session::Session;
use crate::session::tests::harness::{errors, ok, rows, script, session};

fn tables(s: &mut Session) {
    script(
        s,
        "CREATE TABLE parent (id int NOT NULL CONSTRAINT pk_parent PRIMARY KEY, code varchar(10) COLLATE Latin1_General_BIN2 NULL CONSTRAINT uq_code UNIQUE)
GO
CREATE TABLE child (
    id bigint NOT NULL IDENTITY (5, 2) CONSTRAINT pk_child PRIMARY KEY NONCLUSTERED,
    parent_id int NOT NULL CONSTRAINT fk_parent REFERENCES parent (id) ON DELETE CASCADE,
    amount decimal(9, 2) NOT NULL CONSTRAINT df_amount DEFAULT (0) CONSTRAINT ck_amount CHECK (amount >= 0),
    twice AS parent_id * 2,
    at datetime2(3) NULL)
GO
CREATE INDEX ix_at ON child (at DESC) INCLUDE (amount) WHERE at IS NOT NULL
GO
INSERT parent VALUES (1, 'a'), (2, 'b'); INSERT child (parent_id) VALUES (1), (1), (2)
GO
CREATE VIEW v AS SELECT id FROM parent
GO
CREATE PROCEDURE p @a int, @b nvarchar(20) = N'x' OUTPUT AS SELECT 1
GO
CREATE TRIGGER tr ON child AFTER INSERT, DELETE AS SELECT 1 AS one
GO
CREATE TYPE ids AS TABLE (id int NOT NULL PRIMARY KEY)",
    );
}

#[test]
fn objects_and_constraints() {
    let (_e, mut s) = session();
    tables(&mut s);
    assert_eq!(
        rows(&mut s, "SELECT RTRIM(type), COUNT(*) FROM sys.objects GROUP BY type ORDER BY type"),
        [
            "ROW(String(\"C\"), Int(1))",
            "ROW(String(\"D\"), Int(1))",
            "ROW(String(\"F\"), Int(1))",
            "ROW(String(\"P\"), Int(1))",
            "ROW(String(\"PK\"), Int(2))",
            "ROW(String(\"TR\"), Int(1))",
            "ROW(String(\"TT\"), Int(1))",
            "ROW(String(\"U\"), Int(2))",
            "ROW(String(\"UQ\"), Int(1))",
            "ROW(String(\"V\"), Int(1))",
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT definition FROM sys.check_constraints WHERE is_not_trusted = 0 AND OBJECT_NAME(parent_object_id) = 'child'"
        ),
        ["ROW(String(\"([amount]>=(0))\"))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT c.name, d.definition FROM sys.default_constraints d JOIN sys.columns c ON c.object_id = d.parent_object_id AND c.column_id = d.parent_column_id"
        ),
        ["ROW(String(\"amount\"), String(\"((0))\"))"]
    );
    let keys = "SELECT k.name, p.name, r.name, k.delete_referential_action_desc FROM sys.foreign_keys k
                JOIN sys.foreign_key_columns c ON c.constraint_object_id = k.object_id
                JOIN sys.columns p ON p.object_id = c.parent_object_id AND p.column_id = c.parent_column_id
                JOIN sys.columns r ON r.object_id = c.referenced_object_id AND r.column_id = c.referenced_column_id";
    assert_eq!(
        rows(&mut s, keys),
        ["ROW(String(\"fk_parent\"), String(\"parent_id\"), String(\"id\"), String(\"CASCADE\"))"]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT k.name, i.type_desc FROM sys.key_constraints k JOIN sys.indexes i ON i.object_id = k.parent_object_id AND i.index_id = k.unique_index_id ORDER BY k.name"
        ),
        [
            "ROW(String(\"pk_child\"), String(\"NONCLUSTERED\"))",
            "ROW(String(\"pk_parent\"), String(\"CLUSTERED\"))",
            "ROW(String(\"uq_code\"), String(\"NONCLUSTERED\"))"
        ]
    );
    assert_eq!(
        rows(&mut s, "SELECT IIF(create_date <= modify_date AND create_date > '20200101', 1, 0) FROM sys.tables"),
        ["ROW(Int(1))", "ROW(Int(1))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT name, is_disabled FROM sys.triggers WHERE parent_id = OBJECT_ID('child')"),
        ["ROW(String(\"tr\"), Bit(false))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT COUNT(*) FROM sys.sql_modules m JOIN sys.all_objects o ON o.object_id = m.object_id"),
        ["ROW(Int(3))"]
    );
    assert_eq!(rows(&mut s, "SELECT xtype FROM sysobjects WHERE name = 'parent'"), ["ROW(String(\"U \"))"]);
    assert_eq!(
        rows(&mut s, "SELECT OBJECT_ID('fk_parent', 'PK'), OBJECT_NAME(OBJECT_ID('dbo.fk_parent', 'F'))"),
        ["ROW(Null, String(\"fk_parent\"))"]
    );
}

#[test]
fn columns_indexes_and_their_rows() {
    let (_e, mut s) = session();
    tables(&mut s);
    let columns = "SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_identity, c.is_computed
                   FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID('child') ORDER BY c.column_id";
    assert_eq!(
        rows(&mut s, columns)[2],
        "ROW(String(\"amount\"), String(\"decimal\"), SmallInt(5), TinyInt(9), TinyInt(2), Bit(false), Bit(false), Bit(false))"
    );
    assert_eq!(rows(&mut s, "SELECT name FROM sys.computed_columns"), ["ROW(String(\"twice\"))"]);
    let index = "SELECT i.filter_definition, c.name, ic.is_descending_key, ic.is_included_column FROM sys.indexes i
                 JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id
                 JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id WHERE i.name = 'ix_at' ORDER BY ic.index_column_id";
    assert_eq!(
        rows(&mut s, index),
        [
            "ROW(String(\"([at] IS NOT NULL)\"), String(\"at\"), Bit(true), Bit(false))",
            "ROW(String(\"([at] IS NOT NULL)\"), String(\"amount\"), Bit(false), Bit(true))"
        ]
    );
    assert_eq!(
        rows(&mut s, "SELECT rows FROM sys.partitions WHERE object_id = OBJECT_ID('parent') ORDER BY index_id"),
        ["ROW(BigInt(2))", "ROW(BigInt(2))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT name, max_length, is_nullable FROM sys.types WHERE is_user_defined = 1 ORDER BY name"),
        ["ROW(String(\"ids\"), SmallInt(-1), Bit(false))"]
    );
    assert_eq!(errors(&mut s, "SELECT * FROM sys.dm_db_index_usage_stats"), [crate::error::NOT_SUPPORTED]);
}

#[test]
fn information_schema() {
    let (_e, mut s) = session();
    tables(&mut s);
    assert_eq!(
        rows(&mut s, "SELECT TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES ORDER BY TABLE_NAME"),
        [
            "ROW(String(\"child\"), String(\"BASE TABLE\"))",
            "ROW(String(\"parent\"), String(\"BASE TABLE\"))",
            "ROW(String(\"v\"), String(\"VIEW\"))"
        ]
    );
    let columns = "SELECT COLUMN_NAME, COLUMN_DEFAULT, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_MAXIMUM_LENGTH
                   FROM INFORMATION_SCHEMA.COLUMNS WHERE COLUMN_NAME IN ('amount', 'at', 'code') ORDER BY COLUMN_NAME";
    assert_eq!(
        rows(&mut s, columns),
        [
            "ROW(String(\"amount\"), String(\"((0))\"), TinyInt(9), Int(2), Null, Null)",
            "ROW(String(\"at\"), Null, Null, Null, SmallInt(3), Null)",
            "ROW(String(\"code\"), Null, Null, Null, Null, Int(10))"
        ]
    );
    let keys = "SELECT t.CONSTRAINT_TYPE, k.COLUMN_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS t
                JOIN INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE k ON k.CONSTRAINT_NAME = t.CONSTRAINT_NAME
                WHERE t.TABLE_NAME = 'child' ORDER BY 1 DESC";
    assert_eq!(
        rows(&mut s, keys)[..2],
        ["ROW(String(\"PRIMARY KEY\"), String(\"id\"))", "ROW(String(\"FOREIGN KEY\"), String(\"parent_id\"))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT ROUTINE_NAME, ROUTINE_TYPE FROM INFORMATION_SCHEMA.ROUTINES"),
        ["ROW(String(\"p\"), String(\"PROCEDURE\"))"]
    );
    assert_eq!(
        rows(&mut s, "SELECT name, is_output FROM sys.parameters ORDER BY parameter_id"),
        ["ROW(String(\"@a\"), Bit(false))", "ROW(String(\"@b\"), Bit(true))"]
    );
}

// The views have fewer columns here: 207 would say that SQL Server has none of that name.
#[test]
fn a_column_that_is_missing_here_is_no_wrong_name() {
    let (_e, mut s) = session();
    for query in [
        "SELECT is_replicated FROM sys.tables",
        "SELECT t.is_replicated FROM sys.tables AS t JOIN sys.columns AS c ON c.object_id = t.object_id",
        "SELECT 1 FROM sys.indexes AS i WHERE EXISTS (SELECT 1 WHERE i.fill_factor = nothing)",
        "SELECT name FROM sys.databases ORDER BY is_broker_enabled",
    ] {
        assert_eq!(errors(&mut s, query), [59000], "{query}");
    }
    ok(&mut s, "CREATE TABLE t (a int NULL)");
    assert_eq!(errors(&mut s, "SELECT t.nothing FROM t, sys.tables AS s"), [207]);
    assert_eq!(errors(&mut s, "SELECT x.nothing FROM sys.tables AS s"), [4104]);
}

// docs/t-sql/functions/db-id-transact-sql.md, db-name-transact-sql.md; the usual guard before CREATE DATABASE.
#[test]
fn other_databases_have_their_ids_and_names() {
    let (_e, mut s) = session();
    ok(&mut s, "IF DB_ID(N'other') IS NULL CREATE DATABASE other");
    ok(&mut s, "IF DB_ID(N'OTHER') IS NULL CREATE DATABASE other");
    assert_eq!(rows(&mut s, "SELECT DB_NAME(DB_ID(N'other'))"), ["ROW(String(\"other\"))"]);
    assert_eq!(rows(&mut s, "SELECT DB_ID(N'tempdb')"), ["ROW(SmallInt(2))"]);
    assert_eq!(errors(&mut s, "CREATE DATABASE master"), [1801]);
    ok(&mut s, "DROP DATABASE other");
    assert_eq!(rows(&mut s, "SELECT DB_ID(N'other')"), ["ROW(Null)"]);
}

// Sources: "sys.indexes" and "sys.partition_schemes",
// docs/relational-databases/system-catalog-views/; "CONSTRAINT_COLUMN_USAGE",
// docs/relational-databases/system-information-schema-views/constraint-column-usage-transact-sql.md.
#[test]
fn fill_factors_and_what_constraints_are_on() {
    let (_e, mut s) = session();
    tables(&mut s);
    ok(
        &mut s,
        "CREATE INDEX ix_full ON child (parent_id) WITH (FILLFACTOR = 80);
        CREATE TABLE sums (a int, b int, CONSTRAINT ck_sums CHECK (a < b))",
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT i.name, i.fill_factor, p.name FROM sys.indexes AS i LEFT JOIN sys.partition_schemes AS p ON p.data_space_id = i.data_space_id
            WHERE i.name IN ('ix_full', 'ix_at') ORDER BY i.name"
        ),
        ["ROW(String(\"ix_at\"), TinyInt(0), Null)", "ROW(String(\"ix_full\"), TinyInt(80), Null)"]
    );
    for percent in [0, 101] {
        let create = format!("CREATE INDEX more ON child (parent_id) WITH (FILLFACTOR = {percent})");
        assert_eq!(errors(&mut s, &create), [129]);
    }
    assert_eq!(
        rows(
            &mut s,
            "SELECT CONSTRAINT_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.CONSTRAINT_COLUMN_USAGE
            WHERE TABLE_NAME IN ('child', 'sums') ORDER BY CONSTRAINT_NAME, COLUMN_NAME"
        ),
        [
            "ROW(String(\"ck_amount\"), String(\"amount\"))",
            "ROW(String(\"ck_sums\"), String(\"a\"))",
            "ROW(String(\"ck_sums\"), String(\"b\"))",
            "ROW(String(\"fk_parent\"), String(\"parent_id\"))",
            "ROW(String(\"pk_child\"), String(\"id\"))",
        ]
    );
}

// Source: "sys.indexes", docs/relational-databases/system-catalog-views/sys-indexes-transact-sql.md
// (filter_definition); the form is what SQL Server's own scripts of filtered indexes show.
#[test]
fn a_filter_is_shown_in_its_normal_form() {
    let (_e, mut s) = session();
    ok(
        &mut s,
        "CREATE TABLE t (state tinyint, kind varchar(10), name nvarchar(10), big bigint, rate decimal(5, 2), [a]]b] int)",
    );
    for (index, (written, shown)) in [
        ("state = 0", "([state]=(0))"),
        ("((state <> 2))", "([state]<>(2))"),
        ("state != 2 and kind = 'it''s'", "([state]<>(2) AND [kind]='it''s')"),
        ("state IN (1,2)", "([state] IN ((1), (2)))"),
        ("kind in ('a','b') AND name IS NOT NULL", "(([kind] IN ('a', 'b')) AND [name] IS NOT NULL)"),
        ("name=N'x' AND [state] is null", "([name]=N'x' AND [state] IS NULL)"),
        ("big>1 AND big<=3000000000", "([big]>(1) AND [big]<=(3000000000.))"),
        ("rate >= 1.50 AND [a]]b] < 7", "([rate]>=(1.50) AND [a]]b]<(7))"),
    ]
    .into_iter()
    .enumerate()
    {
        ok(&mut s, &format!("CREATE INDEX ix_{index} ON t (state) WHERE {written}"));
        let query = format!("SELECT filter_definition FROM sys.indexes WHERE name = 'ix_{index}'");
        assert_eq!(rows(&mut s, &query), [format!("ROW(String({shown:?}))")], "{written}");
    }
}

/// "Returns a row for each column of an object that has columns, such as views or tables … Inline table-valued SQL
/// functions (IF) … Views (V)" (docs/relational-databases/system-catalog-views/sys-columns-transact-sql.md).
#[test]
fn views_have_columns() {
    let (_e, mut s) = session();
    script(
        &mut s,
        "CREATE TABLE t (id int NOT NULL IDENTITY PRIMARY KEY, n nvarchar(7) COLLATE Latin1_General_BIN2 NULL)
GO
CREATE VIEW v AS SELECT id AS a, n AS b, NULLIF(id, 1) AS c FROM t
",
    );
    let columns = "SELECT name, column_id, TYPE_NAME(user_type_id), max_length, collation_name, is_nullable
        FROM sys.columns WHERE object_id = OBJECT_ID(";
    let n = |name: &str, id| {
        format!(
            "ROW(String(\"{name}\"), Int({id}), String(\"nvarchar\"), SmallInt(14), \
             String(\"Latin1_General_BIN2\"), Bit(true))"
        )
    };
    let int = |name: &str, id, nullable| {
        format!("ROW(String(\"{name}\"), Int({id}), String(\"int\"), SmallInt(4), Null, Bit({nullable}))")
    };
    let of_view = [int("a", 1, false), n("b", 2), int("c", 3, true)];
    assert_eq!(rows(&mut s, &format!("{columns}'v') ORDER BY column_id")), of_view);
    let all = columns.replace("sys.columns", "sys.all_columns");
    assert_eq!(rows(&mut s, &format!("{all}'v') ORDER BY column_id")), of_view);
    let schema = "SELECT COLUMN_NAME, IS_NULLABLE, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH FROM INFORMATION_SCHEMA.COLUMNS
        WHERE TABLE_NAME IN ('v', 'f') AND ORDINAL_POSITION < 3 ORDER BY ORDINAL_POSITION";
    assert_eq!(
        rows(&mut s, schema),
        [
            "ROW(String(\"a\"), String(\"NO\"), String(\"int\"), Null)",
            "ROW(String(\"b\"), String(\"YES\"), String(\"nvarchar\"), Int(7))",
        ]
    );
    assert_eq!(errors(&mut s, "SELECT COL_LENGTH('dbo.v', 'B')"), [59000]);
    assert_eq!(errors(&mut s, "SELECT COLUMNPROPERTY(OBJECT_ID('v'), 'a', 'AllowsNull')"), [59000]);
    ok(&mut s, "EXEC (N'ALTER VIEW v AS SELECT n FROM t')");
    assert_eq!(rows(&mut s, "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('v')"), ["ROW(String(\"n\"))"]);
}

/// What SQL Server has and is not here is refused as such: docs/relational-databases/system-dynamic-management-views/
/// and docs/relational-databases/system-functions/.
#[test]
fn functions_of_the_system_are_refused_by_name() {
    let (_e, mut s) = session();
    for sql in [
        "SELECT * FROM sys.dm_exec_sql_text(0x01)",
        "SELECT * FROM sys.dm_exec_requests AS r CROSS APPLY sys.dm_exec_input_buffer(r.session_id, 0) AS b",
        "SELECT * FROM sys.fn_my_permissions(NULL, 'DATABASE')",
        "SELECT sys.fn_varbintohexstr(0x01)",
    ] {
        assert_eq!(errors(&mut s, sql), [59000], "{sql}");
    }
    assert_eq!(errors(&mut s, "SELECT * FROM dbo.dm_exec_sql_text(0x01)"), [208]);
    // docs/t-sql/functions/columnproperty-transact-sql.md
    ok(&mut s, "CREATE TABLE t (a int)");
    assert_eq!(errors(&mut s, "SELECT COLUMNPROPERTY(OBJECT_ID('t'), 'a', 'Precision')"), [59000]);
}

/// "SEQUENCES" (docs/relational-databases/system-information-schema-views/),
/// "sys.partition_functions" (docs/relational-databases/system-catalog-views/), "sys.sysobjects"
/// (docs/relational-databases/system-compatibility-views/).
#[test]
fn what_schema_tools_look_for() {
    let (_e, mut s) = session();
    tables(&mut s);
    ok(&mut s, "CREATE SEQUENCE dbo.numbers AS int START WITH 7 INCREMENT BY 2");
    let sequences = "SELECT SEQUENCE_SCHEMA, SEQUENCE_NAME, DATA_TYPE, NUMERIC_PRECISION, START_VALUE, INCREMENT
        FROM INFORMATION_SCHEMA.SEQUENCES";
    assert_eq!(
        rows(&mut s, sequences),
        ["ROW(String(\"dbo\"), String(\"numbers\"), String(\"int\"), TinyInt(10), BigInt(7), BigInt(2))"]
    );
    let partitions = "SELECT f.name, f.boundary_value_on_right, CAST(v.value AS int) FROM sys.partition_functions AS f
        JOIN sys.partition_parameters AS p ON p.function_id = f.function_id
        LEFT JOIN sys.partition_range_values AS v ON v.function_id = f.function_id ORDER BY v.boundary_id";
    assert!(rows(&mut s, partitions).is_empty());
    let old = "SELECT name, type FROM sysobjects WHERE name IN ('p', 'v', 'pk_parent') ORDER BY name";
    assert_eq!(
        rows(&mut s, old),
        [
            "ROW(String(\"p\"), String(\"P \"))",
            "ROW(String(\"pk_parent\"), String(\"K \"))",
            "ROW(String(\"v\"), String(\"V \"))",
        ]
    );
    assert_eq!(rows(&mut s, "SELECT CAST(SERVERPROPERTY('IsFullTextInstalled') AS int)"), ["ROW(Int(0))"]);
}

// Source: the script of AdventureWorks (microsoft/sql-server-samples) shows the forms.
#[test]
fn defaults_are_shown_in_their_normal_form() {
    let (_e, mut s) = session();
    ok(&mut s, "CREATE TABLE t (id int NOT NULL)");
    for (index, (ty, written, shown)) in [
        ("int", "((-1))", "((-1))"),
        ("decimal(5, 2)", "0.50", "((0.50))"),
        ("varchar(9)", "('it''s')", "('it''s')"),
        ("int", "NULL", "(NULL)"),
        ("datetime", "CURRENT_TIMESTAMP", "(getdate())"),
        ("datetimeoffset", "(SysDateTimeOffset())", "(sysdatetimeoffset())"),
    ]
    .into_iter()
    .enumerate()
    {
        ok(&mut s, &format!("ALTER TABLE t ADD d{index} {ty} NULL CONSTRAINT df_{index} DEFAULT {written}"));
        let query = format!("SELECT definition FROM sys.default_constraints WHERE name = 'df_{index}'");
        assert_eq!(rows(&mut s, &query), [format!("ROW(String({shown:?}))")], "{written}");
    }
}

/// Source: "OBJECT_ID" (docs/t-sql/functions/object-id-transact-sql.md): "When you specify a temporary table name, the
/// database name must precede the temporary table name, unless the current database is tempdb."
#[test]
fn a_temporary_table_is_found_by_the_name_of_tempdb() {
    let (_e, mut s) = session();
    let is_there = "SELECT IIF(OBJECT_ID(N'tempdb..#t') IS NULL, 0, 1)";
    assert_eq!(rows(&mut s, is_there), ["ROW(Int(0))"]);
    ok(&mut s, "CREATE TABLE #t (a int)");
    assert_eq!(rows(&mut s, is_there), ["ROW(Int(1))"]);
}
