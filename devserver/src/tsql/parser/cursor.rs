//! Cursors.

use crate::error::SqlResult;
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::parser::query::{assigns, selects_of};
use crate::tsql::parser::tokens::Parser;

/// Options of a cursor that would be another than a dynamic one that goes forward.
const OTHER_CURSORS: &[&str] =
    &["SCROLL", "STATIC", "KEYSET", "FAST_FORWARD", "READ_ONLY", "SCROLL_LOCKS", "OPTIMISTIC", "TYPE_WARNING"];

impl Parser<'_> {
    pub(super) fn declare_cursor(&mut self) -> SqlResult<StatementKind> {
        let name = self.identifier()?;
        if self.is_one_of(&["INSENSITIVE", "SCROLL"]) {
            return Err(self.unsupported(format!("{} cursors", self.keyword())));
        }
        self.expect("CURSOR")?;
        let mut local = false;
        while self.is_one_of(&["LOCAL", "GLOBAL", "FORWARD_ONLY", "DYNAMIC"]) {
            local |= self.is("LOCAL");
            self.advance();
        }
        if self.is_one_of(OTHER_CURSORS) {
            return Err(self.unsupported(format!("{} cursors", self.keyword())));
        }
        self.expect("FOR")?;
        let ctes = self.common_table_expressions()?;
        let select = Box::new(self.select_statement(ctes)?);
        // "The keywords COMPUTE, COMPUTE BY, FOR BROWSE, and INTO aren't allowed within select_statement of a cursor
        // declaration" ("DECLARE CURSOR", docs/t-sql/language-elements/declare-cursor-transact-sql.md).
        if selects_of(&select.query.body).iter().any(|select| select.into.is_some() || assigns(select)) {
            return Err(self.unsupported("INTO and assignments in the query of a cursor"));
        }
        if self.is("FOR") {
            return Err(self.unsupported("FOR UPDATE and FOR READ ONLY of a cursor"));
        }
        Ok(StatementKind::DeclareCursor { name, local, select })
    }

    pub(super) fn cursor_name(&mut self) -> SqlResult<Ident> {
        if self.is_variable() {
            return Err(self.unsupported("cursor variables"));
        }
        if self.is("GLOBAL") && self.is_identifier_ahead(1) {
            return Err(self.unsupported("GLOBAL before the name of a cursor"));
        }
        self.identifier()
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
        let directed = self.is_ahead(1, "FROM");
        let other = self.is_one_of(&["ABSOLUTE", "RELATIVE"]);
        if other || (directed && self.is_one_of(&["PRIOR", "FIRST", "LAST"])) {
            return Err(self.unsupported(format!("FETCH {}", self.keyword())));
        }
        if directed {
            self.expect("NEXT")?;
        }
        self.accept("FROM");
        let cursor = self.cursor_name()?;
        let into = if self.accept("INTO") { self.comma_list(Self::variable)? } else { Vec::new() };
        Ok(StatementKind::Fetch { cursor, into })
    }
}
