//! Cursors.

use crate::error::SqlResult;
use crate::tsql::ast::cursor::{CursorDefinition, CursorName, Fetch, FetchDirection};
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::parser::tokens::Parser;

/// Options of a cursor that can stand after CURSOR.
const CURSOR_OPTIONS: &[&str] = &[
    "LOCAL",
    "GLOBAL",
    "FORWARD_ONLY",
    "SCROLL",
    "STATIC",
    "KEYSET",
    "DYNAMIC",
    "FAST_FORWARD",
    "READ_ONLY",
    "SCROLL_LOCKS",
    "OPTIMISTIC",
    "TYPE_WARNING",
];

impl Parser<'_> {
    pub(super) fn declare_cursor(&mut self) -> SqlResult<StatementKind> {
        let name = self.identifier()?;
        let mut options = Vec::new();
        while self.is_one_of(&["INSENSITIVE", "SCROLL"]) {
            options.push(Ident::from(self.keyword()));
            self.advance();
        }
        let definition = Box::new(self.cursor_definition(options)?);
        Ok(StatementKind::DeclareCursor { name, definition })
    }

    /// From CURSOR on; `options` are those before it.
    pub(super) fn cursor_definition(&mut self, mut options: Vec<Ident>) -> SqlResult<CursorDefinition> {
        self.expect("CURSOR")?;
        while CURSOR_OPTIONS.contains(&self.keyword().as_str()) {
            options.push(Ident::from(self.keyword()));
            self.advance();
        }
        self.expect("FOR")?;
        let ctes = self.common_table_expressions()?;
        let select = self.select_statement(ctes)?;
        let mut for_update = None;
        if self.accept("FOR") {
            if self.accept("READ") {
                self.expect("ONLY")?;
                options.push(Ident::from("READ_ONLY"));
            } else {
                self.expect("UPDATE")?;
                let columns = if self.accept("OF") { self.comma_list(Self::identifier)? } else { Vec::new() };
                for_update = Some(columns);
            }
        }
        Ok(CursorDefinition { options, select, for_update })
    }

    pub(super) fn cursor_name(&mut self) -> SqlResult<CursorName> {
        if self.is_variable() {
            return Ok(CursorName::Variable(self.variable()?));
        }
        let global = self.is("GLOBAL") && self.is_identifier_ahead(1);
        if global {
            self.advance();
        }
        Ok(CursorName::Name { name: self.identifier()?, global })
    }

    pub(super) fn cursor_statement(&mut self) -> SqlResult<StatementKind> {
        let verb = self.keyword();
        self.advance();
        if self.is_one_of(&["MASTER", "SYMMETRIC"]) {
            return Err(self.unsupported(format!("{verb} {}", self.keyword())));
        }
        let cursor = self.cursor_name()?;
        Ok(match verb.as_str() {
            "OPEN" => StatementKind::OpenCursor(cursor),
            "CLOSE" => StatementKind::CloseCursor(cursor),
            _ => StatementKind::DeallocateCursor(cursor),
        })
    }

    pub(super) fn fetch(&mut self) -> SqlResult<StatementKind> {
        self.expect("FETCH")?;
        let word = self.keyword();
        let directed = self.is_ahead(1, "FROM");
        let direction = match word.as_str() {
            "NEXT" if directed => FetchDirection::Next,
            "PRIOR" if directed => FetchDirection::Prior,
            "FIRST" if directed => FetchDirection::First,
            "LAST" if directed => FetchDirection::Last,
            "ABSOLUTE" | "RELATIVE" => {
                self.advance();
                let row = self.constant_or_variable()?;
                self.expect("FROM")?;
                let absolute = word == "ABSOLUTE";
                let direction = if absolute { FetchDirection::Absolute(row) } else { FetchDirection::Relative(row) };
                return self.rest_of_fetch(direction);
            }
            _ => {
                self.accept("FROM");
                return self.rest_of_fetch(FetchDirection::Next);
            }
        };
        self.advance();
        self.expect("FROM")?;
        self.rest_of_fetch(direction)
    }

    fn rest_of_fetch(&mut self, direction: FetchDirection) -> SqlResult<StatementKind> {
        let cursor = self.cursor_name()?;
        let into = if self.accept("INTO") { self.comma_list(Self::variable)? } else { Vec::new() };
        Ok(StatementKind::Fetch(Box::new(Fetch { direction, cursor, into })))
    }
}
