//! Binds calls of the functions that SQL Server brings with it: those about the server and the session, and the scalar
//! functions of [`crate::value`]. Aggregates and window functions are found here, and bound in files of their own.

use crate::bind::aggregate::aggregate_function;
use crate::bind::binder::Binder;
use crate::bind::conversion::{implicit, no_text_or_image};
use crate::bind::window::is_window_only;
use crate::error::{SqlError, SqlResult};
use crate::plan::cached_plan::Uses;
use crate::plan::collation_label::CollationLabel;
use crate::plan::query::{AggregateFunction, SortKey, WindowKind};
use crate::plan::scalar::{FunctionNode, Node, Scalar};
use crate::plan::system_function::{self, SystemFunction};
use crate::storage::fold;
use crate::tsql::ast::{Expr, FunctionCall, Ident, OrderItem};
use crate::value::{self, Argument, Length, SqlType};

impl Binder<'_> {
    pub fn bind_function(&mut self, call: &FunctionCall) -> SqlResult<Scalar> {
        if call.name.schema.is_some() {
            return self.bind_user_function(&call.name, &call.arguments);
        }
        let name = fold(&call.name.name);
        self.database.server.product.check_has_function(&name, &call.name.name)?;
        if self.calls.is_some() && name == "newid" {
            return Err(SqlError::not_supported(format!("{name} in a function")));
        }
        if is_window_only(&name) {
            return self.bind_window_only(call);
        }
        if let Some(function) = aggregate_function(&name) {
            let bound = self.bind_aggregate(call, function)?;
            return match &call.over {
                Some(window) => {
                    if bound.distinct || function == AggregateFunction::StringAgg {
                        return Err(SqlError::not_supported("DISTINCT and STRING_AGG with OVER"));
                    }
                    let ty = bound.ty;
                    let label = match &bound.argument {
                        Some(argument) if ty.is_character() => argument.label,
                        _ => CollationLabel::Coercible,
                    };
                    self.bind_over(WindowKind::Aggregate(bound), window, ty, label)
                }
                None => self.push_aggregate(bound),
            };
        }
        if call.over.is_some() || call.distinct || call.star {
            return Err(SqlError::not_supported(format!("the function {} in this form", call.name.name)));
        }
        if let Some(function) = system_function::lookup(&name) {
            return self.bind_system_function(function, &call.name.name, &call.arguments);
        }
        let function = match name.as_str() {
            "checksum" if is_random(&call.arguments) => value::lookup(value::builtin::new_id::CHECKSUM_OF_NEWID),
            "current_timestamp" => value::lookup("GETDATE"),
            _ => value::lookup(&name),
        };
        let Some(function) = function else {
            return Err(SqlError::not_supported(format!("the function {}", call.name.name)));
        };
        let mut part = None;
        let mut arguments = &call.arguments[..];
        if function.takes_date_part() {
            let Some((Expr::DatePart(first), rest)) = call.arguments.split_first() else {
                return Err(SqlError::not_supported(format!("the date part of {}", call.name.name.to_lowercase())));
            };
            part = Some(*first);
            arguments = rest;
        }
        function.check_arity(arguments.len())?;
        let arguments = if name == "isnull" {
            self.without_next_value(|binder| binder.bind_list(arguments))?
        } else {
            self.bind_list(arguments)?
        };
        if name != "isnull" && arguments.iter().any(|argument| argument.ty == SqlType::Variant) {
            return Err(SqlError::not_supported(format!("the function {} of a sql_variant", call.name.name)));
        }
        arguments.iter().try_for_each(|argument| no_text_or_image(argument.ty, "a function"))?;
        let described: Vec<Argument<'_>> =
            arguments.iter().map(|argument| Argument { ty: argument.ty, constant: argument.as_constant() }).collect();
        let ty = function.result_type(&described)?;
        let mut label = CollationLabel::Coercible;
        for argument in &arguments {
            if argument.ty.has_collation() {
                label = label.combine(argument.label)?;
            }
        }
        let collation = match label {
            CollationLabel::Implicit(collation) | CollationLabel::Explicit(collation) => collation,
            CollationLabel::Coercible => value::Collation::default(),
            CollationLabel::Conflict => {
                return Err(SqlError::not_supported(format!(
                    "the function {} of texts with several collations",
                    call.name.name
                )));
            }
        };
        let nullable = match name.as_str() {
            "isnull" => arguments.iter().all(|argument| argument.nullable),
            "concat" | "getdate" | "getutcdate" | "sysdatetime" | "sysutcdatetime" | "newid" => false,
            _ => true,
        };
        let types = arguments.iter().map(|argument| argument.ty).collect();
        let node = FunctionNode { function, arguments, types, date_part: part, collation };
        let label = if ty.has_collation() { label } else { CollationLabel::Coercible };
        Ok(Scalar { node: Node::Function(Box::new(node)), ty, nullable, label })
    }

    pub(crate) fn bind_list(&mut self, list: &[Expr]) -> SqlResult<Vec<Scalar>> {
        let mut bound = Vec::with_capacity(list.len());
        for expr in list {
            bound.push(self.bind_expr(expr)?);
        }
        Ok(bound)
    }

    pub(crate) fn bind_order(&mut self, items: &[OrderItem]) -> SqlResult<Vec<SortKey>> {
        let mut bound = Vec::with_capacity(items.len());
        for item in items {
            let scalar = self.bind_expr(&item.expr)?;
            no_text_or_image(scalar.ty, "ORDER BY")?;
            bound.push(SortKey { scalar, descending: item.descending });
        }
        Ok(bound)
    }

    fn bind_system_function(
        &mut self,
        function: &'static system_function::Description,
        name: &str,
        arguments: &[Expr],
    ) -> SqlResult<Scalar> {
        if arguments.len() < function.arguments.0 || arguments.len() > function.arguments.1 {
            return Err(SqlError::not_supported(format!("the function {name} with such a number of arguments")));
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let scalar = self.bind_expr(argument)?;
            no_text_or_image(scalar.ty, "a function")?;
            let ty = SqlType::NVarChar(Length::Max);
            bound.push(if scalar.ty.is_character() || scalar.ty.is_integer() { scalar } else { implicit(scalar, ty)? });
        }
        if function.needs_storage {
            self.uses = Uses::Database;
        }
        Ok(Scalar {
            node: Node::System(function.function, bound),
            ty: function.result,
            nullable: true,
            label: CollationLabel::Coercible,
        })
    }

    pub fn bind_global_variable(&mut self, name: &Ident) -> SqlResult<Scalar> {
        let Some(description) = system_function::lookup_global(&fold(name)) else {
            return Err(SqlError::not_supported(format!("the global variable {name}")));
        };
        if description.needs_storage {
            self.uses = Uses::Database;
        }
        Ok(Scalar {
            node: Node::System(description.function, Vec::new()),
            ty: description.result,
            nullable: description.function == SystemFunction::Identity,
            label: CollationLabel::Coercible,
        })
    }
}

/// `(NEWID())`.
fn is_random(arguments: &[Expr]) -> bool {
    matches!(arguments, [Expr::Function(call)] if fold(&call.name.name) == "newid" && call.arguments.is_empty())
}
