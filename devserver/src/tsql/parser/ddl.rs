//! CREATE, ALTER and DROP, but for modules (see `module`) and principals (see `security`).

use super::Parser;
use super::table::TablePlace;
use crate::error::SqlResult;
use crate::tsql::ast::{
    AlterDatabase, AlterIndex, AlterIndexAction, AlterTable, AlterTableAction, AlterTableDrop, CreateIndex,
    CreateSchema, CreateSequence, CreateTable, CreateType, DatabaseOption, DatabaseOptionValue, Drop, DropIndex,
    DropKind, Ident, IndexOption, LockEscalation, ObjectName, StatementKind, SwitchTriggers, TableConstraint,
    TableDefinition, Termination, TypeKind,
};
use crate::tsql::lexer::Symbol;

/// Database options that are ON or OFF without an equals sign.
///
/// Source: "ALTER DATABASE SET options", docs/t-sql/statements/alter-database-transact-sql-set-options.md.
const SWITCHED_OPTIONS: &[&str] = &[
    "READ_COMMITTED_SNAPSHOT",
    "ALLOW_SNAPSHOT_ISOLATION",
    "ANSI_NULL_DEFAULT",
    "ANSI_NULLS",
    "ANSI_PADDING",
    "ANSI_WARNINGS",
    "ARITHABORT",
    "AUTO_CLOSE",
    "AUTO_CREATE_STATISTICS",
    "AUTO_SHRINK",
    "AUTO_UPDATE_STATISTICS",
    "AUTO_UPDATE_STATISTICS_ASYNC",
    "CONCAT_NULL_YIELDS_NULL",
    "CURSOR_CLOSE_ON_COMMIT",
    "NUMERIC_ROUNDABORT",
    "QUOTED_IDENTIFIER",
    "RECURSIVE_TRIGGERS",
    "TRUSTWORTHY",
];

/// Database options whose name is all.
const BARE_OPTIONS: &[&str] =
    &["SINGLE_USER", "RESTRICTED_USER", "MULTI_USER", "READ_ONLY", "READ_WRITE", "ONLINE", "OFFLINE"];

impl Parser<'_> {
    // CREATE

    pub(super) fn create(&mut self) -> SqlResult<StatementKind> {
        let noun = self.source(self.ahead(1)).to_ascii_uppercase();
        match noun.as_str() {
            "PROCEDURE" | "PROC" | "OR" | "VIEW" | "FUNCTION" | "TRIGGER" => return self.module(),
            "SCHEMA" => return self.create_schema(),
            "ROLE" | "USER" | "LOGIN" | "DATABASE" => return self.create_principal_or_database(),
            "STATISTICS" | "DEFAULT" | "RULE" | "ASSEMBLY" | "COLUMNSTORE" | "XML" | "SPATIAL" | "FULLTEXT"
            | "PARTITION" | "QUEUE" | "SERVICE" | "MESSAGE" | "CONTRACT" | "ROUTE" | "CERTIFICATE" | "SYMMETRIC"
            | "ASYMMETRIC" | "MASTER" | "CREDENTIAL" | "EVENT" | "SECURITY" | "APPLICATION" | "SERVER" | "EXTERNAL"
            | "WORKLOAD" | "RESOURCE" | "ENDPOINT" | "AGGREGATE" => {
                return Err(self.unsupported(format!("CREATE {noun}")));
            }
            _ => {}
        }
        self.expect("CREATE")?;
        match noun.as_str() {
            "TABLE" => self.create_table(),
            "TYPE" => self.create_type(),
            "SEQUENCE" => self.create_sequence(),
            "SYNONYM" => {
                self.advance();
                let name = self.local_name("CREATE SYNONYM")?;
                self.expect("FOR")?;
                Ok(StatementKind::CreateSynonym { name, target: self.object_name()? })
            }
            "UNIQUE" | "CLUSTERED" | "NONCLUSTERED" | "INDEX" => self.create_index(),
            _ => Err(self.unexpected()),
        }
    }

    fn create_table(&mut self) -> SqlResult<StatementKind> {
        self.expect("TABLE")?;
        let name = self.table_name()?;
        if self.is("AS") {
            return Err(self.unsupported("CREATE TABLE AS FILETABLE, NODE or EDGE"));
        }
        let definition = self.table_definition(TablePlace::Table)?;
        self.skip_primary_filegroup()?;
        if self.is("FILESTREAM_ON") {
            return Err(self.unsupported("FILESTREAM_ON"));
        }
        if self.accept("TEXTIMAGE_ON") {
            self.primary_filegroup()?;
        }
        let mut compression = None;
        if self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen) {
            self.advance();
            self.advance();
            if !self.is("DATA_COMPRESSION") {
                return Err(self.unsupported(format!("the table option {}", self.keyword())));
            }
            self.advance();
            self.expect_symbol(Symbol::Equal)?;
            compression = Some(self.compression()?);
            self.expect_symbol(Symbol::RightParen)?;
        }
        Ok(StatementKind::CreateTable(Box::new(CreateTable { name, definition, compression })))
    }

    fn create_type(&mut self) -> SqlResult<StatementKind> {
        self.expect("TYPE")?;
        let name = self.local_name("CREATE TYPE")?;
        let kind = if self.accept("AS") {
            self.expect("TABLE")?;
            let definition = self.table_definition(TablePlace::TypeOrVariable)?;
            if self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen) {
                return Err(self.unsupported("memory-optimized table types"));
            }
            TypeKind::Table(definition)
        } else {
            if self.is("EXTERNAL") {
                return Err(self.unsupported("CREATE TYPE … EXTERNAL NAME"));
            }
            self.expect("FROM")?;
            let base = self.type_name()?;
            let nullable = self.nullability()?;
            TypeKind::Alias { base, nullable }
        };
        Ok(StatementKind::CreateType(Box::new(CreateType { name, kind })))
    }

    fn create_index(&mut self) -> SqlResult<StatementKind> {
        let unique = self.accept("UNIQUE");
        let clustered = self.clustered().unwrap_or(false);
        if self.is("COLUMNSTORE") {
            return Err(self.unsupported("columnstore indexes"));
        }
        self.expect("INDEX")?;
        let name = self.identifier()?;
        self.expect("ON")?;
        let table = self.table_name()?;
        let columns = self.index_columns()?;
        let include = self.include()?;
        let filter = self.filter()?;
        let options = self.with_index_options()?;
        self.skip_primary_filegroup()?;
        Ok(StatementKind::CreateIndex(Box::new(CreateIndex {
            name,
            unique,
            clustered,
            table,
            columns,
            include,
            filter,
            options,
        })))
    }

    fn create_sequence(&mut self) -> SqlResult<StatementKind> {
        self.expect("SEQUENCE")?;
        let mut sequence = CreateSequence {
            name: self.local_name("CREATE SEQUENCE")?,
            data_type: None,
            start: None,
            increment: None,
            min: None,
            max: None,
            cycle: false,
        };
        if self.accept("AS") {
            sequence.data_type = Some(self.type_name()?);
        }
        loop {
            match self.keyword().as_str() {
                "START" => {
                    self.expect_all(&["START", "WITH"])?;
                    sequence.start = Some(self.signed()?);
                }
                "INCREMENT" => {
                    self.expect_all(&["INCREMENT", "BY"])?;
                    sequence.increment = Some(self.signed()?);
                }
                "MINVALUE" => {
                    self.advance();
                    sequence.min = Some(self.signed()?);
                }
                "MAXVALUE" => {
                    self.advance();
                    sequence.max = Some(self.signed()?);
                }
                "CYCLE" => {
                    self.advance();
                    sequence.cycle = true;
                }
                // How many values are kept in memory changes nothing that a query could see.
                "CACHE" => {
                    self.advance();
                    if self.token().kind == crate::tsql::lexer::TokenKind::Integer {
                        self.unsigned()?;
                    }
                }
                "NO" => {
                    self.advance();
                    if !self.is_one_of(&["MINVALUE", "MAXVALUE", "CYCLE", "CACHE"]) {
                        return Err(self.unexpected());
                    }
                    self.advance();
                }
                _ => return Ok(StatementKind::CreateSequence(Box::new(sequence))),
            }
        }
    }

    /// CREATE SCHEMA takes the rest of its batch, in which only elements of the schema can stand.
    fn create_schema(&mut self) -> SqlResult<StatementKind> {
        self.check_first_in_batch("CREATE SCHEMA", 1)?;
        self.expect_all(&["CREATE", "SCHEMA"])?;
        let mut name = None;
        if !self.is("AUTHORIZATION") {
            name = Some(self.identifier()?);
        }
        let mut owner = None;
        if name.is_none() || self.is("AUTHORIZATION") {
            self.expect("AUTHORIZATION")?;
            owner = Some(self.identifier()?);
        }
        if self.is_one_of(&["CREATE", "GRANT", "DENY", "REVOKE"]) {
            return Err(self.unsupported("elements of CREATE SCHEMA"));
        }
        self.accept_symbol(Symbol::Semicolon);
        self.expect_end()?;
        Ok(StatementKind::CreateSchema(CreateSchema { name, owner }))
    }

    // ALTER

    pub(super) fn alter(&mut self) -> SqlResult<StatementKind> {
        let noun = self.source(self.ahead(1)).to_ascii_uppercase();
        if matches!(noun.as_str(), "PROCEDURE" | "PROC" | "VIEW" | "FUNCTION" | "TRIGGER") {
            return self.module();
        }
        self.expect("ALTER")?;
        match noun.as_str() {
            "TABLE" => self.alter_table(),
            "INDEX" => self.alter_index(),
            "DATABASE" => self.alter_database(),
            "ROLE" => self.alter_role(),
            "SCHEMA" => self.transfer_to_schema(),
            "LOGIN" => self.alter_login(),
            "SEQUENCE" | "USER" | "AUTHORIZATION" | "SERVER" | "PARTITION" | "FULLTEXT" | "QUEUE" | "SERVICE"
            | "CERTIFICATE" | "ASSEMBLY" | "ENDPOINT" | "EVENT" | "RESOURCE" | "WORKLOAD" | "SECURITY"
            | "SYMMETRIC" | "ASYMMETRIC" | "MASTER" | "CREDENTIAL" | "APPLICATION" | "XML" | "ROUTE" | "MESSAGE"
            | "EXTERNAL" => Err(self.unsupported(format!("ALTER {noun}"))),
            _ => Err(self.unexpected()),
        }
    }

    fn transfer_to_schema(&mut self) -> SqlResult<StatementKind> {
        self.expect("SCHEMA")?;
        let schema = self.identifier()?;
        self.expect("TRANSFER")?;
        if self.is("XML") && self.is_ahead(1, "SCHEMA") {
            return Err(self.unsupported("XML schema collections"));
        }
        let mut of_type = false;
        if self.is_symbol_ahead(1, Symbol::DoubleColon) {
            of_type = self.is("TYPE");
            if !of_type && !self.is("OBJECT") {
                return Err(self.unsupported("ALTER SCHEMA … TRANSFER of anything but objects and types"));
            }
            self.advance();
            self.advance();
        }
        Ok(StatementKind::TransferToSchema { schema, object: self.local_name("ALTER SCHEMA")?, of_type })
    }

    /// `ENABLE TRIGGER names ON table`, or DISABLE.
    pub(super) fn switch_triggers(&mut self) -> SqlResult<StatementKind> {
        let enable = self.is("ENABLE");
        self.advance();
        self.expect("TRIGGER")?;
        let names = if self.accept("ALL") {
            Vec::new()
        } else {
            self.comma_list(|p| p.local_name("ENABLE TRIGGER").map(|name| name.name))?
        };
        self.expect("ON")?;
        if self.is("DATABASE") || (self.is("ALL") && self.is_ahead(1, "SERVER")) {
            return Err(self.unsupported("DDL triggers"));
        }
        let table = self.table_name()?;
        Ok(StatementKind::SwitchTriggers(SwitchTriggers { enable, names, table }))
    }

    fn alter_table(&mut self) -> SqlResult<StatementKind> {
        self.expect("TABLE")?;
        let table = self.table_name()?;
        if self.is_one_of(&["ENABLE", "DISABLE"]) && self.is_ahead(1, "TRIGGER") {
            let enable = self.is("ENABLE");
            self.advance();
            self.advance();
            let names = if self.accept("ALL") { Vec::new() } else { self.comma_list(Self::identifier)? };
            return Ok(StatementKind::SwitchTriggers(SwitchTriggers { enable, names, table }));
        }
        let action = self.alter_table_action()?;
        Ok(StatementKind::AlterTable(Box::new(AlterTable { table, action })))
    }

    fn alter_table_action(&mut self) -> SqlResult<AlterTableAction> {
        let mut check = None;
        if self.accept("WITH") {
            let checked = self.accept("CHECK");
            if !checked {
                self.expect("NOCHECK")?;
            }
            check = Some(checked);
            if !self.is_one_of(&["ADD", "CHECK", "NOCHECK"]) {
                return Err(self.unexpected());
            }
        }
        match self.keyword().as_str() {
            "ADD" => {
                self.advance();
                self.alter_table_add(check)
            }
            "CHECK" | "NOCHECK" => self.alter_table_check(check),
            "DROP" => {
                self.advance();
                self.alter_table_drop()
            }
            "ALTER" => {
                self.advance();
                self.alter_column()
            }
            "SET" => {
                self.advance();
                self.alter_table_set()
            }
            "REBUILD" => {
                self.advance();
                self.refuse_partition()?;
                Ok(AlterTableAction::Rebuild(self.with_index_options()?))
            }
            "SWITCH" | "ENABLE" | "DISABLE" => Err(self.unsupported(format!("ALTER TABLE … {}", self.keyword()))),
            _ => Err(self.unexpected()),
        }
    }

    fn alter_table_add(&mut self, check: Option<bool>) -> SqlResult<AlterTableAction> {
        let mut definition = TableDefinition::default();
        let mut with_values = Vec::new();
        loop {
            if self.is_one_of(&["CONSTRAINT", "DEFAULT"]) {
                let name = self.constraint_name(TablePlace::Table)?;
                let kind = self.added_constraint()?;
                definition.constraints.push(TableConstraint { name, kind });
            } else {
                let columns_before = definition.columns.len();
                self.table_element(TablePlace::Table, &mut definition)?;
                let is_column = definition.columns.len() > columns_before;
                if is_column && self.is("WITH") && self.is_ahead(1, "VALUES") {
                    self.expect_all(&["WITH", "VALUES"])?;
                    with_values.push(definition.columns[columns_before].name.clone());
                }
            }
            if !self.accept_symbol(Symbol::Comma) {
                return Ok(AlterTableAction::Add { definition, with_values, check });
            }
        }
    }

    fn alter_table_check(&mut self, check: Option<bool>) -> SqlResult<AlterTableAction> {
        let enable = self.accept("CHECK");
        if !enable {
            self.expect("NOCHECK")?;
        }
        self.expect("CONSTRAINT")?;
        let names = if self.accept("ALL") { Vec::new() } else { self.comma_list(Self::identifier)? };
        Ok(AlterTableAction::CheckConstraint { enable, names, check })
    }

    /// `DROP COLUMN a, b, CONSTRAINT c`: the noun holds until the next one.
    fn alter_table_drop(&mut self) -> SqlResult<AlterTableAction> {
        let mut of_columns = false;
        let mut if_exists = false;
        let dropped = self.comma_list(|p| {
            if p.is_one_of(&["COLUMN", "CONSTRAINT"]) {
                of_columns = p.is("COLUMN");
                p.advance();
                if_exists = p.accept_if_exists()?;
            }
            let name = p.identifier()?;
            p.skip_drop_options()?;
            Ok(if of_columns {
                AlterTableDrop::Column { name, if_exists }
            } else {
                AlterTableDrop::Constraint { name, if_exists }
            })
        })?;
        Ok(AlterTableAction::Drop(dropped))
    }

    fn alter_column(&mut self) -> SqlResult<AlterTableAction> {
        self.expect("COLUMN")?;
        let name = self.identifier()?;
        if self.is_one_of(&["ADD", "DROP"]) {
            return Err(self.unsupported("ALTER COLUMN … ADD and DROP"));
        }
        let data_type = self.type_name()?;
        let collation = if self.accept("COLLATE") { Some(self.identifier()?) } else { None };
        let nullable = self.nullability()?;
        self.with_index_options()?;
        Ok(AlterTableAction::AlterColumn { name, data_type, collation, nullable })
    }

    fn alter_table_set(&mut self) -> SqlResult<AlterTableAction> {
        self.expect_symbol(Symbol::LeftParen)?;
        if !self.is("LOCK_ESCALATION") {
            return Err(self.unsupported("ALTER TABLE … SET other than LOCK_ESCALATION"));
        }
        self.advance();
        self.expect_symbol(Symbol::Equal)?;
        let escalation = match self.keyword().as_str() {
            "AUTO" => LockEscalation::Auto,
            "TABLE" => LockEscalation::Table,
            "DISABLE" => LockEscalation::Disable,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        self.expect_symbol(Symbol::RightParen)?;
        Ok(AlterTableAction::SetLockEscalation(escalation))
    }

    fn refuse_partition(&self) -> SqlResult<()> {
        if self.is("PARTITION") { Err(self.unsupported("partitions")) } else { Ok(()) }
    }

    fn alter_index(&mut self) -> SqlResult<StatementKind> {
        self.expect("INDEX")?;
        let name = if self.accept("ALL") { None } else { Some(self.identifier()?) };
        self.expect("ON")?;
        let table = self.table_name()?;
        let verb = self.keyword();
        if matches!(verb.as_str(), "RESUME" | "PAUSE" | "ABORT") {
            return Err(self.unsupported(format!("ALTER INDEX … {verb}")));
        }
        let action = match verb.as_str() {
            "REBUILD" => {
                self.advance();
                self.refuse_partition()?;
                AlterIndexAction::Rebuild(self.with_index_options()?)
            }
            "REORGANIZE" => {
                self.advance();
                self.refuse_partition()?;
                if self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen) {
                    return Err(self.unsupported("options of REORGANIZE"));
                }
                AlterIndexAction::Reorganize
            }
            "DISABLE" => {
                self.advance();
                AlterIndexAction::Disable
            }
            "SET" => {
                self.advance();
                AlterIndexAction::Set(self.parenthesised_list(Self::settable_index_option)?)
            }
            _ => return Err(self.unexpected()),
        };
        Ok(StatementKind::AlterIndex(AlterIndex { name, table, action }))
    }

    /// Some options can only be given when the index is built.
    fn settable_index_option(&mut self) -> SqlResult<IndexOption> {
        let start = self.next;
        let option = self.index_option()?;
        match option {
            IndexOption::AllowRowLocks(_)
            | IndexOption::AllowPageLocks(_)
            | IndexOption::IgnoreDupKey(_)
            | IndexOption::StatisticsNoRecompute(_)
            | IndexOption::OptimizeForSequentialKey(_) => Ok(option),
            _ => {
                let name = self.source(&self.tokens[start]).to_ascii_uppercase();
                let message = format!("'{name}' is not a recognized ALTER INDEX option.");
                Err(self.error(155, message))
            }
        }
    }

    fn alter_database(&mut self) -> SqlResult<StatementKind> {
        self.expect("DATABASE")?;
        if self.is_one_of(&["SCOPED", "AUDIT", "ENCRYPTION"]) && !self.is_ahead(1, "SET") {
            return Err(self.unsupported(format!("ALTER DATABASE {}", self.keyword())));
        }
        let name = if self.accept("CURRENT") { None } else { Some(self.identifier()?) };
        if self.is_one_of(&["ADD", "REMOVE", "MODIFY", "COLLATE"]) {
            return Err(self.unsupported(format!("ALTER DATABASE … {}", self.keyword())));
        }
        self.expect("SET")?;
        let options = self.comma_list(Self::database_option)?;
        let termination = if self.is("WITH") { Some(self.termination()?) } else { None };
        Ok(StatementKind::AlterDatabase(AlterDatabase { name, options, termination }))
    }

    fn database_option(&mut self) -> SqlResult<DatabaseOption> {
        let name = self.keyword();
        let option = |value| Ok(DatabaseOption { name: Ident::from(name.as_str()), value });
        let words: &[&str] = match name.as_str() {
            "RECOVERY" => &["FULL", "BULK_LOGGED", "SIMPLE"],
            "PARAMETERIZATION" => &["SIMPLE", "FORCED"],
            "DELAYED_DURABILITY" => &["DISABLED", "ALLOWED", "FORCED"],
            _ => &[],
        };
        if !words.is_empty() {
            self.advance();
            if name == "DELAYED_DURABILITY" {
                self.expect_symbol(Symbol::Equal)?;
            }
            let word = self.keyword();
            if !words.contains(&word.as_str()) {
                return Err(self.unexpected());
            }
            self.advance();
            return option(DatabaseOptionValue::Word(word.into()));
        }
        if name == "COMPATIBILITY_LEVEL" {
            self.advance();
            self.expect_symbol(Symbol::Equal)?;
            return option(DatabaseOptionValue::Number(self.unsigned()?));
        }
        if SWITCHED_OPTIONS.contains(&name.as_str()) {
            self.advance();
            let on = self.on_or_off()?;
            return option(if on { DatabaseOptionValue::On } else { DatabaseOptionValue::Off });
        }
        if BARE_OPTIONS.contains(&name.as_str()) {
            self.advance();
            return option(DatabaseOptionValue::Bare);
        }
        if !self.is_identifier() {
            return Err(self.unexpected());
        }
        Err(self.unsupported(format!("the database option {name}")))
    }

    fn termination(&mut self) -> SqlResult<Termination> {
        self.expect("WITH")?;
        if self.accept("NO_WAIT") {
            return Ok(Termination::NoWait);
        }
        self.expect("ROLLBACK")?;
        if self.accept("IMMEDIATE") {
            return Ok(Termination::RollbackImmediate);
        }
        self.expect("AFTER")?;
        let seconds = self.unsigned()?;
        self.accept("SECONDS");
        Ok(Termination::RollbackAfter(seconds))
    }

    // DROP

    pub(super) fn drop_object(&mut self) -> SqlResult<StatementKind> {
        self.expect("DROP")?;
        let noun = self.keyword();
        let kind = match noun.as_str() {
            "TABLE" => DropKind::Table,
            "PROCEDURE" | "PROC" => DropKind::Procedure,
            "VIEW" => DropKind::View,
            "TYPE" => DropKind::Type,
            "SCHEMA" => DropKind::Schema,
            "SEQUENCE" => DropKind::Sequence,
            "ROLE" => DropKind::Role,
            "USER" => DropKind::User,
            "LOGIN" => DropKind::Login,
            "DATABASE" => DropKind::Database,
            "SYNONYM" => DropKind::Synonym,
            "FUNCTION" => DropKind::Function,
            "TRIGGER" => DropKind::Trigger,
            "INDEX" => {
                self.advance();
                return self.drop_index();
            }
            "STATISTICS" | "DEFAULT" | "RULE" | "ASSEMBLY" | "CERTIFICATE" | "CREDENTIAL" | "ENDPOINT" | "EVENT"
            | "FULLTEXT" | "MASTER" | "PARTITION" | "QUEUE" | "ROUTE" | "SERVER" | "SERVICE" | "SYMMETRIC" | "XML"
            | "SECURITY" | "EXTERNAL" | "APPLICATION" | "ASYMMETRIC" | "MESSAGE" | "CONTRACT" | "RESOURCE"
            | "WORKLOAD" | "AGGREGATE" => return Err(self.unsupported(format!("DROP {noun}"))),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        let if_exists = if kind == DropKind::Login { false } else { self.accept_if_exists()? };
        let names = match kind {
            DropKind::Schema | DropKind::Role | DropKind::User | DropKind::Login => vec![self.unqualified_name()?],
            DropKind::Type => vec![self.local_name("DROP TYPE")?],
            DropKind::Database => self.comma_list(Self::unqualified_name)?,
            DropKind::Table => self.comma_list(Self::table_name)?,
            _ => self.comma_list(|p| p.local_name(&format!("DROP {noun}")))?,
        };
        if kind == DropKind::Trigger && self.is("ON") {
            return Err(self.unsupported("DDL triggers"));
        }
        Ok(StatementKind::Drop(Drop { kind, if_exists, names }))
    }

    fn unqualified_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.identifier()?;
        Ok(ObjectName { server: None, database: None, schema: None, name })
    }

    pub(super) fn accept_if_exists(&mut self) -> SqlResult<bool> {
        if !self.accept("IF") {
            return Ok(false);
        }
        self.expect("EXISTS")?;
        Ok(true)
    }

    fn drop_index(&mut self) -> SqlResult<StatementKind> {
        let if_exists = self.accept_if_exists()?;
        let indexes = self.comma_list(|p| {
            if p.is_identifier_ahead(0) && p.is_symbol_ahead(1, Symbol::Dot) {
                return p.old_style_index();
            }
            let name = p.identifier()?;
            p.expect("ON")?;
            let table = p.table_name()?;
            p.skip_drop_options()?;
            Ok((name, table))
        })?;
        Ok(StatementKind::DropIndex(DropIndex { if_exists, indexes }))
    }

    /// `[schema.]table.index`, the old way to name an index (`<drop_backward_compatible_index>` in "DROP INDEX",
    /// docs/t-sql/statements/drop-index-transact-sql.md).
    fn old_style_index(&mut self) -> SqlResult<(Ident, ObjectName)> {
        let mut parts = vec![self.identifier()?];
        while self.accept_symbol(Symbol::Dot) {
            parts.push(self.identifier()?);
        }
        let index = parts.pop().expect("at least two parts were read");
        let parts = parts.into_iter().map(Some).collect();
        Ok((index, self.name_of_parts(parts)?))
    }

    /// `WITH (ONLINE = …, MAXDOP = …)` of what is dropped bears on the time it takes only.
    fn skip_drop_options(&mut self) -> SqlResult<()> {
        if !(self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen)) {
            return Ok(());
        }
        self.advance();
        self.parenthesised_list(|p| {
            if p.is("MOVE") {
                return Err(p.unsupported("MOVE TO another filegroup"));
            }
            if !p.is_one_of(&["ONLINE", "MAXDOP"]) {
                return Err(p.unexpected());
            }
            p.index_option().map(|_| ())
        })?;
        Ok(())
    }
}
