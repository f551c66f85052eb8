//! INSERT, UPDATE, DELETE and MERGE.

use crate::error::SqlResult;
use crate::tsql::ast::change::{
    Assignment, Delete, DmlCondition, Insert, InsertSource, Merge, MergeAction, MergeClause, NewValue, Output,
    OutputInto, Target, TargetName, Update,
};
use crate::tsql::ast::name::Ident;
use crate::tsql::ast::query::Cte;
use crate::tsql::ast::statement::StatementKind;
use crate::tsql::lexer::token::Symbol;
use crate::tsql::parser::tokens::Parser;

/// SQL Server's limit for the VALUES of an INSERT.
const MAX_INSERTED_ROWS: usize = 1000;

impl Parser<'_> {
    pub(super) fn insert(&mut self, ctes: Vec<Cte>) -> SqlResult<StatementKind> {
        self.expect("INSERT")?;
        if self.is("BULK") {
            return Err(self.unsupported("INSERT BULK"));
        }
        let top = self.parenthesised_top()?;
        self.accept("INTO");
        let target = self.target()?;
        let has_columns = self.is_symbol(Symbol::LeftParen)
            && !self.is_ahead(1, "SELECT")
            && !self.is_symbol_ahead(1, Symbol::LeftParen);
        let columns = if has_columns { Some(self.inserted_columns()?) } else { None };
        let output = self.output()?;
        let source = self.insert_source(columns.as_deref())?;
        let loop_joins = self.query_hints()?;
        Ok(StatementKind::Insert(Box::new(Insert { ctes, top, target, columns, output, source, loop_joins })))
    }

    fn inserted_columns(&mut self) -> SqlResult<Vec<Ident>> {
        self.parenthesised_list(|p| {
            let column = p.identifier()?;
            if p.is_symbol(Symbol::Dot) {
                return Err(p.unsupported("qualified names in the column list of an INSERT"));
            }
            Ok(column)
        })
    }

    fn insert_source(&mut self, columns: Option<&[Ident]>) -> SqlResult<InsertSource> {
        if self.accept("DEFAULT") {
            self.expect("VALUES")?;
            return Ok(InsertSource::DefaultValues);
        }
        if self.accept("VALUES") {
            let rows = self.comma_list(Self::new_row)?;
            self.check_row_widths(&rows)?;
            if rows.len() > MAX_INSERTED_ROWS {
                let message = format!(
                    "The number of row value expressions in the INSERT statement exceeds the maximum allowed number of \
                     {MAX_INSERTED_ROWS} row values."
                );
                return Err(self.error(10738, message));
            }
            self.check_column_count(columns, &rows[0])?;
            return Ok(InsertSource::Values(rows));
        }
        if self.accept("EXEC") || self.accept("EXECUTE") {
            return Ok(InsertSource::Execute(Box::new(self.execute()?)));
        }
        if self.is("SELECT") || self.is_symbol(Symbol::LeftParen) {
            return Ok(InsertSource::Query(Box::new(self.insert_query()?)));
        }
        Err(self.unexpected())
    }

    fn check_column_count(&self, columns: Option<&[Ident]>, row: &[NewValue]) -> SqlResult<()> {
        let Some(columns) = columns else {
            return Ok(());
        };
        let advice = "The number of values in the VALUES clause must match the number of columns specified in the INSERT \
                      statement.";
        if columns.len() > row.len() {
            let fault = "There are more columns in the INSERT statement than values specified in the VALUES clause.";
            return Err(self.error(109, format!("{fault} {advice}")));
        }
        if columns.len() < row.len() {
            let fault = "There are fewer columns in the INSERT statement than values specified in the VALUES clause.";
            return Err(self.error(110, format!("{fault} {advice}")));
        }
        Ok(())
    }

    fn new_row(&mut self) -> SqlResult<Vec<NewValue>> {
        self.parenthesised_list(Self::new_value)
    }

    fn new_value(&mut self) -> SqlResult<NewValue> {
        if self.accept("DEFAULT") { Ok(NewValue::Default) } else { Ok(NewValue::Expr(self.expression()?)) }
    }

    pub(super) fn update(&mut self, ctes: Vec<Cte>) -> SqlResult<StatementKind> {
        self.expect("UPDATE")?;
        if self.is("STATISTICS") {
            return Err(self.unsupported("UPDATE STATISTICS"));
        }
        let top = self.parenthesised_top()?;
        let target = self.target()?;
        self.expect("SET")?;
        let assignments = self.comma_list(Self::assignment)?;
        let output = self.output()?;
        let from = self.optional_from()?;
        let condition = self.dml_condition()?;
        let loop_joins = self.query_hints()?;
        Ok(StatementKind::Update(Box::new(Update {
            ctes,
            top,
            target,
            assignments,
            output,
            from,
            condition,
            loop_joins,
        })))
    }

    /// `column op value`, `@v op value` or `@v = column op value`.
    fn assignment(&mut self) -> SqlResult<Assignment> {
        let mut variable = None;
        if self.is_variable() {
            let Some(op) = self.assignment_op_ahead(1) else {
                return Err(self.unexpected());
            };
            variable = Some(self.variable()?);
            self.advance();
            if !self.at_column_assignment() {
                let value = NewValue::Expr(self.expression()?);
                return Ok(Assignment { variable, column: None, op, value });
            }
        }
        let column = Some(self.column()?);
        if self.is_symbol(Symbol::LeftParen) {
            return Err(self.unsupported("the .WRITE clause"));
        }
        let Some(op) = self.assignment_op_ahead(0) else {
            return Err(self.unexpected());
        };
        self.advance();
        let value = self.new_value()?;
        Ok(Assignment { variable, column, op, value })
    }

    /// Does a column and then an assignment follow? No expression can look like that.
    fn at_column_assignment(&self) -> bool {
        let mut distance = 0;
        while self.is_identifier_ahead(distance) && self.is_symbol_ahead(distance + 1, Symbol::Dot) {
            distance += 2;
        }
        self.is_identifier_ahead(distance) && self.assignment_op_ahead(distance + 1).is_some()
    }

    pub(super) fn delete(&mut self, ctes: Vec<Cte>) -> SqlResult<StatementKind> {
        self.expect("DELETE")?;
        let top = self.parenthesised_top()?;
        self.accept("FROM");
        let target = self.target()?;
        let output = self.output()?;
        let from = self.optional_from()?;
        let condition = self.dml_condition()?;
        let loop_joins = self.query_hints()?;
        Ok(StatementKind::Delete(Box::new(Delete { ctes, top, target, output, from, condition, loop_joins })))
    }

    pub(super) fn merge(&mut self, ctes: Vec<Cte>) -> SqlResult<StatementKind> {
        self.expect("MERGE")?;
        if self.is("TOP") {
            return Err(self.unsupported("TOP in MERGE"));
        }
        self.accept("INTO");
        let target = self.target()?;
        let alias = if self.is("USING") { None } else { self.source_alias()? };
        self.expect("USING")?;
        let source = self.table_source()?;
        self.expect("ON")?;
        let on = self.search_condition()?;
        let mut clauses = vec![self.merge_clause()?];
        while self.is("WHEN") {
            let clause = self.merge_clause()?;
            let kind = std::mem::discriminant(&clause.action);
            if clauses.iter().any(|other| std::mem::discriminant(&other.action) == kind) {
                return Err(self.unsupported("several WHEN clauses of one kind in MERGE"));
            }
            clauses.push(clause);
        }
        let output = self.output()?;
        let loop_joins = self.query_hints()?;
        if !self.is_symbol(Symbol::Semicolon) {
            return Err(self.error(10713, "A MERGE statement must be terminated by a semi-colon (;)."));
        }
        Ok(StatementKind::Merge(Box::new(Merge { ctes, target, alias, source, on, clauses, output, loop_joins })))
    }

    fn merge_clause(&mut self) -> SqlResult<MergeClause> {
        self.expect("WHEN")?;
        let matched = !self.accept("NOT");
        self.expect("MATCHED")?;
        if !matched && self.accept("BY") && !self.accept("TARGET") {
            return Err(self.unsupported("WHEN NOT MATCHED BY SOURCE"));
        }
        let condition = if self.accept("AND") { Some(self.search_condition()?) } else { None };
        self.expect("THEN")?;
        let action = self.merge_action(matched)?;
        Ok(MergeClause { condition, action })
    }

    fn merge_action(&mut self, matched: bool) -> SqlResult<MergeAction> {
        let is_fitting = if matched { self.is("UPDATE") } else { self.is("INSERT") };
        if !is_fitting {
            let clause = if matched { "MATCHED" } else { "NOT MATCHED" };
            return Err(self.unsupported(format!("{} in WHEN {clause} of MERGE", self.keyword())));
        }
        if self.accept("UPDATE") {
            self.expect("SET")?;
            return Ok(MergeAction::Update(self.comma_list(Self::assignment)?));
        }
        self.expect("INSERT")?;
        let columns = if self.is_symbol(Symbol::LeftParen) { Some(self.inserted_columns()?) } else { None };
        if self.is("DEFAULT") {
            return Err(self.unsupported("DEFAULT VALUES in MERGE"));
        }
        self.expect("VALUES")?;
        let values = self.new_row()?;
        self.check_column_count(columns.as_deref(), &values)?;
        Ok(MergeAction::Insert { columns, values })
    }

    // Clauses of several statements

    fn target(&mut self) -> SqlResult<Target> {
        if self.is_one_of(&["OPENROWSET", "OPENQUERY", "OPENDATASOURCE"]) {
            return Err(self.unsupported(self.keyword()));
        }
        let name = self.target_name()?;
        let hints = match name {
            TargetName::Table(_) => self.with_table_hints()?,
            TargetName::Variable(_) => Vec::new(),
        };
        Ok(Target { name, hints })
    }

    fn target_name(&mut self) -> SqlResult<TargetName> {
        if self.is_variable() {
            return Ok(TargetName::Variable(self.variable()?));
        }
        Ok(TargetName::Table(self.object_name()?))
    }

    /// `OUTPUT items INTO target`, then `OUTPUT items`; each may be missing.
    fn output(&mut self) -> SqlResult<Vec<Output>> {
        let mut outputs = Vec::new();
        while self.accept("OUTPUT") {
            let items = self.comma_list(Self::output_item)?;
            let mut into = None;
            if self.accept("INTO") {
                let target = self.target_name()?;
                let has_columns = self.is_symbol(Symbol::LeftParen)
                    && !self.is_ahead(1, "SELECT")
                    && !self.is_symbol_ahead(1, Symbol::LeftParen);
                let columns = if has_columns { self.identifier_list()? } else { Vec::new() };
                into = Some(OutputInto { target, columns });
            }
            let last = into.is_none() || outputs.len() == 1;
            outputs.push(Output { items, into });
            if last {
                break;
            }
        }
        let both_into = outputs.len() == 2 && outputs[1].into.is_some();
        if both_into {
            return Err(self.error(156, "Incorrect syntax near the keyword 'INTO'."));
        }
        Ok(outputs)
    }

    fn dml_condition(&mut self) -> SqlResult<Option<DmlCondition>> {
        if !self.accept("WHERE") {
            return Ok(None);
        }
        if self.accept("CURRENT") {
            self.expect("OF")?;
            return Ok(Some(DmlCondition::CurrentOf(self.cursor_name()?)));
        }
        Ok(Some(DmlCondition::Search(self.search_condition()?)))
    }
}
