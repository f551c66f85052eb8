//! Requests as text, for `--log-sql`: as the T-SQL that would say the same, with long values cut.

use std::fmt::{self, Display, Formatter, Write};

use crate::tds::request::call::{BeginTransaction, RpcCall, RpcParameter, RpcProcedure, RpcValue, TransactionRequest};
use crate::tsql::ast::IsolationLevel;
use crate::value::{Length, SqlType, Value, convert};

/// How many characters of a text are shown: statements whole, as a rule; payloads can be megabytes.
const SHOWN_CHARACTERS: usize = 2000;

/// How many bytes of a binary value are shown.
const SHOWN_BYTES: usize = 32;

impl Display for RpcProcedure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RpcProcedure::Name(name) => f.write_str(name),
            RpcProcedure::Id(10) => f.write_str("sp_executesql"),
            RpcProcedure::Id(11) => f.write_str("sp_prepare"),
            RpcProcedure::Id(12) => f.write_str("sp_execute"),
            RpcProcedure::Id(13) => f.write_str("sp_prepexec"),
            RpcProcedure::Id(15) => f.write_str("sp_unprepare"),
            RpcProcedure::Id(other) => write!(f, "procedure number {other}"),
        }
    }
}

impl Display for RpcCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "EXEC {}", self.procedure)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            f.write_str(if index == 0 { " " } else { ", " })?;
            parameter.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for RpcParameter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            // Some clients leave the @ away from sp_executesql's own.
            write!(f, "@{} = ", name.trim_start_matches('@'))?;
        }
        match &self.value {
            RpcValue::Default { .. } => f.write_str("DEFAULT")?,
            RpcValue::UntypedNull => f.write_str("NULL")?,
            RpcValue::Scalar { sql_type, value } => write_literal(f, *sql_type, value)?,
            RpcValue::Table { type_name, rows, .. } => write!(f, "/* {} rows of {type_name} */", rows.len())?,
        }
        if self.by_ref { f.write_str(" OUTPUT") } else { Ok(()) }
    }
}

fn write_literal(f: &mut Formatter<'_>, sql_type: SqlType, value: &Value) -> fmt::Result {
    match value {
        Value::Null => f.write_str("NULL"),
        Value::Bytes(bytes) => {
            f.write_str("0x")?;
            for byte in bytes.iter().take(SHOWN_BYTES) {
                write!(f, "{byte:02X}")?;
            }
            if bytes.len() > SHOWN_BYTES { write!(f, "… /* {} bytes */", bytes.len()) } else { Ok(()) }
        }
        Value::Variant(variant) => write_literal(f, variant.base, &variant.value),
        Value::Bit(_)
        | Value::TinyInt(_)
        | Value::SmallInt(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Decimal(_)
        | Value::Real(_)
        | Value::Float(_) => f.write_str(&text_of(sql_type, value)),
        Value::String(_)
        | Value::Date(_)
        | Value::Time(_)
        | Value::DateTime(..)
        | Value::DateTimeOffset(..)
        | Value::Uuid(_) => write_text(f, &text_of(sql_type, value)),
    }
}

fn text_of(sql_type: SqlType, value: &Value) -> String {
    match convert(value.clone(), sql_type, SqlType::NVarChar(Length::Max), None, true) {
        Ok(Value::String(text)) => text.to_string(),
        _ => format!("{value:?}"),
    }
}

fn write_text(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("N'")?;
    let mut rest = text.chars();
    for character in rest.by_ref().take(SHOWN_CHARACTERS) {
        f.write_char(character)?;
        if character == '\'' {
            f.write_char(character)?;
        }
    }
    if rest.next().is_some() { write!(f, "…' /* {} bytes of UTF-8 */", text.len()) } else { f.write_char('\'') }
}

impl Display for TransactionRequest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TransactionRequest::Begin(begin) => begin.fmt(f),
            TransactionRequest::Commit { name, then_begin } => write_end(f, "COMMIT TRANSACTION", name, then_begin),
            TransactionRequest::Rollback { name, then_begin } => write_end(f, "ROLLBACK TRANSACTION", name, then_begin),
            TransactionRequest::Save { name } => write!(f, "SAVE TRANSACTION {name}"),
        }
    }
}

fn write_end(f: &mut Formatter<'_>, what: &str, name: &str, then_begin: &Option<BeginTransaction>) -> fmt::Result {
    f.write_str(what)?;
    write_name(f, name)?;
    match then_begin {
        Some(begin) => write!(f, "; {begin}"),
        None => Ok(()),
    }
}

fn write_name(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    if name.is_empty() { Ok(()) } else { write!(f, " {name}") }
}

impl Display for BeginTransaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let level = match self.isolation {
            None => "",
            Some(IsolationLevel::ReadUncommitted) => "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; ",
            Some(IsolationLevel::ReadCommitted) => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ",
            Some(IsolationLevel::RepeatableRead) => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ",
            Some(IsolationLevel::Serializable) => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; ",
            Some(IsolationLevel::Snapshot) => "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; ",
        };
        write!(f, "{level}BEGIN TRANSACTION")?;
        write_name(f, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: Option<&str>, by_ref: bool, value: RpcValue) -> RpcParameter {
        RpcParameter { name: name.map(str::to_owned), by_ref, value }
    }

    #[test]
    fn a_call_reads_as_t_sql() {
        let text = |text: &str| RpcValue::Scalar {
            sql_type: SqlType::NVarChar(Length::Max),
            value: Value::String(text.into()),
        };
        let int = |value| RpcValue::Scalar { sql_type: SqlType::Int, value };
        let call = RpcCall {
            procedure: RpcProcedure::Id(10),
            parameters: vec![
                parameter(None, false, text("SELECT 'it''s'")),
                parameter(Some("@n"), true, int(Value::Int(5))),
                parameter(Some("@m"), false, int(Value::Null)),
                parameter(Some("@d"), false, RpcValue::Default { sql_type: None }),
            ],
            no_metadata: false,
        };
        assert_eq!(
            call.to_string(),
            "EXEC sp_executesql N'SELECT ''it''''s''', @n = 5 OUTPUT, @m = NULL, @d = DEFAULT"
        );
    }

    #[test]
    fn long_values_are_cut() {
        let value = |sql_type, value| parameter(None, false, RpcValue::Scalar { sql_type, value }).to_string();
        let bytes = value(SqlType::VarBinary(Length::Max), Value::Bytes(vec![0xAB; 1000].into()));
        assert!(bytes.ends_with("ABAB… /* 1000 bytes */") && bytes.len() < 100, "{bytes}");
        let text = value(SqlType::NVarChar(Length::Max), Value::String("ü".repeat(3000).into()));
        assert!(text.ends_with("ü…' /* 6000 bytes of UTF-8 */"), "{text}");
    }

    #[test]
    fn transaction_requests_read_as_t_sql() {
        let begin = BeginTransaction { isolation: Some(IsolationLevel::Serializable), name: "work".to_owned() };
        let request = TransactionRequest::Commit { name: String::new(), then_begin: Some(begin) };
        let expected = "COMMIT TRANSACTION; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION work";
        assert_eq!(request.to_string(), expected);
    }
}
