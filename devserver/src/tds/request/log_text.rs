//! Requests as text, for `--log-sql`: as the T-SQL that would say the same, with long values cut.

use std::fmt::{self, Display, Formatter, Write};

use crate::tds::request::call::{BeginTransaction, RpcCall, RpcParameter, RpcValue, TransactionRequest};
use crate::value::convert::bytes::hex;
use crate::value::{Length, SqlType, Value, convert};

/// How many characters of a text are shown: statements whole, as a rule; payloads can be megabytes.
const SHOWN_CHARACTERS: usize = 2000;

/// How many bytes of a binary value are shown.
const SHOWN_BYTES: usize = 32;

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
    if let Value::Bytes(bytes) = value {
        f.write_str(&hex(&bytes[..bytes.len().min(SHOWN_BYTES)]))?;
        return if bytes.len() > SHOWN_BYTES { write!(f, "… /* {} bytes */", bytes.len()) } else { Ok(()) };
    }
    match convert(value.clone(), sql_type, SqlType::NVarChar(Length::Max), None, true) {
        Ok(Value::Null) => f.write_str("NULL"),
        Ok(Value::String(text)) if sql_type.is_number() || sql_type == SqlType::Bit => f.write_str(&text),
        Ok(Value::String(text)) => write_text(f, &text),
        _ => write!(f, "{value:?}"),
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
        let (verb, name, then_begin) = match self {
            TransactionRequest::Begin(begin) => return begin.fmt(f),
            TransactionRequest::Commit { name, then_begin } => ("COMMIT", name, then_begin),
            TransactionRequest::Rollback { name, then_begin } => ("ROLLBACK", name, then_begin),
            TransactionRequest::Save { name } => ("SAVE", name, &None),
        };
        write!(f, "{verb} TRANSACTION {name}")?;
        if let Some(begin) = then_begin { write!(f, "; {begin}") } else { Ok(()) }
    }
}

impl Display for BeginTransaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(isolation) = self.isolation {
            write!(f, "/* isolation level {isolation:?} */ ")?;
        }
        write!(f, "BEGIN TRANSACTION {}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsql::ast::IsolationLevel;

    fn shown(name: Option<&str>, by_ref: bool, value: RpcValue) -> String {
        let parameters = vec![RpcParameter { name: name.map(str::to_owned), by_ref, value }];
        RpcCall { procedure: "sp_executesql".to_owned(), parameters }.to_string()
    }

    #[test]
    fn a_call_reads_as_t_sql_with_long_values_cut() {
        let scalar = |sql_type, value| shown(None, false, RpcValue::Scalar { sql_type, value });
        let text = |text: &str| scalar(SqlType::NVarChar(Length::Max), Value::String(text.into()));
        assert_eq!(text("SELECT 'it''s'"), "EXEC sp_executesql N'SELECT ''it''''s'''");
        assert!(text(&"ü".repeat(3000)).ends_with("ü…' /* 6000 bytes of UTF-8 */"));
        let bytes = scalar(SqlType::VarBinary(Length::Max), Value::Bytes(vec![0xAB; 1000].into()));
        assert!(bytes.ends_with("ABAB… /* 1000 bytes */") && bytes.len() < 120, "{bytes}");
        let five = RpcValue::Scalar { sql_type: SqlType::Int, value: Value::Int(5) };
        assert_eq!(shown(Some("@n"), true, five), "EXEC sp_executesql @n = 5 OUTPUT");
        assert_eq!(scalar(SqlType::Int, Value::Null), "EXEC sp_executesql NULL");
        let default = RpcValue::Default { sql_type: None };
        assert_eq!(shown(Some("d"), false, default), "EXEC sp_executesql @d = DEFAULT");
    }

    #[test]
    fn transaction_requests_read_as_t_sql() {
        let begin = BeginTransaction { isolation: Some(IsolationLevel::Serializable), name: "work".to_owned() };
        let request = TransactionRequest::Commit { name: "a".to_owned(), then_begin: Some(begin) };
        let expected = "COMMIT TRANSACTION a; /* isolation level Serializable */ BEGIN TRANSACTION work";
        assert_eq!(request.to_string(), expected);
    }
}
