//! Binds window functions: what OVER says, and the functions that cannot do without it.
//!
//! Source: "SELECT - OVER Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-over-clause-transact-sql.md), and
//! the functions' own pages in docs/t-sql/functions/.

use crate::bind::binder::Binder;
use crate::bind::conversion::no_text_or_image;
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::{SortKey, WindowFunction, WindowKind};
use crate::plan::scalar::{Node, Scalar, SlotSet};
use crate::storage::fold;
use crate::tsql::ast::{FunctionCall, OrderItem, Window};
use crate::value::SqlType;

impl WindowFunction {
    /// The slots it reads.
    pub fn slots(&self) -> SlotSet {
        let keys = self.order_by.iter().map(|key| &key.scalar);
        let mut slots = self.partition_by.iter().chain(keys).fold(0, |slots, scalar| slots | scalar.slots());
        slots |= match &self.kind {
            WindowKind::FirstValue(scalar) => scalar.slots(),
            WindowKind::Aggregate(call) => call.argument.as_ref().map_or(0, Scalar::slots),
            _ => 0,
        };
        slots
    }
}

/// Whether a function of this name must have an OVER clause.
pub fn is_window_only(name: &str) -> bool {
    matches!(name, "row_number" | "first_value")
}

impl Binder<'_> {
    /// ROW_NUMBER and FIRST_VALUE.
    pub fn bind_window_only(&mut self, call: &FunctionCall) -> SqlResult<Scalar> {
        let Some(window) = &call.over else { unreachable!("the parser has seen to it") };
        let arguments = self.bind_list(&call.arguments)?;
        if window.order_by.is_empty() {
            let message = format!("The function '{}' must have an OVER clause with ORDER BY.", call.name.name);
            return Err(SqlError::new(4112, message).severity(15));
        }
        let (kind, ty, label) = match (&arguments[..], fold(&call.name.name).as_str()) {
            ([], "row_number") => (WindowKind::RowNumber, SqlType::BigInt, CollationLabel::Coercible),
            ([value], "first_value") => (WindowKind::FirstValue(value.clone()), value.ty, value.label),
            (_, name) => return Err(SqlError::not_supported(format!("{name} with {} arguments", arguments.len()))),
        };
        self.bind_over(kind, window, ty, label)
    }

    /// Adds a window function to the query; the column of its result.
    pub fn bind_over(
        &mut self,
        kind: WindowKind,
        window: &Window,
        ty: SqlType,
        label: CollationLabel,
    ) -> SqlResult<Scalar> {
        let partition_by = self.bind_list(&window.partition_by)?;
        no_text_or_image(ty, "a window function")?;
        partition_by.iter().try_for_each(|scalar| no_text_or_image(scalar.ty, "a window function"))?;
        let order_by = self.bind_window_order(&window.order_by)?;
        self.push_window(WindowFunction { kind, partition_by, order_by }, ty, label)
    }

    fn bind_window_order(&mut self, items: &[OrderItem]) -> SqlResult<Vec<SortKey>> {
        let order_by = self.bind_order(items)?;
        for (key, item) in order_by.iter().zip(items) {
            if self.is_written_constant(&item.expr, &key.scalar) {
                return Err(SqlError::not_supported("a constant in ORDER BY of OVER"));
            }
        }
        Ok(order_by)
    }

    fn push_window(&mut self, function: WindowFunction, ty: SqlType, label: CollationLabel) -> SqlResult<Scalar> {
        if !self.scopes.last().is_some_and(|scope| scope.windows_allowed) {
            return Err(SqlError::new(4108, "Windowed functions can only appear in the SELECT or ORDER BY clauses.")
                .severity(15));
        }
        let slot = match self.innermost()?.window_slot {
            Some(slot) => slot,
            None => {
                let slot = self.new_slot()?;
                self.innermost()?.window_slot = Some(slot);
                slot
            }
        };
        let nullable = !matches!(function.kind, WindowKind::RowNumber | WindowKind::NextValue(_));
        let scope = self.innermost()?;
        scope.windows.push(function);
        let ordinal = scope.windows.len() - 1;
        Ok(Scalar { node: Node::Column { slot, ordinal }, ty, nullable, label })
    }
}
