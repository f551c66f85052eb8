//! Names.

use crate::error::SqlResult;
use crate::tsql::ast::name::{Ident, ObjectName};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;

impl<'t> Parser<'t> {
    pub(super) fn is_identifier(&self) -> bool {
        self.is_identifier_ahead(0)
    }

    pub(super) fn is_identifier_ahead(&self, distance: usize) -> bool {
        matches!(self.ahead(distance).kind, TokenKind::Word { reserved: false } | TokenKind::QuotedName(_))
    }

    pub(super) fn identifier(&mut self) -> SqlResult<Ident> {
        let name = match &self.token().kind {
            TokenKind::Word { reserved: false } => Ident::from(self.source(self.token())),
            TokenKind::QuotedName(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(name)
    }

    pub(super) fn identifier_list(&mut self) -> SqlResult<Vec<Ident>> {
        self.parenthesised_list(Self::identifier)
    }

    pub(super) fn is_variable(&self) -> bool {
        self.token().kind == TokenKind::Variable
    }

    pub(super) fn variable(&mut self) -> SqlResult<Ident> {
        if !self.is_variable() {
            return Err(self.unexpected());
        }
        let name = Ident::from(self.source(self.token()));
        self.advance();
        Ok(name)
    }

    /// A name of up to four parts; middle parts may be left out (`tempdb..#t`).
    pub(super) fn object_name(&mut self) -> SqlResult<ObjectName> {
        let mut parts = vec![Some(self.identifier()?)];
        while self.accept_symbol(Symbol::Dot) {
            let left_out = self.is_symbol(Symbol::Dot);
            parts.push(if left_out { None } else { Some(self.identifier()?) });
        }
        self.name_of_parts(parts)
    }

    /// Parts in the order written; the last one is always there.
    pub(super) fn name_of_parts(&self, mut parts: Vec<Option<Ident>>) -> SqlResult<ObjectName> {
        if parts.len() > 4 {
            return Err(self.unsupported("a name of more than four parts"));
        }
        let name = parts.pop().flatten().expect("the last part was read as an identifier");
        if name.starts_with("##") {
            return Err(self.unsupported(format!("the global temporary object {name}")));
        }
        let schema = parts.pop().flatten();
        let database = parts.pop().flatten();
        let server = parts.pop().flatten();
        Ok(ObjectName { server, database, schema, name })
    }

    /// A name of at most three parts: what is defined is defined on this server.
    pub(super) fn table_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.object_name()?;
        if name.server.is_some() {
            return Err(self.unsupported(format!("the definition of {} on another server", name.name)));
        }
        Ok(name)
    }

    /// A name of at most two parts.
    pub(super) fn local_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.table_name()?;
        if name.database.is_some() {
            return Err(self.unsupported(format!("the definition of {} with its database", name.name)));
        }
        Ok(name)
    }
}
