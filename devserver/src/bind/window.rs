//! Binds window functions: what OVER says, and the functions that cannot do without it.
//!
//! Source: "SELECT - OVER Clause" (MicrosoftDocs/sql-docs, docs/t-sql/queries/select-over-clause-transact-sql.md), and
//! the functions' own pages in docs/t-sql/functions/.

use crate::bind::binder::Binder;
use crate::bind::conversion::{implicit, no_text_or_image};
use crate::error::{SqlError, SqlResult};
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::{FrameBound, FrameBounds, SortKey, WindowFunction, WindowKind};
use crate::plan::scalar::{Node, Scalar, SlotSet};
use crate::storage::fold;
use crate::tsql::ast::{self, FunctionCall, OrderItem, Window};
use crate::value::{SqlType, Value};

impl WindowFunction {
    /// The expressions it is computed from.
    pub fn scalars_mut(&mut self) -> Vec<&mut Scalar> {
        let mut scalars: Vec<&mut Scalar> = self.partition_by.iter_mut().collect();
        scalars.extend(self.order_by.iter_mut().map(|key| &mut key.scalar));
        match &mut self.kind {
            WindowKind::RowNumber
            | WindowKind::Rank
            | WindowKind::DenseRank
            | WindowKind::PercentRank
            | WindowKind::CumeDist
            | WindowKind::NextValue(_) => {}
            WindowKind::NTile(scalar) | WindowKind::Edge { value: scalar, .. } => scalars.push(scalar),
            WindowKind::Offset { value, by, default, .. } => {
                scalars.extend([value, by]);
                scalars.extend(default);
            }
            WindowKind::Aggregate(call) => scalars.extend(&mut call.argument),
        }
        scalars
    }

    /// The slots it reads.
    pub fn slots(&self) -> SlotSet {
        let keys = self.order_by.iter().map(|key| &key.scalar);
        let mut slots = self.partition_by.iter().chain(keys).fold(0, |slots, scalar| slots | scalar.slots());
        slots |= match &self.kind {
            WindowKind::NTile(scalar) | WindowKind::Edge { value: scalar, .. } => scalar.slots(),
            WindowKind::Offset { value, by, default, .. } => {
                value.slots() | by.slots() | default.as_ref().map_or(0, Scalar::slots)
            }
            WindowKind::Aggregate(call) => call.argument.as_ref().map_or(0, Scalar::slots),
            _ => 0,
        };
        slots
    }
}

/// Whether a function of this name must have an OVER clause.
pub fn is_window_only(name: &str) -> bool {
    matches!(
        name,
        "row_number"
            | "rank"
            | "dense_rank"
            | "ntile"
            | "percent_rank"
            | "cume_dist"
            | "lag"
            | "lead"
            | "first_value"
            | "last_value"
    )
}

impl Binder<'_> {
    /// ROW_NUMBER and its like, LAG and LEAD, FIRST_VALUE and LAST_VALUE.
    pub fn bind_window_only(&mut self, call: &FunctionCall) -> SqlResult<Scalar> {
        let name = fold(&call.name.name);
        let Some(window) = &call.over else {
            return Err(SqlError::new(10753, format!("The function '{}' must have an OVER clause.", call.name.name))
                .severity(15));
        };
        let arguments = self.bind_list(&call.arguments)?;
        let count = |least: usize, most: usize| match arguments.len() {
            0 if least > 0 => Err(arity(&name, least, most)),
            given if (least..=most).contains(&given) => Ok(()),
            _ if most == 0 => {
                Err(SqlError::new(4112, format!("The function '{}' takes no arguments.", call.name.name)).severity(15))
            }
            _ => Err(arity(&name, least, most)),
        };
        if window.order_by.is_empty() {
            return Err(SqlError::new(
                4112,
                format!("The function '{}' must have an OVER clause with ORDER BY.", call.name.name),
            )
            .severity(15));
        }
        if window.frame.is_some() && !matches!(name.as_str(), "first_value" | "last_value") {
            return Err(SqlError::new(
                10752,
                format!("The function '{}' may not have a window frame.", call.name.name),
            )
            .severity(15));
        }
        let (kind, ty, label) = match name.as_str() {
            "row_number" | "rank" | "dense_rank" => {
                count(0, 0)?;
                let kind = match name.as_str() {
                    "row_number" => WindowKind::RowNumber,
                    "rank" => WindowKind::Rank,
                    _ => WindowKind::DenseRank,
                };
                (kind, SqlType::BigInt, CollationLabel::Coercible)
            }
            "percent_rank" | "cume_dist" => {
                count(0, 0)?;
                let kind = if name == "cume_dist" { WindowKind::CumeDist } else { WindowKind::PercentRank };
                (kind, SqlType::Float, CollationLabel::Coercible)
            }
            "ntile" => {
                count(1, 1)?;
                let tiles = implicit(arguments[0].clone(), SqlType::BigInt)?;
                (WindowKind::NTile(tiles), SqlType::BigInt, CollationLabel::Coercible)
            }
            "first_value" | "last_value" => {
                count(1, 1)?;
                let value = arguments[0].clone();
                let (ty, label) = (value.ty, value.label);
                (WindowKind::Edge { value, last: name == "last_value" }, ty, label)
            }
            _ => {
                count(1, 3)?;
                let value = arguments[0].clone();
                let (ty, label) = (value.ty, value.label);
                let by = match arguments.get(1) {
                    Some(by) => implicit(by.clone(), SqlType::BigInt)?,
                    None => Scalar::constant(Value::BigInt(1), SqlType::BigInt),
                };
                let default = match arguments.get(2) {
                    Some(default) => Some(implicit(default.clone(), ty)?),
                    None => None,
                };
                (WindowKind::Offset { value, by, default, ahead: name == "lead" }, ty, label)
            }
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
        let frame = match &window.frame {
            None if order_by.is_empty() => FrameBounds::WHOLE,
            None => FrameBounds::RUNNING,
            Some(_) if order_by.is_empty() => {
                return Err(
                    SqlError::new(10756, "Window frame with ROWS or RANGE must have an ORDER BY clause.").severity(15)
                );
            }
            Some(frame) => frame_bounds(frame)?,
        };
        self.push_window(WindowFunction { kind, partition_by, order_by, frame }, ty, label)
    }

    fn bind_window_order(&mut self, items: &[OrderItem]) -> SqlResult<Vec<SortKey>> {
        let order_by = self.bind_order(items)?;
        for (key, item) in order_by.iter().zip(items) {
            if self.is_written_constant(&item.expr, &key.scalar) {
                let is_place = key.scalar.ty == SqlType::Int
                    && key.scalar.as_constant().and_then(Value::as_i64).is_some_and(|number| number > 0);
                let (number, what) = if is_place { (5308, "integer indices") } else { (5309, "constants") };
                return Err(SqlError::new(
                    number,
                    format!(
                        "Windowed functions, aggregates and NEXT VALUE FOR functions do not support {what} as ORDER BY \
                         clause expressions."
                    ),
                ));
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
        let nullable = !matches!(
            function.kind,
            WindowKind::RowNumber | WindowKind::Rank | WindowKind::DenseRank | WindowKind::NextValue(_)
        );
        let scope = self.innermost()?;
        scope.windows.push(function);
        let ordinal = scope.windows.len() - 1;
        Ok(Scalar { node: Node::Column { slot, ordinal }, ty, nullable, label })
    }
}

fn arity(name: &str, least: usize, most: usize) -> SqlError {
    let error = if least == most {
        SqlError::new(174, format!("The {name} function requires {least} argument(s)."))
    } else {
        SqlError::new(189, format!("The {name} function requires {least} to {most} arguments."))
    };
    error.severity(15)
}

fn frame_bounds(frame: &ast::WindowFrame) -> SqlResult<FrameBounds> {
    let bound = |bound: &ast::FrameBound| match bound {
        ast::FrameBound::UnboundedPreceding => FrameBound::First,
        ast::FrameBound::Preceding(rows) => FrameBound::Relative(-i64::from(*rows)),
        ast::FrameBound::CurrentRow => FrameBound::Relative(0),
        ast::FrameBound::Following(rows) => FrameBound::Relative(i64::from(*rows)),
        ast::FrameBound::UnboundedFollowing => FrameBound::Last,
    };
    let (start, end) = (bound(&frame.start), bound(&frame.end));
    let is_counted =
        |bound: &ast::FrameBound| matches!(bound, ast::FrameBound::Preceding(_) | ast::FrameBound::Following(_));
    if !frame.rows && (is_counted(&frame.start) || is_counted(&frame.end)) {
        return Err(SqlError::new(
            4194,
            "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.",
        ));
    }
    let backwards = match (start, end) {
        (FrameBound::Last, _) | (_, FrameBound::First) => true,
        // `BETWEEN 1 PRECEDING AND 2 PRECEDING` is allowed, and empty.
        (FrameBound::Relative(start), FrameBound::Relative(end)) => (start > 0 && end <= 0) || (start == 0 && end < 0),
        _ => false,
    };
    if backwards {
        return Err(SqlError::new(4193, "'BETWEEN' window frame bounds are in the wrong order.").severity(15));
    }
    Ok(FrameBounds { rows: frame.rows, start, end })
}
