//! Names in T-SQL, and the name of a table in a mapping.

/// Quotes a name in brackets. `]` is doubled, as QUOTENAME does. No other function quotes names.
pub(super) fn bracketed(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// A table's name within the literal of an error's text, in which THROW reserves %.
pub(super) fn thrown(table: &TableName) -> String {
    table.to_string().replace('\'', "''").replace('%', "%%")
}

pub(super) fn literal(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableName {
    pub(super) schema: String,
    pub(super) table: String,
}

impl TableName {
    /// Parses `table` or `schema.table`, with or without brackets. The default schema is dbo.
    ///
    /// The error is the end of a sentence.
    pub(super) fn parse(text: &str) -> Result<TableName, String> {
        let mut parts = split(text)?;
        if parts.iter().any(|part| part.is_empty() || part.chars().count() > 128) {
            return Err("it must be schema.table, each name of 1 to 128 characters".to_string());
        }
        match parts.len() {
            1 => Ok(TableName { schema: "dbo".to_string(), table: parts.remove(0) }),
            2 => Ok(TableName { schema: parts.remove(0), table: parts.remove(0) }),
            _ => Err("it must be schema.table of the connection string's database: a procedure's permissions end \
                      at its database, so connect to the table's own database and install the adoption there"
                .to_string()),
        }
    }

    pub(super) fn sql(&self) -> String {
        format!("{}.{}", bracketed(&self.schema), bracketed(&self.table))
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

fn split(text: &str) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    let mut characters = text.chars().peekable();
    loop {
        let mut part = String::new();
        if characters.peek() == Some(&'[') {
            characters.next();
            loop {
                match characters.next() {
                    Some(']') if characters.peek() == Some(&']') => {
                        characters.next();
                        part.push(']');
                    }
                    Some(']') => break,
                    Some(character) => part.push(character),
                    None => return Err("a bracket is not closed".to_string()),
                }
            }
        } else {
            while let Some(character) = characters.next_if(|character| *character != '.') {
                part.push(character);
            }
        }
        parts.push(part);
        match characters.next() {
            None => return Ok(parts),
            Some('.') => {}
            Some(other) => return Err(format!("there is {other:?} after a closing bracket")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closing_bracket_is_doubled() {
        assert_eq!(bracketed("a]b[c"), "[a]]b[c]");
        assert_eq!(literal("it's"), "N'it''s'");
    }

    #[test]
    fn names_are_read_with_and_without_brackets() {
        let parsed = |text| TableName::parse(text).map(|name| (name.schema, name.table));
        let named = |schema: &str, table: &str| Ok((schema.to_string(), table.to_string()));
        assert_eq!(parsed("Queue"), named("dbo", "Queue"));
        assert_eq!(parsed("app.[My.Queue]]s]"), named("app", "My.Queue]s"));
        assert!(parsed("other.dbo.Queue").unwrap_err().contains("of the connection string's database"));
        assert!(parsed("dbo.").is_err());
        assert!(parsed("[dbo").is_err());
        assert!(parsed("[dbo]x.y").is_err());
    }
}
