//! Batches, lists of statements, and which kind of statement a word begins.

use crate::error::{SqlError, SqlResult};
use crate::tsql::ast::statement::{Statement, StatementKind};
use crate::tsql::lexer::token::{Symbol, TokenKind};
use crate::tsql::parser::tokens::Parser;

impl Parser<'_> {
    pub(super) fn batch(&mut self) -> SqlResult<Vec<Statement>> {
        let statements = self.statements()?;
        self.expect_end()?;
        Ok(statements)
    }

    /// Statements up to END, ELSE or the end of the text; which of them may follow is the caller's question.
    pub(super) fn statements(&mut self) -> SqlResult<Vec<Statement>> {
        let mut statements = Vec::new();
        let mut terminated = true;
        loop {
            while self.accept_symbol(Symbol::Semicolon) {
                terminated = true;
            }
            if self.at_end() || self.is_one_of(&["END", "ELSE"]) {
                return Ok(statements);
            }
            if !terminated {
                self.check_needs_no_terminator()?;
            }
            statements.push(self.statement()?);
            terminated = false;
        }
    }

    /// Before WITH and THROW a semicolon must stand: WITH could be a hint, and THROW is no reserved word.
    fn check_needs_no_terminator(&self) -> SqlResult<()> {
        if self.is("WITH") {
            let message = "Incorrect syntax near the keyword 'with'. If this statement is a common table expression, an \
                           xmlnamespaces clause or a change tracking context clause, the previous statement must be \
                           terminated with a semicolon.";
            return Err(self.error(319, message));
        }
        if self.is("THROW") {
            return Err(self.unexpected());
        }
        Ok(())
    }

    pub(super) fn statement(&mut self) -> SqlResult<Statement> {
        let line = self.line();
        self.combined = 0;
        let kind = self.deeper(Self::statement_kind)?;
        Ok(Statement { line, kind })
    }

    fn statement_kind(&mut self) -> SqlResult<StatementKind> {
        if self.is_symbol(Symbol::LeftParen) {
            return Ok(StatementKind::Select(Box::new(self.select_statement(Vec::new())?)));
        }
        if self.is_identifier() {
            return self.unreserved_statement();
        }
        let keyword = self.keyword();
        match keyword.as_str() {
            "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "WITH" => self.query_or_modification(),
            "CREATE" => self.create(),
            "ALTER" => self.alter(),
            "DROP" => self.drop_object(),
            "GRANT" | "DENY" | "REVOKE" => self.permission(),
            "USE" => {
                self.advance();
                Ok(StatementKind::Use(self.identifier()?))
            }
            "BEGIN" => self.begin(),
            "IF" => self.if_statement(),
            "WHILE" => self.while_statement(),
            "BREAK" => {
                self.advance();
                Ok(StatementKind::Break)
            }
            "CONTINUE" => {
                self.advance();
                Ok(StatementKind::Continue)
            }
            "RETURN" => self.return_statement(),
            "DECLARE" => self.declare(),
            "SET" => self.set(),
            "COMMIT" | "ROLLBACK" | "SAVE" => self.end_or_save_transaction(),
            "RAISERROR" => self.raise_error(),
            "PRINT" => {
                self.advance();
                Ok(StatementKind::Print(self.expression()?))
            }
            "EXEC" | "EXECUTE" => {
                self.advance();
                self.execute_statement()
            }
            "DBCC" => self.dbcc(),
            "WAITFOR" => self.wait_for(),
            "OPEN" | "CLOSE" | "DEALLOCATE" => self.cursor_statement(),
            "FETCH" => self.fetch(),
            "BACKUP" | "RESTORE" | "BULK" | "CHECKPOINT" | "GOTO" | "RECONFIGURE" | "REVERT" | "SHUTDOWN" | "KILL"
            | "TRUNCATE" | "SETUSER" | "READTEXT" | "WRITETEXT" | "UPDATETEXT" | "DISK" | "DUMP" | "LOAD" => {
                Err(self.unsupported(keyword))
            }
            _ => Err(self.unexpected()),
        }
    }

    fn query_or_modification(&mut self) -> SqlResult<StatementKind> {
        let ctes = self.common_table_expressions()?;
        match self.keyword().as_str() {
            "INSERT" => self.insert(ctes),
            "UPDATE" => self.update(ctes),
            "DELETE" => self.delete(ctes),
            "MERGE" => self.merge(ctes),
            _ => Ok(StatementKind::Select(Box::new(self.select_statement(ctes)?))),
        }
    }

    /// What begins with a name: THROW, or (first in a batch) a procedure called without EXEC.
    fn unreserved_statement(&mut self) -> SqlResult<StatementKind> {
        if self.is("THROW") {
            return self.throw();
        }
        if matches!(self.token().kind, TokenKind::Word { .. }) && self.is_symbol_ahead(1, Symbol::Colon) {
            return Err(self.unsupported("labels and GOTO"));
        }
        if self.is_one_of(&["ENABLE", "DISABLE"]) && self.is_ahead(1, "TRIGGER") {
            return self.switch_triggers();
        }
        if self.next == 0 {
            return self.execute_statement();
        }
        Err(self.unexpected())
    }

    /// Must this statement be the first of its batch? Then it is an error when it is not: 111 in a list of
    /// statements, 156 inside of IF, WHILE, BEGIN and procedures (its noun stands `noun` tokens ahead).
    pub(super) fn check_first_in_batch(&self, what: &str, noun: usize) -> SqlResult<()> {
        let first = self.tokens[..self.next].iter().all(|token| token.kind == TokenKind::Symbol(Symbol::Semicolon));
        if first {
            return Ok(());
        }
        if self.nesting > 1 {
            let index = (self.next + noun).min(self.tokens.len() - 1);
            return Err(self.unexpected_at(index));
        }
        Err(self.must_be_first(what))
    }

    fn must_be_first(&self, what: &str) -> SqlError {
        self.error(111, format!("'{what}' must be the first statement in a query batch."))
    }
}
