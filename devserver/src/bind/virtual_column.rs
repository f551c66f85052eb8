//! Binds computed columns: each stands as its expression wherever it is read.
//!
//! "A computed column is a virtual column that is not physically stored in the table." Source: "Specify Computed Columns
//! in a Table" (MicrosoftDocs/sql-docs, docs/relational-databases/tables/specify-computed-columns-in-a-table.md).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::bind::binder::Binder;
use crate::bind::conversion::implicit;
use crate::bind::query_scope::{QueryScope, VisibleColumn, VisibleSource};
use crate::error::SqlResult;
use crate::plan::scalar::{Node, Scalar, slot_bit};
use crate::storage::TableSchema;
use crate::tsql::ast::Expr;
use crate::tsql::parse_expression;

impl Binder<'_> {
    /// Puts expressions in the place of the computed columns of a table.
    pub(super) fn bind_virtual_columns(
        &mut self,
        schema: &TableSchema,
        slot: usize,
        columns: &mut [VisibleColumn],
    ) -> SqlResult<()> {
        let ordinals: Vec<usize> =
            (0..columns.len()).filter(|ordinal| schema.columns[*ordinal].computed.is_some()).collect();
        if ordinals.is_empty() {
            return Ok(());
        }
        // The expression sees the columns of its table and nothing of the statement. What it uses counts as used when
        // the column is named, and the functions that it calls belong to the owner of the table.
        let mut scope = QueryScope::new();
        scope.sources.push(VisibleSource {
            name: Arc::clone(&schema.name),
            schema: None,
            columns: columns.to_vec(),
            slots: slot_bit(slot),
            updatable: false,
        });
        let scopes = std::mem::replace(&mut self.scopes, vec![scope]);
        let ctes = std::mem::take(&mut self.ctes);
        let used = self.used_columns[slot].clone();
        let result = self.owned(&schema.schema, |binder| {
            ordinals.into_iter().try_for_each(|ordinal| {
                let value = Box::new(binder.bind_virtual_column(schema, ordinal)?);
                columns[ordinal].scalar.node = Node::Computed { slot, ordinal, value };
                Ok(())
            })
        });
        self.used_columns[slot] = used;
        self.ctes = ctes;
        self.scopes = scopes;
        result
    }

    fn bind_virtual_column(&mut self, schema: &TableSchema, ordinal: usize) -> SqlResult<Scalar> {
        let column = &schema.columns[ordinal];
        let text = column.computed.as_ref().expect("only computed columns are virtual");
        let expr = parsed(text)?;
        let scalar = self.forbidding_subqueries(|binder| binder.bind_expr(&expr))?;
        implicit(scalar, column.sql_type)
    }
}

/// The expression of a text, which each thread parses once: a table is bound for each statement that names it.
fn parsed(text: &Arc<str>) -> SqlResult<Rc<Expr>> {
    thread_local! {
        static PARSED: RefCell<HashMap<Arc<str>, Rc<Expr>>> = RefCell::default();
    }
    if let Some(expr) = PARSED.with_borrow(|parsed| parsed.get(text).cloned()) {
        return Ok(expr);
    }
    let expr = Rc::new(parse_expression(text)?);
    PARSED.with_borrow_mut(|parsed| parsed.insert(Arc::clone(text), Rc::clone(&expr)));
    Ok(expr)
}
