//! Installing the schema, and checking that it is there and usable.
//!
//! sql/*.sql, embedded ─ `$(schema)` replaced ─ split at GO ─▶ one batch after another in one session
//!
//! The scripts take a lock at the start and give it back at the end, so that of two installs at once the second waits;
//! when one breaks off, its session ends and the lock with it.

use super::connection::Lane;
use crate::error::Error;

/// The version of the schema that this release needs: what the last script notes in `schema_version`.
pub(crate) const SCHEMA_VERSION: i32 = 1;

/// The scripts, in the order in which they are run.
const SCRIPTS: [(&str, &str); 34] = [
    ("000_begin.sql", include_str!("../../sql/000_begin.sql")),
    ("010_queues.sql", include_str!("../../sql/010_queues.sql")),
    ("020_jobs.sql", include_str!("../../sql/020_jobs.sql")),
    ("030_archive.sql", include_str!("../../sql/030_archive.sql")),
    ("040_workers.sql", include_str!("../../sql/040_workers.sql")),
    ("050_samples.sql", include_str!("../../sql/050_samples.sql")),
    ("100_enqueue_list.sql", include_str!("../../sql/100_enqueue_list.sql")),
    ("110_finish_list.sql", include_str!("../../sql/110_finish_list.sql")),
    ("120_job_list.sql", include_str!("../../sql/120_job_list.sql")),
    ("200_create_queue.sql", include_str!("../../sql/200_create_queue.sql")),
    ("210_enqueue.sql", include_str!("../../sql/210_enqueue.sql")),
    ("220_enqueue_batch.sql", include_str!("../../sql/220_enqueue_batch.sql")),
    ("230_claim.sql", include_str!("../../sql/230_claim.sql")),
    ("235_await_jobs.sql", include_str!("../../sql/235_await_jobs.sql")),
    ("240_finish.sql", include_str!("../../sql/240_finish.sql")),
    ("245_finish_one.sql", include_str!("../../sql/245_finish_one.sql")),
    ("250_release.sql", include_str!("../../sql/250_release.sql")),
    ("260_recover.sql", include_str!("../../sql/260_recover.sql")),
    ("300_reap.sql", include_str!("../../sql/300_reap.sql")),
    ("310_register_worker.sql", include_str!("../../sql/310_register_worker.sql")),
    ("320_heartbeat.sql", include_str!("../../sql/320_heartbeat.sql")),
    ("330_unregister_worker.sql", include_str!("../../sql/330_unregister_worker.sql")),
    ("340_promote.sql", include_str!("../../sql/340_promote.sql")),
    ("350_sample.sql", include_str!("../../sql/350_sample.sql")),
    ("360_unfinished.sql", include_str!("../../sql/360_unfinished.sql")),
    ("400_stats.sql", include_str!("../../sql/400_stats.sql")),
    ("410_pause.sql", include_str!("../../sql/410_pause.sql")),
    ("420_resume.sql", include_str!("../../sql/420_resume.sql")),
    ("430_requeue.sql", include_str!("../../sql/430_requeue.sql")),
    ("440_purge.sql", include_str!("../../sql/440_purge.sql")),
    ("450_peek.sql", include_str!("../../sql/450_peek.sql")),
    ("460_schema_info.sql", include_str!("../../sql/460_schema_info.sql")),
    ("900_roles.sql", include_str!("../../sql/900_roles.sql")),
    ("990_end.sql", include_str!("../../sql/990_end.sql")),
];

/// How often an install that failed for a passing reason is begun again: installs into other schemas of the database
/// may make it a deadlock victim in the system tables.
const INSTALL_ATTEMPTS: usize = 5;

/// The number with which `000_begin.sql` refuses a schema of a newer release.
const NEWER_SCHEMA: i32 = 58_010;

/// What `schema_info` says.
#[derive(Debug)]
struct SchemaInfo {
    version: Option<i32>,
    database: String,
    read_only: bool,
    wrong_set_options: String,
}

impl Lane {
    /// Installs or upgrades the schema; returns its version.
    pub(crate) async fn install(&mut self) -> Result<i32, Error> {
        for _ in 1..INSTALL_ATTEMPTS {
            match self.run_scripts().await {
                Err(error) if matches!(error, Error::Sql { .. }) && error.is_transient() => {
                    tracing::debug!(%error, "installing again");
                }
                Err(Error::Sql { number: NEWER_SCHEMA, .. }) => return Err(self.too_new().await),
                result => return result.map(|()| SCHEMA_VERSION),
            }
        }
        self.run_scripts().await.map(|()| SCHEMA_VERSION)
    }

    async fn run_scripts(&mut self) -> Result<(), Error> {
        // A session of its own: the lock is the session's, and so are the SET options.
        self.disconnect();
        self.ensure_connected().await?;
        for (name, script) in SCRIPTS {
            let script = script.replace("$(schema)", self.schema());
            for batch in batches(&script) {
                self.batch(name, batch).await?;
            }
        }
        self.disconnect();
        Ok(())
    }

    async fn too_new(&mut self) -> Error {
        match self.schema_info().await {
            Ok(SchemaInfo { version: Some(found), .. }) => Error::SchemaTooNew { found, wanted: SCHEMA_VERSION },
            Ok(_) => self.not_installed("the table schema_version is empty"),
            Err(error) => error,
        }
    }

    /// Checks everything that keeps a queue from being used, in the order in which one would mend it.
    pub(crate) async fn verify(&mut self, queue: &str) -> Result<(), Error> {
        self.ensure_connected().await?;
        let info = self.schema_info().await?;
        let found = info.version.ok_or_else(|| self.not_installed("an installation has not come to its end"))?;
        if found < SCHEMA_VERSION {
            return Err(Error::SchemaTooOld { found, wanted: SCHEMA_VERSION });
        }
        if found > SCHEMA_VERSION {
            return Err(Error::SchemaTooNew { found, wanted: SCHEMA_VERSION });
        }
        if !info.wrong_set_options.is_empty() {
            return Err(Error::WrongSetOptions { message: info.wrong_set_options });
        }
        if info.read_only {
            return Err(Error::ReadOnlyDatabase { message: format!("database {} cannot be changed", info.database) });
        }
        // Enqueues nothing: the one call that producers and workers may both make and that names an unknown queue.
        self.enqueue_chunk(queue, &[]).await?;
        Ok(())
    }

    async fn schema_info(&mut self) -> Result<SchemaInfo, Error> {
        let command = self.command("schema_info");
        let mut row = self.row("schema_info", command).await?;
        let version = row.optional("version")?;
        let database = row.required("database_name")?;
        let read_only = row.required("read_only")?;
        row.optional::<bool>("read_committed_snapshot")?;
        let wrong_set_options: String = row.required("wrong_set_options")?;
        Ok(SchemaInfo { version, database, read_only, wrong_set_options: wrong_set_options.trim_end().to_string() })
    }

    fn not_installed(&self, message: &str) -> Error {
        Error::NotInstalled { schema: self.schema().to_string(), message: message.to_string() }
    }
}

/// Splits a script at the lines that say GO. A GO inside a comment or a string does not count; neither does the
/// client's `GO n`, which our scripts do not use.
fn batches(script: &str) -> Vec<&str> {
    let mut batches = Vec::new();
    let mut inside = Inside::Code;
    let mut begin = 0;
    let mut position = 0;
    for line in script.split_inclusive('\n') {
        let next = position + line.len();
        if inside == Inside::Code && line.trim().eq_ignore_ascii_case("GO") {
            batches.push(&script[begin..position]);
            begin = next;
        } else {
            inside = after_line(line, inside);
        }
        position = next;
    }
    batches.push(&script[begin..]);
    batches.retain(|batch| !batch.trim().is_empty());
    batches
}

/// What a place in a script is inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    /// Up to this closing character, which doubled stands for itself: a string, or a name in brackets or quotes.
    Quoted(char),
    /// Block comments nest in T-SQL; this deep.
    Comment(usize),
}

fn after_line(line: &str, mut inside: Inside) -> Inside {
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied();
        let mut pair = false;
        inside = match (inside, character, next) {
            (Inside::Code, '-', Some('-')) => return Inside::Code,
            (Inside::Code, '/', Some('*')) => {
                pair = true;
                Inside::Comment(1)
            }
            (Inside::Code, '\'' | '"', _) => Inside::Quoted(character),
            (Inside::Code, '[', _) => Inside::Quoted(']'),
            // A doubled closing character closes here and opens again with the next one, which comes to the same, but
            // for brackets.
            (Inside::Quoted(']'), ']', Some(']')) => {
                pair = true;
                inside
            }
            (Inside::Quoted(closing), _, _) if character == closing => Inside::Code,
            (Inside::Comment(depth), '/', Some('*')) => {
                pair = true;
                Inside::Comment(depth + 1)
            }
            (Inside::Comment(depth), '*', Some('/')) => {
                pair = true;
                if depth == 1 { Inside::Code } else { Inside::Comment(depth - 1) }
            }
            _ => inside,
        };
        if pair {
            characters.next();
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbered_scripts_are_embedded_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
            .collect();
        files.sort();
        let embedded: Vec<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(embedded, files);
    }

    #[test]
    fn scripts_are_split_at_go_outside_of_comments_and_strings() {
        let script = "SELECT 1\nGO\n-- don't\nSELECT 'it''s\nGO\n' AS [a]]'b]\n  go  \n\
                      /* GO /* nested */\nGO\n*/ SELECT 2;\r\nGO\r\n\nGO\n";
        let expected =
            ["SELECT 1\n", "-- don't\nSELECT 'it''s\nGO\n' AS [a]]'b]\n", "/* GO /* nested */\nGO\n*/ SELECT 2;\r\n"];
        assert_eq!(batches(script), expected);
        assert_eq!(batches("SELECT 1"), ["SELECT 1"]);
    }

    #[test]
    fn a_procedure_stands_alone_in_its_batch() {
        for (name, script) in SCRIPTS {
            for batch in batches(script) {
                let code =
                    batch.lines().find(|line| !line.starts_with("--") && !line.trim().is_empty()).unwrap_or_default();
                if batch.contains("\nCREATE OR ALTER PROCEDURE") {
                    assert!(code.starts_with("CREATE OR ALTER PROCEDURE"), "{name}: {code}");
                }
            }
        }
    }
}
