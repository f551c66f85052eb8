//! GOTO: which labels a batch has, and where one can jump to.
//!
//! Source: "GOTO" (MicrosoftDocs/sql-docs, docs/t-sql/language-elements/goto-transact-sql.md) and "TRY...CATCH"
//! (docs/t-sql/language-elements/try-catch-transact-sql.md): GOTO cannot enter a TRY or CATCH block, but leave one.

use std::collections::HashMap;

use crate::error::{SqlError, SqlResult};
use crate::storage::fold;
use crate::tsql::ast::{Statement, StatementKind};

/// The labels of a batch. TRY and CATCH blocks are numbered in the order in which they stand.
#[derive(Debug, Default)]
pub struct Labels {
    /// By folded name: the label's number, and the TRY and CATCH blocks around it.
    known: HashMap<String, (usize, Vec<u32>)>,
    blocks: u32,
    /// The blocks around the current place.
    around: Vec<u32>,
}

impl Labels {
    /// 132 if a label stands twice.
    pub fn of(statements: &[Statement]) -> SqlResult<Labels> {
        let mut labels = Labels::default();
        labels.collect(statements)?;
        labels.blocks = 0;
        Ok(labels)
    }

    fn collect(&mut self, statements: &[Statement]) -> SqlResult<()> {
        for statement in statements {
            self.collect_from(statement)?;
        }
        Ok(())
    }

    fn collect_from(&mut self, statement: &Statement) -> SqlResult<()> {
        match &statement.kind {
            StatementKind::Label(name) => {
                let place = (self.known.len(), self.around.clone());
                if self.known.insert(fold(name), place).is_some() {
                    let message = format!(
                        "The label '{name}' has already been declared. Label names must be unique within a query batch or \
                         stored procedure."
                    );
                    return Err(SqlError::new(132, message).severity(15).at_line(statement.line));
                }
                Ok(())
            }
            StatementKind::Block(statements) => self.collect(statements),
            StatementKind::If { then, otherwise, .. } => {
                self.collect_from(then)?;
                otherwise.as_ref().map_or(Ok(()), |otherwise| self.collect_from(otherwise))
            }
            StatementKind::While { body, .. } => self.collect_from(body),
            StatementKind::TryCatch { body, handler } => {
                for block in [body, handler] {
                    self.enter();
                    self.collect(block)?;
                    self.leave();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A TRY or CATCH block begins.
    pub fn enter(&mut self) {
        self.around.push(self.blocks);
        self.blocks += 1;
    }

    pub fn leave(&mut self) {
        self.around.pop();
    }

    /// The number of a label that is there.
    pub fn number(&self, name: &str) -> usize {
        self.known.get(&fold(name)).map_or(usize::MAX, |(number, _)| *number)
    }

    /// The label that a GOTO here means; 133 if there is none, 1026 if it stands in a TRY or CATCH block further in.
    pub fn target(&self, name: &str) -> SqlResult<usize> {
        let Some((number, around)) = self.known.get(&fold(name)) else {
            let message =
                format!("A GOTO statement references the label '{name}' but the label has not been declared.");
            return Err(SqlError::new(133, message).severity(15));
        };
        if !self.around.starts_with(around) {
            let message = "GOTO cannot be used to jump into a TRY or CATCH scope.";
            return Err(SqlError::new(1026, message).severity(15));
        }
        Ok(*number)
    }
}
