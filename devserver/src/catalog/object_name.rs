//! Names in strings: `OBJECT_ID(N'[my schema].[jobs]')`, the procedure's name in an RPC.

use std::sync::Arc;

use crate::catalog::catalog::DBO;
use crate::storage::fold;
use crate::tsql::ast::ObjectName;

/// A name of one to three parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedName {
    pub database: Option<String>,
    pub schema: Option<String>,
    pub name: String,
}

impl ParsedName {
    /// `None` if it is no name: too many parts, an open bracket, or nothing.
    pub fn parse(text: &str) -> Option<ParsedName> {
        let mut parts: Vec<String> = Vec::new();
        let mut rest = text.trim();
        loop {
            let (part, after) = take_part(rest)?;
            parts.push(part);
            match after.strip_prefix('.') {
                Some(after) => rest = after,
                None if after.is_empty() => break,
                None => return None,
            }
        }
        if parts.len() > 3 {
            return None;
        }
        let name = parts.pop().filter(|name| !name.is_empty())?;
        let schema = parts.pop().filter(|schema| !schema.is_empty());
        let database = parts.pop().filter(|database| !database.is_empty());
        Some(ParsedName { database, schema, name })
    }

    /// Whether the name is looked for in this database.
    pub fn is_in(&self, database: &str) -> bool {
        self.database.as_deref().is_none_or(|name| fold(name) == fold(database))
    }

    /// The schemas to look in.
    pub fn schemas(&self, default_schema: &str) -> Vec<String> {
        match &self.schema {
            Some(schema) => vec![schema.clone()],
            None if fold(default_schema) == DBO => vec![DBO.to_string()],
            None => vec![default_schema.to_string(), DBO.to_string()],
        }
    }

    pub fn to_object_name(&self) -> ObjectName {
        let part = |part: &Option<String>| part.as_deref().map(Arc::from);
        ObjectName {
            server: None,
            database: part(&self.database),
            schema: part(&self.schema),
            name: self.name.as_str().into(),
        }
    }
}

/// The first part of a name and what stands behind it.
fn take_part(text: &str) -> Option<(String, &str)> {
    let closing = match text.chars().next() {
        Some('[') => ']',
        Some('"') => '"',
        _ => {
            let end = text.find('.').unwrap_or(text.len());
            return Some((text[..end].trim().to_string(), &text[end..]));
        }
    };
    let mut part = String::new();
    let mut characters = text[1..].char_indices().peekable();
    while let Some((position, character)) = characters.next() {
        if character != closing {
            part.push(character);
            continue;
        }
        if characters.peek().is_some_and(|&(_, next)| next == closing) {
            characters.next();
            part.push(closing);
            continue;
        }
        return Some((part, &text[1 + position + 1..]));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(Option<String>, String)> {
        ParsedName::parse(text).map(|name| (name.schema, name.name))
    }

    #[test]
    fn names_in_strings_are_read_like_names_in_text() {
        assert_eq!(parts("jobs"), Some((None, "jobs".into())));
        assert_eq!(parts("[a.b].[c]]d]"), Some((Some("a.b".into()), "c]d".into())));
        assert_eq!(parts("\"x\".y"), Some((Some("x".into()), "y".into())));
        assert_eq!(parts("tempdb..#t"), Some((None, "#t".into())));
        assert_eq!(parts("[open"), None);
        assert_eq!(parts(""), None);
    }
}
