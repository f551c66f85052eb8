//! Control of flow, declarations, transactions, errors, EXECUTE and cursors.

use super::Parser;
use super::table::TablePlace;
use crate::error::SqlResult;
use crate::tsql::ast::{
    Argument, ArgumentValue, BinaryOp, CursorDefinition, CursorName, Execute, ExecuteTarget, Expr, Fetch,
    FetchDirection, Ident, Literal, ObjectName, RaiseError, Statement, StatementKind, TransactionName, TypeArguments,
    TypeName, VariableDeclaration,
};
use crate::tsql::lexer::{Symbol, TokenKind};

/// Most substitution arguments of RAISERROR.
const MAX_RAISERROR_ARGUMENTS: usize = 20;

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
    // Blocks

    /// BEGIN … END, BEGIN TRY, or BEGIN TRAN.
    pub(super) fn begin(&mut self) -> SqlResult<StatementKind> {
        self.expect("BEGIN")?;
        if self.accept("TRAN") || self.accept("TRANSACTION") {
            let name = self.transaction_name()?;
            if self.is("WITH") && self.is_ahead(1, "MARK") {
                return Err(self.unsupported("BEGIN TRANSACTION … WITH MARK"));
            }
            return Ok(StatementKind::BeginTransaction(name));
        }
        if self.is_one_of(&["DISTRIBUTED", "DIALOG", "CONVERSATION", "ATOMIC"]) {
            return Err(self.unsupported(format!("BEGIN {}", self.keyword())));
        }
        if self.accept("TRY") {
            return self.rest_of_try();
        }
        let statements = self.block_statements()?;
        self.expect("END")?;
        Ok(StatementKind::Block(statements))
    }

    /// The statements of a block: at least one.
    fn block_statements(&mut self) -> SqlResult<Vec<Statement>> {
        let statements = self.statements()?;
        if statements.is_empty() { Err(self.unexpected()) } else { Ok(statements) }
    }

    fn rest_of_try(&mut self) -> SqlResult<StatementKind> {
        let body = self.block_statements()?;
        self.expect_all(&["END", "TRY", "BEGIN", "CATCH"])?;
        let handler = self.statements()?;
        self.expect_all(&["END", "CATCH"])?;
        Ok(StatementKind::TryCatch { body, handler })
    }

    pub(super) fn if_statement(&mut self) -> SqlResult<StatementKind> {
        self.expect("IF")?;
        let condition = self.search_condition()?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.accept_else() { Some(Box::new(self.statement()?)) } else { None };
        Ok(StatementKind::If { condition, then, otherwise })
    }

    /// ELSE, with the semicolons that may end the statement before it.
    fn accept_else(&mut self) -> bool {
        let mut distance = 0;
        while self.is_symbol_ahead(distance, Symbol::Semicolon) {
            distance += 1;
        }
        if !self.is_ahead(distance, "ELSE") {
            return false;
        }
        for _ in 0..=distance {
            self.advance();
        }
        true
    }

    pub(super) fn while_statement(&mut self) -> SqlResult<StatementKind> {
        self.expect("WHILE")?;
        let condition = self.search_condition()?;
        let body = Box::new(self.statement()?);
        Ok(StatementKind::While { condition, body })
    }

    pub(super) fn return_statement(&mut self) -> SqlResult<StatementKind> {
        self.expect("RETURN")?;
        let value = if self.at_expression() { Some(self.expression()?) } else { None };
        if value.is_some() && !self.may_return_value {
            let message = "A RETURN statement with a return value cannot be used in this context.";
            return Err(self.error(178, message));
        }
        Ok(StatementKind::Return(value))
    }

    /// Can an expression begin here? Of the reserved words only a few begin one, the others the next statement.
    fn at_expression(&self) -> bool {
        match self.token().kind {
            TokenKind::End => false,
            TokenKind::Symbol(symbol) => {
                matches!(symbol, Symbol::LeftParen | Symbol::Minus | Symbol::Plus | Symbol::Tilde)
            }
            TokenKind::Word { reserved: true } => self.is_one_of(&[
                "CASE",
                "COALESCE",
                "CONVERT",
                "CURRENT_TIMESTAMP",
                "CURRENT_USER",
                "LEFT",
                "NULL",
                "NULLIF",
                "RIGHT",
                "SESSION_USER",
                "SYSTEM_USER",
                "TRY_CONVERT",
                "USER",
            ]),
            _ => true,
        }
    }

    // Declarations

    pub(super) fn declare(&mut self) -> SqlResult<StatementKind> {
        self.expect("DECLARE")?;
        if !self.is_variable() {
            return self.declare_cursor();
        }
        let has_as = self.is_ahead(1, "AS");
        if self.is_ahead(if has_as { 2 } else { 1 }, "TABLE") {
            let name = self.variable()?;
            self.accept("AS");
            self.expect("TABLE")?;
            let definition = Box::new(self.table_definition(TablePlace::TypeOrVariable)?);
            return Ok(StatementKind::DeclareTable { name, definition });
        }
        let declarations = self.comma_list(|p| {
            let name = p.variable()?;
            p.accept("AS");
            let data_type = if p.is("CURSOR") { p.cursor_type()? } else { p.type_name()? };
            if p.is_one_of(&["NULL", "NOT"]) {
                return Err(p.unsupported("NULL and NOT NULL of a variable"));
            }
            let value = if p.accept_symbol(Symbol::Equal) { Some(p.expression()?) } else { None };
            Ok(VariableDeclaration { name, data_type, value })
        })?;
        Ok(StatementKind::Declare(declarations))
    }

    /// The type of a cursor variable, which is no type of anything else.
    fn cursor_type(&mut self) -> SqlResult<TypeName> {
        self.expect("CURSOR")?;
        let name = ObjectName { server: None, database: None, schema: None, name: "cursor".into() };
        Ok(TypeName { name, arguments: TypeArguments::None })
    }

    // Labels

    pub(super) fn go_to(&mut self) -> SqlResult<StatementKind> {
        self.expect("GOTO")?;
        self.identifier().map(StatementKind::Goto)
    }

    pub(super) fn label(&mut self) -> SqlResult<StatementKind> {
        let name = self.identifier()?;
        self.expect_symbol(Symbol::Colon)?;
        Ok(StatementKind::Label(name))
    }

    // Transactions

    fn transaction_name(&mut self) -> SqlResult<Option<TransactionName>> {
        if self.is_variable() {
            return Ok(Some(TransactionName::Variable(self.variable()?)));
        }
        if self.is_identifier() {
            return Ok(Some(TransactionName::Name(self.identifier()?)));
        }
        Ok(None)
    }

    /// COMMIT, ROLLBACK and SAVE. A name can stand only after TRAN or TRANSACTION.
    pub(super) fn end_or_save_transaction(&mut self) -> SqlResult<StatementKind> {
        let verb = self.keyword();
        self.advance();
        let mut name = None;
        if self.accept("TRAN") || self.accept("TRANSACTION") {
            name = self.transaction_name()?;
        } else if verb == "SAVE" || (!self.accept("WORK") && self.is_identifier()) {
            return Err(self.unexpected());
        }
        if verb == "COMMIT" && self.is("WITH") && self.is_symbol_ahead(1, Symbol::LeftParen) {
            // When the log is written changes nothing here: there is none.
            self.advance();
            self.parenthesised_list(|p| {
                p.expect("DELAYED_DURABILITY")?;
                p.expect_symbol(Symbol::Equal)?;
                p.on_or_off()
            })?;
        }
        match (verb.as_str(), name) {
            ("COMMIT", name) => Ok(StatementKind::CommitTransaction(name)),
            ("ROLLBACK", name) => Ok(StatementKind::RollbackTransaction(name)),
            (_, Some(name)) => Ok(StatementKind::SaveTransaction(name)),
            (_, None) => Err(self.unexpected()),
        }
    }

    // Errors and waiting

    /// THROW alone, or with a number, a message and a state.
    pub(super) fn throw(&mut self) -> SqlResult<StatementKind> {
        self.expect("THROW")?;
        if !self.is_variable() && self.token().kind != TokenKind::Integer {
            return Ok(StatementKind::Throw(None));
        }
        let number = self.constant_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        let message = self.string_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        if !self.is_variable() && self.token().kind != TokenKind::Integer {
            return Err(self.unexpected());
        }
        let state = self.constant_or_variable()?;
        Ok(StatementKind::Throw(Some(Box::new((number, message, state)))))
    }

    pub(super) fn raise_error(&mut self) -> SqlResult<StatementKind> {
        self.expect("RAISERROR")?;
        self.expect_symbol(Symbol::LeftParen)?;
        let is_message = self.is_string() || self.is_variable() || self.token().kind == TokenKind::Integer;
        if !is_message {
            return Err(self.unexpected());
        }
        let message = self.constant_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        let severity = self.integer_or_variable()?;
        self.expect_symbol(Symbol::Comma)?;
        let state = self.integer_or_variable()?;
        let mut arguments = Vec::new();
        while self.accept_symbol(Symbol::Comma) {
            arguments.push(self.constant_or_variable()?);
        }
        if arguments.len() > MAX_RAISERROR_ARGUMENTS {
            let message = format!(
                "Too many substitution parameters for RAISERROR. Cannot exceed {MAX_RAISERROR_ARGUMENTS} \
                         substitution parameters."
            );
            return Err(self.error(2747, message));
        }
        self.expect_symbol(Symbol::RightParen)?;
        let mut statement =
            RaiseError { message, severity, state, arguments, nowait: false, log: false, set_error: false };
        if self.accept("WITH") {
            self.comma_list(|p| {
                match p.keyword().as_str() {
                    "NOWAIT" => statement.nowait = true,
                    "LOG" => statement.log = true,
                    "SETERROR" => statement.set_error = true,
                    _ => return Err(p.unexpected()),
                }
                p.advance();
                Ok(())
            })?;
        }
        Ok(StatementKind::RaiseError(Box::new(statement)))
    }

    /// A number, maybe with a minus, or a variable.
    fn integer_or_variable(&mut self) -> SqlResult<Expr> {
        let sign = usize::from(self.is_symbol(Symbol::Minus));
        if self.is_variable() || self.ahead(sign).kind == TokenKind::Integer {
            return self.constant_or_variable();
        }
        Err(self.unexpected())
    }

    pub(super) fn wait_for(&mut self) -> SqlResult<StatementKind> {
        self.expect("WAITFOR")?;
        if self.is_symbol(Symbol::LeftParen) {
            return Err(self.unsupported("WAITFOR of a Service Broker statement"));
        }
        if self.accept("DELAY") {
            return Ok(StatementKind::WaitForDelay(self.string_or_variable()?));
        }
        self.expect("TIME")?;
        Ok(StatementKind::WaitForTime(self.string_or_variable()?))
    }

    // EXECUTE

    /// What follows EXEC, or a procedure's name that begins a batch.
    pub(super) fn execute_statement(&mut self) -> SqlResult<StatementKind> {
        if !self.is("AS") {
            return Ok(StatementKind::Execute(Box::new(self.execute()?)));
        }
        self.advance();
        if self.is("CALLER") {
            return Err(self.unsupported("EXECUTE AS CALLER"));
        }
        let login = self.accept("LOGIN");
        if !login {
            self.expect("USER")?;
        }
        self.expect_symbol(Symbol::Equal)?;
        let name = self.string_or_variable()?;
        if self.is("WITH") {
            return Err(self.unsupported("EXECUTE AS … WITH"));
        }
        Ok(StatementKind::ExecuteAs { login, name })
    }

    pub(super) fn revert(&mut self) -> SqlResult<StatementKind> {
        self.expect("REVERT")?;
        if self.is("WITH") && self.is_ahead(1, "COOKIE") {
            return Err(self.unsupported("REVERT WITH COOKIE"));
        }
        Ok(StatementKind::Revert)
    }

    /// What follows EXEC: a call of a procedure, or text to run.
    pub(super) fn execute(&mut self) -> SqlResult<Execute> {
        if self.is_symbol(Symbol::LeftParen) {
            let text = self.executed_text()?;
            if self.is_one_of(&["AS", "AT"]) {
                return Err(self.unsupported("EXECUTE (…) AS and AT"));
            }
            return Ok(Execute {
                return_variable: None,
                target: ExecuteTarget::Text(text),
                arguments: Vec::new(),
                recompile: false,
            });
        }
        let mut return_variable = None;
        if self.is_variable() && self.is_symbol_ahead(1, Symbol::Equal) {
            return_variable = Some(self.variable()?);
            self.advance();
        }
        let target = if self.is_variable() {
            ExecuteTarget::Variable(self.variable()?)
        } else {
            ExecuteTarget::Procedure(self.object_name()?)
        };
        let arguments = self.arguments()?;
        let mut recompile = false;
        if self.is("WITH") && self.is_ahead(1, "RECOMPILE") {
            self.expect_all(&["WITH", "RECOMPILE"])?;
            recompile = true;
        } else if self.is("WITH") && self.is_ahead(1, "RESULT") {
            return Err(self.unsupported("EXECUTE … WITH RESULT SETS"));
        }
        Ok(Execute { return_variable, target, arguments, recompile })
    }

    /// `('text' + @v + …)`: T-SQL allows strings and variables here, but no other expression.
    fn executed_text(&mut self) -> SqlResult<Expr> {
        self.expect_symbol(Symbol::LeftParen)?;
        self.operators = 0;
        let mut text = self.string_or_variable()?;
        while self.accept_symbol(Symbol::Plus) {
            self.count_operator()?;
            let right = self.string_or_variable()?;
            text = Expr::Binary { op: BinaryOp::Add, left: Box::new(text), right: Box::new(right) };
        }
        self.expect_symbol(Symbol::RightParen)?;
        Ok(text)
    }

    fn arguments(&mut self) -> SqlResult<Vec<Argument>> {
        if !self.at_argument() {
            return Ok(Vec::new());
        }
        let mut named = false;
        let mut number = 0;
        self.comma_list(|p| {
            number += 1;
            let mut name = None;
            if p.is_variable() && p.is_symbol_ahead(1, Symbol::Equal) {
                name = Some(p.variable()?);
                p.advance();
                named = true;
            } else if named {
                let message = format!(
                    "Must pass parameter number {number} and subsequent parameters as '@name = value'. After the form \
                     '@name = value' has been used, all subsequent parameters must be passed in the form '@name = value'."
                );
                return Err(p.error(119, message));
            }
            let value = p.argument_value()?;
            Ok(Argument { name, value })
        })
    }

    fn at_argument(&self) -> bool {
        match self.token().kind {
            TokenKind::End | TokenKind::PseudoColumn => false,
            TokenKind::Symbol(symbol) => symbol == Symbol::Minus,
            TokenKind::Word { reserved: true } => self.is_one_of(&["NULL", "DEFAULT"]),
            _ => true,
        }
    }

    fn argument_value(&mut self) -> SqlResult<ArgumentValue> {
        if self.accept("DEFAULT") {
            return Ok(ArgumentValue::Default);
        }
        if self.is_variable() {
            let name = self.variable()?;
            let output = self.accept("OUTPUT") || self.accept("OUT");
            return Ok(ArgumentValue::Variable { name, output });
        }
        let constant = if self.token().kind == TokenKind::GlobalVariable {
            let name = Ident::from(self.source(self.token()));
            self.advance();
            Expr::GlobalVariable(name)
        } else if self.is_identifier() {
            let value = self.identifier()?;
            Expr::Literal(Literal::String { value, national: true })
        } else {
            self.constant()?
        };
        if self.is_one_of(&["OUTPUT", "OUT"]) {
            let message = "Cannot use the OUTPUT option when passing a constant to a stored procedure.";
            return Err(self.error(179, message));
        }
        Ok(ArgumentValue::Constant(constant))
    }

    // Cursors

    fn declare_cursor(&mut self) -> SqlResult<StatementKind> {
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
