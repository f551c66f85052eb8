//! Text to compiled batch, and cells to plans; what was compiled before is taken again while the catalog is the same.

use std::sync::Arc;

use crate::bind::batch::Compiler;
use crate::bind::cell::Surroundings;
use crate::error::SqlResult;
use crate::execute::activation::Activation;
use crate::plan::batch::CompiledBatch;
use crate::plan::cell::{BoundPlan, Cell, Uses};
use crate::plan::declarations::Declarations;
use crate::session::client_session::Session;
use crate::session::plan_cache::BatchKey;
use crate::tsql;
use crate::tsql::ast::Statement;

impl Session {
    /// Parses and compiles a text, or takes it from the batches that were compiled before.
    pub(crate) fn compiled_batch(&mut self, sql: &str, parameters: Declarations) -> SqlResult<Arc<CompiledBatch>> {
        let schema = Arc::clone(&self.state.default_schema);
        self.compiled_text(sql, "", parameters, &schema)
    }

    /// `declared`: the text of the parameters' declaration, which the batch depends on too.
    pub(crate) fn compiled_text(
        &mut self,
        sql: &str,
        declared: &str,
        parameters: Declarations,
        schema: &Arc<str>,
    ) -> SqlResult<Arc<CompiledBatch>> {
        let version = self.version();
        let key: BatchKey = (self.database.id, Arc::clone(schema), format!("{declared}\u{0}{sql}"));
        // What was bound with a #temp table or IDENTITY_INSERT of this session is of no use to others.
        let is_shared = self.state.temporary_tables.is_empty() && self.state.identity_insert.is_none();
        if is_shared && let Some(compiled) = self.engine.plans.batch(&key, version) {
            return Ok(compiled);
        }
        let statements = tsql::parse_request(sql)?;
        let compiled = Arc::new(self.compile(&statements, parameters, schema)?);
        if is_shared {
            self.engine.plans.keep_batch(key, version, &compiled);
        }
        Ok(compiled)
    }

    pub(crate) fn compile(
        &mut self,
        statements: &[Statement],
        parameters: Declarations,
        schema: &Arc<str>,
    ) -> SqlResult<CompiledBatch> {
        self.with_compiler(parameters, schema, |compiler| compiler.compile(statements))
    }

    /// What CREATE and ALTER of a procedure or trigger find wrong with its statements.
    pub(crate) fn check_body(
        &mut self,
        statements: &[Statement],
        parameters: Declarations,
        schema: &Arc<str>,
    ) -> SqlResult<()> {
        self.with_compiler(parameters, schema, |compiler| compiler.creating().compile(statements)).map(|_| ())
    }

    fn with_compiler<T>(
        &mut self,
        parameters: Declarations,
        schema: &Arc<str>,
        compile: impl FnOnce(Compiler<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let version = self.version();
        self.with_surroundings(schema, |surroundings| compile(Compiler::new(surroundings, parameters, version)))
    }

    /// The plan of a cell of a batch, bound anew if the catalog has changed.
    pub fn bound(&mut self, cell: &Cell, compiled: &CompiledBatch) -> SqlResult<Arc<BoundPlan>> {
        self.bound_in(cell, &compiled.declarations, &compiled.schema)
    }

    /// The same among these variables and where `schema` is that of unqualified names.
    pub(crate) fn bound_in(
        &mut self,
        cell: &Cell,
        declarations: &Declarations,
        schema: &Arc<str>,
    ) -> SqlResult<Arc<BoundPlan>> {
        loop {
            let version = self.version();
            if let Some(bound) = cell.kept(version) {
                return Ok(bound);
            }
            let bound = self.with_surroundings(schema, |surroundings| surroundings.bind(cell, declarations, version));
            if !bound.as_ref().is_err_and(|error| error.number == 208)
                || !self.waits_for_drop(cell, declarations, schema)?
            {
                return bound;
            }
        }
    }

    /// Waits for the end of a transaction that has dropped a table of the cell: until then its Sch-M lock is in the way
    /// of whoever wants to know the table.
    ///
    /// Source: "Transaction locking and row versioning guide", schema locks (MicrosoftDocs/sql-docs,
    /// docs/relational-databases/sql-server-transaction-locking-and-row-versioning-guide.md).
    fn waits_for_drop(&mut self, cell: &Cell, declarations: &Declarations, schema: &Arc<str>) -> SqlResult<bool> {
        let dropped =
            self.with_surroundings(schema, |surroundings| surroundings.table_being_dropped(cell, declarations));
        let Some(table) = dropped else { return Ok(false) };
        self.with_run(Uses::Database, &mut Activation::default(), |run| {
            let storage = run.storage()?;
            storage.latch.wait_for_drop(&mut storage.tx, table)
        })
    }

    fn with_surroundings<T>(&self, schema: &Arc<str>, bind: impl FnOnce(Surroundings<'_>) -> T) -> T {
        let database = &self.database;
        let latch = database.storage.latch();
        bind(Surroundings { database, latch: &latch, state: &self.state, schema, calls: None })
    }
}
