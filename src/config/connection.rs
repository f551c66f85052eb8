//! Section `connection`: how to connect to SQL Server.

use std::time::Duration;

use crate::config::connection_string::{ConnectionString, LoginSettings, PACKET_SIZES};
use crate::error::Error;
use crate::login::{Login, TokenSource};

use super::range_checks::refused_text;
use super::settings_table::{Section, Table, check, defaults};

/// How to connect to SQL Server: section `connection`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConnectionConfig {
    /// ADO.NET connection string; [`ConnectionString`] lists its keys. Never shown in logs or errors.
    ///
    /// Default: none. Allowed: a connection string (READPAST_URL in the environment). Key: `connection.url`.
    pub url: ConnectionString,

    /// File with the password, instead of `Password` in the connection string, as Docker and Kubernetes mount
    /// secrets. Read at each login, so the password can change while workers run. A trailing newline is
    /// ignored.
    ///
    /// Default: empty. Allowed: empty, or a file path. Key: `connection.password_file`.
    pub password_file: String,

    /// The program's own source of access tokens, instead of the credentials in the connection string. Can be
    /// set only in code.
    ///
    /// Default: none.
    pub token_source: Option<TokenSource>,

    /// Database schema in which readpast is installed.
    ///
    /// Default: `readpast`. Allowed: 1 to 100 of A-Z, a-z, 0-9 and _, not beginning with a digit, and not a reserved
    /// word of T-SQL. Key: `connection.schema`.
    pub schema: String,

    /// Maximum number of connections that a `Queue` and its clones use at once. They are opened when needed, and closed
    /// about a minute after their last use. Further calls wait for a free connection. A worker has up to eight of its
    /// own.
    ///
    /// Default: 8 connections. Allowed: 1 to 1000 connections. Key: `connection.pool_size`.
    pub pool_size: usize,

    /// Timeout for opening a connection, including login. At most `worker.lease_ms`.
    ///
    /// Default: 15 s. Allowed: 100 ms to 10 min. Key: `connection.connect_timeout_ms`.
    pub connect_timeout: Duration,

    /// Timeout for one call, or for one enqueue including retries and the wait for a free connection. A slower
    /// call fails and its connection is dropped, so SQL Server rolls back what was not committed. At most
    /// `worker.lease_ms`.
    ///
    /// Default: 15 s. Allowed: 1 s to 1 h. Key: `connection.command_timeout_ms`.
    pub command_timeout: Duration,

    /// TDS packet size. Larger packets make large claims and finish calls cheaper; SQL Server may grant less. A packet
    /// must fit in one TLS record.
    ///
    /// Default: 16000 bytes. Allowed: 512 to 16383 bytes. Key: `connection.packet_size`.
    pub packet_size: usize,
}

impl Default for ConnectionConfig {
    fn default() -> ConnectionConfig {
        defaults()
    }
}

impl Section for ConnectionConfig {
    fn rows(table: &mut Table<'_, ConnectionConfig>) -> ConnectionConfig {
        ConnectionConfig {
            url: table.connection_string("connection.url", |connection| &connection.url, URL_RULE),
            password_file: table.text(
                "connection.password_file",
                |connection| &connection.password_file,
                "",
                "empty, or a file path",
                |_| true,
            ),
            token_source: table.in_code(|connection| &connection.token_source),
            schema: table.text(
                "connection.schema",
                |connection| &connection.schema,
                "readpast",
                SCHEMA_RULE,
                is_schema,
            ),
            pool_size: table.count(
                "connection.pool_size",
                |connection| connection.pool_size,
                8,
                1..=1_000,
                "connections",
            ),
            connect_timeout: table.time(
                "connection.connect_timeout_ms",
                |connection| connection.connect_timeout,
                15_000,
                100..=600_000,
            ),
            command_timeout: table.time(
                "connection.command_timeout_ms",
                |connection| connection.command_timeout,
                15_000,
                1_000..=3_600_000,
            ),
            packet_size: table.rare().count(
                "connection.packet_size",
                |connection| connection.packet_size,
                16_000,
                PACKET_SIZES,
                "bytes",
            ),
        }
    }
}

const URL_RULE: &str = "a connection string (READPAST_URL in the environment)";

/// SQL Server allows 128 characters, and the names of the roles are longer than the schema's.
const MAX_SCHEMA_LENGTH: usize = 100;

/// The timeouts in effect, from the connection string or from this section.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) command: Duration,
}

impl ConnectionConfig {
    pub(crate) fn validate(&self) -> Result<(), Error> {
        check(self)?;
        self.login().map(|_| ())
    }

    pub(crate) fn login(&self) -> Result<Login, Error> {
        let settings = LoginSettings { password_file: &self.password_file, token_source: self.token_source.as_ref() };
        self.url.parse()?.login(settings)
    }

    pub(crate) fn timeouts(&self) -> Result<Timeouts, Error> {
        let options = self.url.parse()?;
        Ok(Timeouts {
            connect: options.connect_timeout.unwrap_or(self.connect_timeout),
            command: options.command_timeout.unwrap_or(self.command_timeout),
        })
    }
}

pub(crate) fn check_schema(schema: &str) -> Result<(), Error> {
    if is_schema(schema) { Ok(()) } else { Err(refused_text("connection.schema", schema, SCHEMA_RULE)) }
}

const SCHEMA_RULE: &str =
    "1 to 100 of A-Z, a-z, 0-9 and _, not beginning with a digit, and not a reserved word of T-SQL";

/// Whether a name may be the schema's name, which becomes a part of SQL text. The scripts write it in brackets, but the
/// names of table types have none, because the protocol allows none there. So special characters and reserved words are
/// not allowed.
fn is_schema(schema: &str) -> bool {
    let begins_well = schema.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on_well = schema.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    let is_reserved = RESERVED_WORDS.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case(schema));
    begins_well && goes_on_well && schema.len() <= MAX_SCHEMA_LENGTH && !is_reserved
}

/// From "Reserved keywords (Transact-SQL)" in Microsoft's documentation.
const RESERVED_WORDS: &str = "
    add all alter and any as asc authorization backup begin between break browse bulk by cascade case check checkpoint close clustered
    coalesce collate column commit compute constraint contains containstable continue convert create cross current current_date
    current_time current_timestamp current_user cursor database dbcc deallocate declare default delete deny desc disk distinct
    distributed double drop dump else end errlvl escape except exec execute exists exit external fetch file fillfactor for foreign
    freetext freetexttable from full function goto grant group having holdlock identity identity_insert identitycol if in index inner
    insert intersect into is join key kill left like lineno load merge national nocheck nonclustered not null nullif of off offsets on
    open opendatasource openquery openrowset openxml option or order outer over percent pivot plan precision primary print proc
    procedure public raiserror read readtext reconfigure references replication restore restrict return revert revoke right rollback
    rowcount rowguidcol rule save schema securityaudit select semantickeyphrasetable semanticsimilaritydetailstable
    semanticsimilaritytable session_user set setuser shutdown some statistics system_user table tablesample textsize then to top tran
    transaction trigger truncate try_convert tsequal union unique unpivot update updatetext use user values varying view waitfor when
    where while with within writetext";
