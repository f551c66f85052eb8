//! Chooses the index by which a table is read.
//!
//! A condition can be sought if it compares a column with something that does not depend on the same table. An index
//! serves as many of them as its first key columns are bound to values, and one range on the column after those. A
//! filtered index serves only if the query's conditions imply its filter for every value that variables may have.

use std::sync::Arc;

use crate::error::{SqlError, SqlResult};
use crate::plan::filtered_index::is_implied;
use crate::plan::planner::{Planner, impossible_hints};
use crate::plan::query::{AnyOf, IndexPath, SeekValue, SortKey, TableLocation};
use crate::plan::relation::TableRelation;
use crate::plan::scalar::{CompareOp, Condition, Node, Scalar, SlotSet, compares_alike, flipped, slot_bit};
use crate::plan::table_hints::Access;
use crate::storage::{Direction, HEAP, Index, IndexId, TableSchema, fold};
use crate::tsql::ast::{Ident, IndexRef};
use crate::value::{Collation, SqlType, Value};

/// A way to read a table.
#[derive(Debug, Default)]
pub struct AccessPath {
    pub part: IndexPath,
    /// The rows come in the order asked for.
    pub ordered: bool,
    /// How many rows are expected; a rank rather than a number.
    pub rows: f64,
    /// The conditions that the path makes sure of, by their position.
    pub consumed: Vec<usize>,
}

/// A condition that can be sought.
struct Sought {
    condition: usize,
    column: usize,
    kind: SoughtKind,
    /// The seek finds exactly the rows that fulfil the condition.
    exact: bool,
}

enum SoughtKind {
    Equal(Scalar),
    IsNull,
    AnyOf(AnyOf),
    Lower(Scalar, bool),
    Upper(Scalar, bool),
}

/// Tables are expected to have at least so many rows: a plan is kept, and the table may grow.
const FEWEST_ROWS: f64 = 1000.0;
/// What is expected in a table variable.
const TABLE_VARIABLE_ROWS: f64 = 100.0;

impl AccessPath {
    pub fn choose(
        planner: &Planner<'_>,
        relation: &TableRelation,
        conditions: &[&Condition],
        order: &[SortKey],
        limited: bool,
    ) -> SqlResult<AccessPath> {
        let schema = &relation.table.schema;
        let hints = &relation.hints;
        let sought = find_sought(relation, conditions);
        let hinted = hints.index.as_ref().map(|index| hinted_index(schema, index)).transpose()?;
        let row_count = match relation.table.place {
            TableLocation::Stored(id) => {
                planner.latch.table(id).map_or(FEWEST_ROWS, |table| FEWEST_ROWS.max(table.row_count() as f64))
            }
            TableLocation::Variable(_) => TABLE_VARIABLE_ROWS,
        };

        let mut best: Option<AccessPath> = None;
        let mut consider = |path: AccessPath| {
            if best.as_ref().is_none_or(|best| path.rows < best.rows) {
                best = Some(path);
            }
        };
        if schema.clustered().is_none() && hinted.is_none_or(|index| index == HEAP) && !hints.force_seek {
            let part = IndexPath { index: HEAP, ..IndexPath::default() };
            consider(AccessPath { part, ordered: order.is_empty(), rows: row_count, consumed: Vec::new() });
        }
        for index in &schema.indexes {
            if hinted.is_some_and(|hinted| hinted != index.id) {
                continue;
            }
            if let Some(filter) = &index.filter
                && !is_implied(filter, relation, conditions)
            {
                continue;
            }
            let mut path = seek(schema, index, &sought, relation.slot, order);
            let part = &path.part;
            let is_seek =
                !part.equal.is_empty() || part.any_of.is_some() || part.lower.is_some() || part.upper.is_some();
            if hints.force_seek && !is_seek {
                continue;
            }
            if !seeks_columns(schema, index, part, &hints.seek_columns) {
                continue;
            }
            let covering = index.is_clustered() || covers(planner, relation, schema, index);
            path.part.covering = covering;
            let serves_order = path.ordered && !order.is_empty() && limited;
            let is_useful = is_seek || index.is_clustered() || index.filter.is_some() || serves_order || covering;
            if !is_useful && hinted.is_none() {
                continue;
            }
            path.rows = expected_rows(&path, index, row_count, order, limited);
            consider(path);
        }
        best.ok_or_else(impossible_hints)
    }

    /// The slots whose columns the seek reads.
    pub fn reads(&self) -> SlotSet {
        let mut slots = 0;
        for seek in &self.part.equal {
            slots |= seek.scalar.slots();
        }
        if let Some(any_of) = &self.part.any_of {
            slots |= any_of.slots();
        }
        for (scalar, _) in self.part.lower.iter().chain(&self.part.upper) {
            slots |= scalar.slots();
        }
        slots
    }
}

fn hinted_index(schema: &TableSchema, index: &IndexRef) -> SqlResult<IndexId> {
    match index {
        IndexRef::Name(name) => match schema.index_named(name) {
            Some(index) => Ok(index.id),
            None => Err(SqlError::new(
                308,
                format!(
                    "Index '{name}' on table '{}.{}' (specified in the FROM clause) does not exist.",
                    schema.schema, schema.name
                ),
            )),
        },
        // 0 is a scan of the clustered index or heap, 1 the clustered index.
        IndexRef::Number(0) => Ok(schema.row_index()),
        IndexRef::Number(number) => {
            let index = IndexId::try_from(*number).ok().and_then(|id| schema.index(id));
            let refusal = || SqlError::not_supported(format!("a hint of the index {number}, which is not there"));
            index.map(|index| index.id).ok_or_else(refusal)
        }
    }
}

/// Whether the seek uses the columns that FORCESEEK names.
fn seeks_columns(schema: &TableSchema, index: &Index, path: &IndexPath, columns: &[Ident]) -> bool {
    let ranges = usize::from(path.any_of.is_some() || path.lower.is_some() || path.upper.is_some());
    if columns.len() > path.equal.len() + ranges {
        return false;
    }
    columns.iter().zip(&index.key).all(|(name, key)| fold(name) == fold(&schema.columns[key.column].name))
}

fn expected_rows(path: &AccessPath, index: &Index, row_count: f64, order: &[SortKey], limited: bool) -> f64 {
    let is_unique_seek = index.is_unique() && path.part.equal.len() == index.key.len();
    let mut rows = if is_unique_seek {
        1.0
    } else {
        let mut rows = row_count;
        if index.filter.is_some() {
            rows *= 0.2;
        }
        for seek in &path.part.equal {
            rows *= if seek.is_null { 0.2 } else { 0.05 };
        }
        match &path.part.any_of {
            Some(AnyOf::List(list)) => rows *= 0.05 * list.len().max(1) as f64,
            Some(AnyOf::Query(_)) => rows *= 0.3,
            None => {}
        }
        for _ in path.part.lower.iter().chain(&path.part.upper) {
            rows *= 0.3;
        }
        rows.max(1.0)
    };
    if !order.is_empty() {
        if path.ordered && limited {
            rows *= 0.1;
        } else if !path.ordered {
            rows *= 1.2;
        }
    }
    // Each row has to be fetched from the clustered index.
    if !path.part.covering {
        rows *= 1.3;
    }
    rows
}

/// Whether the index holds every column that the statement reads.
fn covers(planner: &Planner<'_>, relation: &TableRelation, schema: &TableSchema, index: &Index) -> bool {
    if relation.access == Access::Change {
        return false;
    }
    let clustered = schema.clustered();
    planner.used_columns[relation.slot].iter().enumerate().all(|(column, used)| {
        !used
            || index.contains(column)
            || clustered.is_some_and(|clustered| clustered.key.iter().any(|key| key.column == column))
    })
}

/// A column of the table, with the type that the comparison sees; conversions that the comparison put around the
/// column are looked through.
fn column_of(scalar: &Scalar, slot: usize) -> Option<(usize, SqlType)> {
    match &scalar.node {
        Node::Column { slot: of, ordinal } if *of == slot => Some((*ordinal, scalar.ty)),
        Node::Convert { operand, style: None, explicit: false, attempt: false } => {
            let (ordinal, ty) = column_of(operand, slot)?;
            let is_number = |ty: SqlType| ty.is_number() || ty == SqlType::Bit;
            let same_family = (is_number(ty) && is_number(scalar.ty))
                || (ty.is_date_or_time() && scalar.ty.is_date_or_time())
                || (ty.is_character() && scalar.ty.is_character());
            same_family.then_some((ordinal, ty))
        }
        _ => None,
    }
}

/// The value to seek with, of the column's type; the flag says that the conversion loses nothing.
fn seek_value(value: &Scalar, ty: SqlType) -> (Scalar, bool) {
    if compares_alike(value.ty, ty) {
        return (value.clone(), true);
    }
    // A value that does not fit is NULL here and finds nothing, which is right: no row can be equal to it.
    let node = Node::Convert { operand: Box::new(value.clone()), style: None, explicit: false, attempt: true };
    (Scalar { node, ty, nullable: true, label: value.label }, false)
}

fn find_sought(relation: &TableRelation, conditions: &[&Condition]) -> Vec<Sought> {
    let schema = &relation.table.schema;
    let own = slot_bit(relation.slot);
    let mut found = Vec::new();
    for (position, condition) in conditions.iter().enumerate() {
        match condition {
            Condition::Compare { op, left, right, collation } => {
                let sides = [(left, right, *op), (right, left, flipped(*op))];
                for (column_side, value_side, op) in sides {
                    if value_side.slots() & own != 0 {
                        continue;
                    }
                    let Some((column, ty)) = column_of(column_side, relation.slot) else { continue };
                    if !usable_collation(schema, column, *collation) {
                        continue;
                    }
                    let (value, exact) = seek_value(value_side, ty);
                    let kind = match op {
                        CompareOp::Equal => SoughtKind::Equal(value),
                        // A converted bound may be another one: 3.5 becomes 3.
                        _ if !exact => continue,
                        CompareOp::Greater => SoughtKind::Lower(value, false),
                        CompareOp::GreaterOrEqual => SoughtKind::Lower(value, true),
                        CompareOp::Less => SoughtKind::Upper(value, false),
                        CompareOp::LessOrEqual => SoughtKind::Upper(value, true),
                        CompareOp::NotEqual => continue,
                    };
                    found.push(Sought { condition: position, column, kind, exact });
                    break;
                }
            }
            Condition::IsNull(value) => {
                if let Some((slot, column)) = value.as_column()
                    && slot == relation.slot
                {
                    found.push(Sought { condition: position, column, kind: SoughtKind::IsNull, exact: true });
                }
            }
            Condition::InList { value, list, collation } => {
                let alike = list.iter().all(|item| compares_alike(item.ty, value.ty));
                let outer = list.iter().fold(0, |slots, item| slots | item.slots());
                let values = AnyOf::List(list.clone());
                if alike && outer & own == 0 {
                    found.extend(any_of(relation, position, value, values, *collation));
                }
            }
            Condition::InQuery { value, query, collation } => {
                let alike = compares_alike(query.columns[0].ty, value.ty);
                let values = AnyOf::Query(Arc::clone(query));
                if alike && query.outer_slots & own == 0 {
                    found.extend(any_of(relation, position, value, values, *collation));
                }
            }
            _ => {}
        }
    }
    found
}

/// A column of the table whose value is one of others, which do not depend on the table.
fn any_of(
    relation: &TableRelation,
    condition: usize,
    value: &Scalar,
    values: AnyOf,
    collation: Collation,
) -> Option<Sought> {
    let (slot, column) = value.as_column()?;
    let is_usable = slot == relation.slot && usable_collation(&relation.table.schema, column, collation);
    is_usable.then_some(Sought { condition, column, kind: SoughtKind::AnyOf(values), exact: true })
}

/// An index is ordered by its column's collation; a comparison under another one cannot use it.
fn usable_collation(schema: &TableSchema, column: usize, collation: Collation) -> bool {
    let column = &schema.columns[column];
    !column.sql_type.is_character() || column.collation == collation
}

/// The most that one index can serve.
fn seek(schema: &TableSchema, index: &Index, sought: &[Sought], slot: usize, order: &[SortKey]) -> AccessPath {
    let mut path = AccessPath { part: IndexPath { index: index.id, ..IndexPath::default() }, ..AccessPath::default() };
    for key in &index.key {
        let mut on_column = sought.iter().filter(|sought| sought.column == key.column);
        if let Some(equal) =
            on_column.clone().find(|sought| matches!(sought.kind, SoughtKind::Equal(_) | SoughtKind::IsNull))
        {
            let value = match &equal.kind {
                SoughtKind::Equal(scalar) => SeekValue { scalar: scalar.clone(), is_null: false },
                _ => SeekValue {
                    scalar: Scalar::constant(Value::Null, schema.columns[key.column].sql_type),
                    is_null: true,
                },
            };
            path.part.equal.push(value);
            if equal.exact {
                path.consumed.push(equal.condition);
            }
            continue;
        }
        if let Some(list) = on_column.clone().find(|sought| matches!(sought.kind, SoughtKind::AnyOf(_))) {
            if let SoughtKind::AnyOf(values) = &list.kind {
                path.part.any_of = Some(values.clone());
                path.consumed.push(list.condition);
            }
            break;
        }
        for range in on_column.by_ref() {
            match &range.kind {
                SoughtKind::Lower(scalar, inclusive) if path.part.lower.is_none() => {
                    path.part.lower = Some((scalar.clone(), *inclusive));
                    path.consumed.push(range.condition);
                }
                SoughtKind::Upper(scalar, inclusive) if path.part.upper.is_none() => {
                    path.part.upper = Some((scalar.clone(), *inclusive));
                    path.consumed.push(range.condition);
                }
                _ => {}
            }
        }
        break;
    }
    if path.part.any_of.is_none()
        && let Some(direction) = order_direction(schema, index, path.part.equal.len(), slot, order)
    {
        path.ordered = true;
        path.part.direction = direction;
    }
    path
}

/// The direction in which the index delivers the order asked for, if it does.
fn order_direction(
    schema: &TableSchema,
    index: &Index,
    equal: usize,
    slot: usize,
    order: &[SortKey],
) -> Option<Direction> {
    if order.is_empty() {
        return Some(Direction::Forward);
    }
    // A non-clustered index goes on with the clustered key.
    let mut key = index.key.clone();
    if !index.is_clustered() {
        for column in schema.clustered().map_or(&[][..], |clustered| &clustered.key) {
            if !key.iter().any(|other| other.column == column.column) {
                key.push(*column);
            }
        }
    }
    let is_bound = |column: usize| key[..equal].iter().any(|key| key.column == column);
    let mut position = equal;
    let mut direction: Option<Direction> = None;
    for sort in order {
        let (of, column) = sort.scalar.as_column()?;
        if of != slot {
            return None;
        }
        if is_bound(column) {
            continue;
        }
        // All rows with one key are one row: by which of its columns is sorted after it does not matter.
        if index.is_unique() && position >= index.key.len() {
            continue;
        }
        let next = key.get(position)?;
        if next.column != column {
            return None;
        }
        let needed = if next.descending == sort.descending { Direction::Forward } else { Direction::Backward };
        match direction {
            Some(direction) if direction != needed => return None,
            _ => direction = Some(needed),
        }
        position += 1;
    }
    Some(direction.unwrap_or(Direction::Forward))
}
