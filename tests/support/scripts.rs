//! The scripts of sql/ as a DBA runs them, and what a schema looks like in the catalog.

use super::shipped::file;
use super::{Fixture, Session, text};

/// All scripts that begin with a digit, in the order of their names: name and text.
pub fn numbered() -> Vec<(String, String)> {
    let mut scripts = files_in("sql");
    scripts.retain(|(name, _)| name.starts_with(|first: char| first.is_ascii_digit()));
    scripts
}

/// All T-SQL that is shipped: the installation, the scripts for the DBA, and what adoptions are made of.
pub fn all_t_sql() -> Vec<(String, String)> {
    let mut scripts = files_in("sql");
    scripts.extend(files_in("adopt/sql"));
    scripts.retain(|(name, _)| name.contains(".sql"));
    scripts
}

/// The files of a folder in the order of their names: name and text.
fn files_in(folder: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"))).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut names: Vec<String> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), file(&format!("{folder}/{name}")))).collect()
}

/// The same as one text, for [`Session::script`].
pub fn scripts() -> String {
    numbered().into_iter().map(|(_, text)| text).collect()
}

/// The character columns of table variables, temporary tables and table types in a script that name no collation: they
/// would compare by the database's, which takes keys that differ in case, or any two emoji, for equal ("table
/// (Transact-SQL)", docs/t-sql/data-types/table-transact-sql.md: "it inherits the collation of the current database").
pub fn columns_without_collation(script: &str) -> Vec<String> {
    let code: Vec<&str> = script.lines().map(|line| line.split("--").next().unwrap()).collect();
    let code = code.join(" ");
    let is_text = |declared: &str| {
        let name = declared.split('(').next().unwrap();
        name.ends_with("char") || ["sysname", "text", "ntext"].contains(&name)
    };
    let mut found = Vec::new();
    for (at, _) in code.match_indices("TABLE") {
        let before: Vec<&str> = code[..at].split_whitespace().rev().take(2).collect();
        let declares = before.first() == Some(&"AS") || before.last() == Some(&"DECLARE");
        let after = code[at + "TABLE".len()..].trim_start();
        let is_temporary = before.first() == Some(&"CREATE") && after.starts_with('#');
        if !(declares || is_temporary) {
            continue;
        }
        let Some(open) = after.find('(') else { continue };
        // The columns: what stands between commas that are in no parentheses of their own.
        let (mut depth, mut column) = (0, String::new());
        for letter in after[open..].chars() {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            if depth == 0 || depth == 1 && letter == ',' {
                let words: Vec<&str> = column.split_whitespace().collect();
                if words.len() > 1 && is_text(words[1]) && !words.contains(&"COLLATE") {
                    found.push(words.join(" "));
                }
                column.clear();
            } else if depth > 1 || letter != '(' {
                column.push(letter);
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// Everything that is installed: objects, columns, types, indexes with their options, procedures, roles with their
/// rights. The schema's name in it is "readpast".
pub async fn contents(fixture: &Fixture, session: &mut Session) -> Vec<String> {
    let mut queries = vec![
        "SELECT CONCAT(o.type_desc, ' ', o.name) AS line
         FROM sys.objects AS o WHERE o.schema_id = SCHEMA_ID(N'$(schema)')",
        "SELECT CONCAT('type ', t.name) AS line FROM sys.types AS t WHERE t.schema_id = SCHEMA_ID(N'$(schema)')",
        "SELECT CONCAT('column ', o.name, '.', c.name, ' ', t.name, ' ', c.max_length, ' ', c.precision, ' ', c.scale, ' ', c.collation_name,
                       CASE c.is_nullable WHEN 1 THEN ' NULL' END, CASE c.is_identity WHEN 1 THEN ' IDENTITY' END, ' ', d.definition) AS line
         FROM (SELECT object_id, name FROM sys.tables WHERE schema_id = SCHEMA_ID(N'$(schema)')
               UNION ALL SELECT type_table_object_id, name FROM sys.table_types WHERE schema_id = SCHEMA_ID(N'$(schema)')) AS o
         INNER JOIN sys.columns AS c ON c.object_id = o.object_id
         INNER JOIN sys.types AS t ON t.user_type_id = c.user_type_id
         LEFT JOIN sys.default_constraints AS d ON d.object_id = c.default_object_id",
        "SELECT CONCAT('escalation ', name, ' ', lock_escalation_desc) AS line FROM sys.tables WHERE schema_id = SCHEMA_ID(N'$(schema)')",
        "SELECT CONCAT('index ', o.name, '.', i.name, ' ', i.type_desc, ' ', i.is_unique, i.is_primary_key, i.is_unique_constraint, i.is_disabled,
                       i.ignore_dup_key, i.allow_row_locks, i.allow_page_locks, s.no_recompute, ' ', i.filter_definition) AS line
         FROM sys.tables AS o
         INNER JOIN sys.indexes AS i ON i.object_id = o.object_id
         INNER JOIN sys.stats AS s ON s.object_id = i.object_id AND s.stats_id = i.index_id
         WHERE o.schema_id = SCHEMA_ID(N'$(schema)')",
        "SELECT CONCAT('statistics ', o.name, '.', s.name, ' ', c.name, ' ', s.no_recompute) AS line
         FROM sys.tables AS o
         INNER JOIN sys.stats AS s ON s.object_id = o.object_id AND s.user_created = 1
         INNER JOIN sys.stats_columns AS k ON k.object_id = s.object_id AND k.stats_id = s.stats_id
         INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
         WHERE o.schema_id = SCHEMA_ID(N'$(schema)')",
        "SELECT CONCAT('index column ', o.name, '.', i.is_primary_key, CASE o.is_type WHEN 0 THEN i.name END, ' ', k.key_ordinal, ' ', c.name, ' ',
                       k.is_descending_key, k.is_included_column) AS line
         FROM (SELECT object_id, name, 0 AS is_type FROM sys.tables WHERE schema_id = SCHEMA_ID(N'$(schema)')
               UNION ALL SELECT type_table_object_id, name, 1 FROM sys.table_types WHERE schema_id = SCHEMA_ID(N'$(schema)')) AS o
         INNER JOIN sys.indexes AS i ON i.object_id = o.object_id
         INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
         INNER JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id",
        "SELECT CONCAT('procedure ', o.name, ' ', m.definition) AS line
         FROM sys.objects AS o INNER JOIN sys.sql_modules AS m ON m.object_id = o.object_id
         WHERE o.schema_id = SCHEMA_ID(N'$(schema)')",
        "SELECT CONCAT('role ', name) AS line FROM sys.database_principals
         WHERE name IN (N'$(schema)_producer', N'$(schema)_worker', N'$(schema)_operator', N'$(schema)_monitor', N'$(schema)_autoscaler')",
    ];
    // The column exists from SQL Server 2019 on.
    let version = session.number("SELECT CAST(SERVERPROPERTY('ProductMajorVersion') AS int)").await;
    if version >= 15 {
        queries.push(
            "SELECT CONCAT('sequential ', i.name, ' ', i.optimize_for_sequential_key) AS line
             FROM sys.tables AS o INNER JOIN sys.indexes AS i ON i.object_id = o.object_id
             WHERE o.schema_id = SCHEMA_ID(N'$(schema)')",
        );
    }
    let mut lines = Vec::new();
    for query in queries {
        let rows = session.sql(query).await;
        lines
            .extend(rows.iter().map(|row| unmarked(&text(row, "line").unwrap()).replace(fixture.schema(), "readpast")));
    }
    let granted = grants(session).await;
    lines.extend(granted.iter().map(|line| line.replace(fixture.schema(), "readpast")));
    lines.sort();
    lines
}

/// Without the lines for adoptions, which are in the scripts and not in what the library installs or prints.
pub fn unmarked(definition: &str) -> String {
    definition.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("-- adopt: ")).collect()
}

/// Fails the test where two schemas differ, and says in what.
pub fn assert_same(found: &[String], expected: &[String], what: &str) {
    let short = |line: &String| line.chars().take(200).collect::<String>();
    let only_in = |lines: &[String], others: &[String]| -> Vec<String> {
        lines.iter().filter(|line| !others.contains(line)).map(short).collect()
    };
    let (added, missing) = (only_in(found, expected), only_in(expected, found));
    assert!(found == expected, "{what}: added {added:#?}, missing {missing:#?}");
}

/// What was granted on the schema and what is in it: role, and what it is on.
pub async fn grants(session: &mut Session) -> Vec<String> {
    let sql = "SELECT CONCAT(g.state_desc, ' ', g.permission_name, ' ', p.name, ' ', g.class_desc, ' ', o.name, t.name, s.name) AS line
               FROM sys.database_permissions AS g
               INNER JOIN sys.database_principals AS p ON p.principal_id = g.grantee_principal_id
               LEFT JOIN sys.objects AS o ON g.class = 1 AND o.object_id = g.major_id
               LEFT JOIN sys.types AS t ON g.class = 6 AND t.user_type_id = g.major_id
               LEFT JOIN sys.schemas AS s ON g.class = 3 AND s.schema_id = g.major_id
               WHERE SCHEMA_ID(N'$(schema)') IN (o.schema_id, t.schema_id, s.schema_id)";
    let mut lines: Vec<String> = session.sql(sql).await.iter().map(|row| text(row, "line").unwrap()).collect();
    lines.sort();
    lines
}

impl Fixture {
    /// Puts everything back as the scripts have it, procedures that a test has replaced too. `Queue::install` would see
    /// that the version is there and do nothing.
    pub async fn run_scripts(&self) {
        self.session().await.script(&scripts()).await.unwrap();
    }
}
