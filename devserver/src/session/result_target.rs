//! Where results go: to the client, or into the hands of INSERT … EXEC.

use std::sync::Arc;

use crate::error::SqlError;
use crate::plan::query::{ColumnOrigin, OutputColumn};
use crate::tds::token::{DoneKind, ResponseWriter, ResultColumn};
use crate::value::values::TypedRows;
use crate::value::{SqlType, Value};

pub struct ResultTarget<'w> {
    writer: &'w mut ResponseWriter,
    /// The rows that INSERT … EXEC collects instead of sending them.
    captured: Option<TypedRows>,
}

impl<'w> ResultTarget<'w> {
    pub fn new(writer: &'w mut ResponseWriter) -> ResultTarget<'w> {
        ResultTarget { writer, captured: None }
    }

    pub fn begin_capture(&mut self) {
        self.captured = Some(Vec::new());
    }

    pub fn end_capture(&mut self) -> TypedRows {
        self.captured.take().unwrap_or_default()
    }

    /// `order`: by which columns, from 1, the rows are ordered.
    pub fn result_set(&mut self, columns: &[OutputColumn], order: &[u16], rows: Vec<Vec<Value>>) {
        if let Some(captured) = &mut self.captured {
            let types: Arc<[SqlType]> = columns.iter().map(|column| column.ty).collect();
            captured.extend(rows.into_iter().map(|row| (row, Arc::clone(&types))));
            return;
        }
        let described: Vec<ResultColumn> = columns
            .iter()
            .map(|column| ResultColumn {
                name: column.name.to_string(),
                sql_type: column.ty,
                collation: column.collation,
                nullable: column.nullable,
                identity: column.origin == ColumnOrigin::Identity,
                updatable: column.origin == ColumnOrigin::Table,
            })
            .collect();
        self.writer.columns(&described);
        self.writer.order(order);
        for row in &rows {
            self.writer.row(row);
        }
    }

    pub fn done_statement(&mut self, kind: DoneKind, count: Option<u64>) {
        // The statements of a captured procedure are not the client's.
        if self.captured.is_none() {
            self.writer.done_statement(kind, count);
        }
    }

    /// An error, after its reasons: they stand at the same place.
    pub fn error(&mut self, error: &SqlError) {
        for reason in &error.reasons {
            let mut reason = reason.clone().at_line(error.line);
            reason.procedure = error.procedure.clone();
            self.writer.error(&reason);
        }
        self.writer.error(error);
    }

    pub fn info(&mut self, number: i32, severity: u8, state: u8, message: &str, procedure: Option<&str>, line: u32) {
        self.writer.info(number, severity, state, message, procedure, line);
    }

    /// The start of a procedure that EXEC calls; [`ResultTarget::leave_procedure`] is its end.
    pub fn enter_procedure(&mut self) {
        if self.captured.is_none() {
            self.writer.enter_procedure();
        }
    }

    /// What a procedure returned, before [`ResultTarget::leave_procedure`].
    ///
    /// Source: "RETURNSTATUS" (MS-TDS 2.2.7.18): it also carries the status of a procedure that a SQL batch executes.
    pub fn return_status(&mut self, status: i32) {
        if self.captured.is_none() {
            self.writer.return_status(status);
        }
    }

    pub fn leave_procedure(&mut self) {
        if self.captured.is_none() {
            self.writer.leave_procedure();
        }
    }

    pub fn writer(&mut self) -> &mut ResponseWriter {
        self.writer
    }
}
