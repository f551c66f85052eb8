//! Text to compiled batch, and cached plans to plans; what was compiled before is taken again while the catalog is the
//! same.

use std::sync::Arc;

use crate::bind::batch::Compiler;
use crate::bind::cached_plan::Surroundings;
use crate::error::SqlResult;
use crate::plan::batch::CompiledBatch;
use crate::plan::cached_plan::{BoundPlan, CachedPlan};
use crate::plan::declarations::Declarations;
use crate::session::client_session::Session;
use crate::session::plan_cache::BatchKey;
use crate::tsql;
use crate::tsql::ast::Statement;

impl Session {
    /// Parses and compiles a text, or takes it from the batches that were compiled before.
    pub(crate) fn compiled_batch(&mut self, sql: &str, parameters: Declarations) -> SqlResult<Arc<CompiledBatch>> {
        let schema = Arc::clone(&self.state.default_schema);
        self.compiled_text(sql, "", parameters, &schema, None)
    }

    /// `declared`: the text of the parameters' declaration, which the batch depends on too. `owner`: see
    /// [`CompiledBatch::owner`]; one text has always the same.
    pub(crate) fn compiled_text(
        &mut self,
        sql: &str,
        declared: &str,
        parameters: Declarations,
        schema: &Arc<str>,
        owner: Option<i32>,
    ) -> SqlResult<Arc<CompiledBatch>> {
        let version = self.version();
        let key: BatchKey = (self.database.id, Arc::clone(schema), format!("{declared}\u{0}{sql}"));
        // What was bound with a #temp table or IDENTITY_INSERT of this session is of no use to others.
        let is_shared = self.state.temporary_tables.is_empty() && self.state.identity_insert.is_none();
        if is_shared && let Some(compiled) = self.engine.plans.batch(&key, version) {
            return Ok(compiled);
        }
        let statements = tsql::parse_request(sql)?;
        let (compiled, is_common) = self.compile(&statements, parameters, schema, owner)?;
        let compiled = Arc::new(compiled);
        if is_shared && is_common {
            self.engine.plans.keep_batch(key, version, &compiled);
        }
        Ok(compiled)
    }

    /// Also says whether other sessions may have what was compiled.
    pub(crate) fn compile(
        &mut self,
        statements: &[Statement],
        parameters: Declarations,
        schema: &Arc<str>,
        owner: Option<i32>,
    ) -> SqlResult<(CompiledBatch, bool)> {
        self.with_compiler(&parameters, schema, owner, |compiler| compiler.compile(statements))
    }

    /// What CREATE and ALTER of a procedure or trigger find wrong with its statements.
    pub(crate) fn check_body(
        &mut self,
        statements: &[Statement],
        parameters: Declarations,
        schema: &Arc<str>,
    ) -> SqlResult<()> {
        self.with_compiler(&parameters, schema, None, |compiler| compiler.creating().compile(statements)).map(|_| ())
    }

    fn with_compiler<T>(
        &mut self,
        parameters: &Declarations,
        schema: &Arc<str>,
        owner: Option<i32>,
        compile: impl Fn(Compiler<'_>) -> SqlResult<T>,
    ) -> SqlResult<(T, bool)> {
        loop {
            let version = self.version();
            let (compiled, looks) = self.with_surroundings(schema, owner, |surroundings| {
                let compiled = compile(Compiler::new(surroundings, parameters.clone(), version));
                (compiled, surroundings.latch.take_looks())
            });
            if !self.waits_after(&looks)? {
                return Ok((compiled?, !looks.saw_own_change));
            }
        }
    }

    /// The plan of a cached plan of a batch, bound anew if the catalog has changed.
    pub fn bound(&mut self, cached: &CachedPlan, compiled: &CompiledBatch) -> SqlResult<Arc<BoundPlan>> {
        self.bound_in(cached, &compiled.declarations, &compiled.schema, compiled.owner)
    }

    /// The same among these variables, where `schema` is that of unqualified names, in a module of this owner.
    pub(crate) fn bound_in(
        &mut self,
        cached: &CachedPlan,
        declarations: &Declarations,
        schema: &Arc<str>,
        owner: Option<i32>,
    ) -> SqlResult<Arc<BoundPlan>> {
        loop {
            let version = self.version();
            if let Some(bound) = cached.kept(version) {
                return Ok(bound);
            }
            let (bound, looks) =
                self.with_surroundings(schema, owner, |surroundings| surroundings.bind(cached, declarations, version));
            if !self.waits_after(&looks)? {
                return bound;
            }
        }
    }

    fn with_surroundings<T>(
        &self,
        schema: &Arc<str>,
        owner: Option<i32>,
        bind: impl FnOnce(Surroundings<'_>) -> T,
    ) -> T {
        let database = &self.database;
        let latch = database.storage.latch();
        bind(Surroundings { database, latch: &latch, state: &self.state, schema, owner, calls: None })
    }
}
