//! Chooses how a FROM clause is computed: the order of its tables, nested loops or tables of hashes, and, in
//! [`crate::plan::access_path`], the index of each table.
//!
//! Inner joins are taken apart into their tables and conditions and put together again: in the order written if a hint
//! asks for it, else always the table next of which the fewest rows are expected. Every condition is checked as soon as
//! all the columns it needs are there.

use crate::error::{SqlError, SqlResult};
use crate::plan::access_path::AccessPath;
use crate::plan::query::{HashJoin, LoopKind, Operator, SortKey, TableScan};
use crate::plan::relation::{BlockRelation, JoinRelation, Relation, TableRelation};
use crate::plan::scalar::{CompareOp, Condition, Scalar, SlotSet, compares_alike};
use crate::plan::table_hints::Access;
use crate::storage::Latch;
use crate::tsql::ast::JoinKind;
use crate::value::Collation;

pub struct Planner<'a> {
    pub latch: &'a Latch<'a>,
    /// OPTION (LOOP JOIN).
    pub loop_joins: bool,
    pub used_columns: &'a [Vec<bool>],
}

/// A table or other source of an inner join, with the hint of the join that brought it in.
struct Leaf {
    relation: Relation,
    loops: bool,
}

/// An operator and what is known of it.
struct Planned {
    operator: Operator,
    /// Its rows come in the order asked for.
    ordered: bool,
}

/// The number of the error of hints that no plan can follow.
pub const IMPOSSIBLE_HINTS: i32 = 8622;

/// The error of hints that no plan can follow.
pub fn impossible_hints() -> SqlError {
    SqlError::new(
        IMPOSSIBLE_HINTS,
        "Query processor could not produce a query plan because of the hints defined in this query. Resubmit the query \
         without specifying any hints and without using SET FORCEPLAN.",
    )
}

impl Planner<'_> {
    /// The operator for a FROM clause and its conditions, and whether its rows come in `order`.
    pub fn plan(
        &self,
        relation: Relation,
        conditions: Vec<Condition>,
        order: &[SortKey],
        limited: bool,
    ) -> SqlResult<(Operator, bool)> {
        let bound = !relation.slots();
        let planned = self.plan_joins(relation, conditions, bound, order, limited)?;
        Ok((planned.operator, planned.ordered || order.is_empty()))
    }

    fn plan_joins(
        &self,
        relation: Relation,
        mut conditions: Vec<Condition>,
        mut bound: SlotSet,
        order: &[SortKey],
        limited: bool,
    ) -> SqlResult<Planned> {
        let own = relation.slots();
        let mut leaves = Vec::new();
        let mut forced = false;
        flatten(relation, false, &mut leaves, &mut conditions, &mut forced)?;

        let mut result: Option<Planned> = None;
        let startup = take_matching(&mut conditions, |slots| slots & own == 0);
        if !startup.is_empty() {
            let operator = Operator::Filter { input: Box::new(Operator::Unit), conditions: startup };
            result = Some(Planned { operator, ordered: true });
        }
        let mut is_first = true;
        let mut left_slots: SlotSet = 0;
        while !leaves.is_empty() {
            let next = if forced { 0 } else { self.best_leaf(&leaves, &conditions, bound, own)? };
            let leaf = leaves.remove(next);
            let slots = leaf.relation.slots();
            let applicable = take_matching(&mut conditions, |read| read & own & !(bound | slots) == 0);
            let leaf_order = if is_first { order } else { &[] };
            result = Some(match result {
                None => self.plan_leaf(leaf.relation, applicable, bound, leaf_order, limited && leaves.is_empty())?,
                Some(left) => self.join(left, left_slots, leaf, applicable, bound, leaf_order, limited)?,
            });
            left_slots |= slots;
            bound |= slots;
            is_first = false;
        }
        let mut result = result.unwrap_or(Planned { operator: Operator::Unit, ordered: true });
        if !conditions.is_empty() {
            result.operator = Operator::Filter { input: Box::new(result.operator), conditions };
        }
        Ok(result)
    }

    /// The leaf of which the fewest rows are expected; of equals, the one written first.
    fn best_leaf(&self, leaves: &[Leaf], conditions: &[Condition], bound: SlotSet, own: SlotSet) -> SqlResult<usize> {
        let mut best: Option<(f64, usize)> = None;
        for (position, leaf) in leaves.iter().enumerate() {
            // An APPLY comes after what it reads.
            if leaf.relation.outer_slots() & own & !bound != 0 {
                continue;
            }
            let rows = match self.expected_rows(&leaf.relation, conditions, bound) {
                // FORCESEEK by a column of a table that is not there yet.
                Err(error) if error.number == IMPOSSIBLE_HINTS && leaves.len() > 1 => continue,
                rows => rows?,
            };
            if best.is_none_or(|(fewest, _)| rows < fewest) {
                best = Some((rows, position));
            }
        }
        Ok(best.map_or(0, |(_, position)| position))
    }

    fn expected_rows(&self, relation: &Relation, conditions: &[Condition], bound: SlotSet) -> SqlResult<f64> {
        Ok(match relation {
            Relation::Unit => 0.5,
            Relation::Table(table) => {
                let usable = bound | relation.slots();
                let usable: Vec<&Condition> =
                    conditions.iter().filter(|condition| condition.slots() & !usable == 0).collect();
                AccessPath::choose(self, table, &usable, &[], false)?.rows
            }
            Relation::Values { rows, .. } => rows.len() as f64,
            Relation::Derived { .. } => 200.0,
            Relation::View { .. } => 100.0,
            Relation::Function { .. } | Relation::Working { .. } => 50.0,
            // FORCESEEK within it may need the tables beside it.
            Relation::Join(_) if forces_seek(relation) => f64::MAX,
            Relation::Block(block) if !block.limit.is_none() => 20.0,
            Relation::Join(_) | Relation::Block(_) => 2000.0,
        })
    }

    /// Joins what has been planned so far with one more leaf.
    #[allow(clippy::too_many_arguments)] // They are the state of the loop in `plan_joins`.
    fn join(
        &self,
        left: Planned,
        left_slots: SlotSet,
        leaf: Leaf,
        conditions: Vec<Condition>,
        bound: SlotSet,
        order: &[SortKey],
        limited: bool,
    ) -> SqlResult<Planned> {
        let slots = leaf.relation.slots();
        let right_slots = leaf.relation.slot_list();
        let depends = leaf.relation.outer_slots() & left_slots != 0;
        let has_keys = conditions.iter().any(|condition| join_key(condition, left_slots, slots).is_some());
        let is_target = contains_target(&leaf.relation);
        let use_hash = has_keys
            && !depends
            && !leaf.loops
            && !self.loop_joins
            && !self.would_seek(&leaf.relation, &conditions, left_slots)?;
        if !use_hash {
            let right = self.plan_leaf(leaf.relation, conditions, bound, order, limited)?;
            let ordered = if left_slots == 0 { right.ordered } else { left.ordered };
            let operator = Operator::Loop {
                kind: LoopKind::Inner,
                left: Box::new(left.operator),
                right: Box::new(right.operator),
                right_slots,
                target_on_right: is_target,
            };
            return Ok(Planned { operator, ordered });
        }
        let operator = self.hash_join(
            LoopKind::Inner,
            left.operator,
            leaf.relation,
            conditions,
            left_slots,
            right_slots,
            is_target,
        )?;
        Ok(Planned { operator, ordered: left.ordered })
    }

    #[allow(clippy::too_many_arguments)] // The parts of one operator.
    fn hash_join(
        &self,
        kind: LoopKind,
        left: Operator,
        right: Relation,
        conditions: Vec<Condition>,
        left_slots: SlotSet,
        right_slots: Vec<usize>,
        target_on_right: bool,
    ) -> SqlResult<Operator> {
        let slots = right.slots();
        let mut keys = Vec::new();
        let mut on = Vec::new();
        let mut own_conditions = Vec::new();
        for condition in conditions {
            if let Some(key) = join_key(&condition, left_slots, slots) {
                keys.push(key);
            } else if condition.slots() & left_slots == 0 {
                own_conditions.push(condition);
            } else {
                on.push(condition);
            }
        }
        let right = self.plan_joins(right, own_conditions, !(left_slots | slots), &[], false)?;
        Ok(Operator::Hash(Box::new(HashJoin {
            kind,
            left,
            right: right.operator,
            keys,
            on,
            right_slots,
            target_on_right,
        })))
    }

    /// Whether a table would be read by seeking with columns of the tables before it.
    fn would_seek(&self, relation: &Relation, conditions: &[Condition], left_slots: SlotSet) -> SqlResult<bool> {
        let Relation::Table(table) = relation else { return Ok(forces_seek(relation)) };
        let conditions: Vec<&Condition> = conditions.iter().collect();
        let path = AccessPath::choose(self, table, &conditions, &[], false)?;
        Ok(path.reads() & left_slots != 0)
    }

    fn plan_leaf(
        &self,
        relation: Relation,
        conditions: Vec<Condition>,
        bound: SlotSet,
        order: &[SortKey],
        limited: bool,
    ) -> SqlResult<Planned> {
        let mut ordered = order.is_empty();
        let (operator, rest) = match relation {
            Relation::Table(table) => return self.plan_table(table, conditions, order, limited),
            Relation::Unit => (Operator::Unit, conditions),
            Relation::Values { slot, rows, .. } => (Operator::Values { slot, rows }, conditions),
            Relation::Derived { slot, query } => (Operator::Derived { slot, query }, conditions),
            Relation::View { slot, view, unlocked } => (Operator::View { slot, view, unlocked }, conditions),
            Relation::Function { slot, function } => (Operator::Function { slot, function }, conditions),
            Relation::Working { slot, working, .. } => (Operator::Working { slot, working }, conditions),
            Relation::Join(join) => {
                let (planned, rest) = self.plan_outer_join(*join, conditions, bound, order)?;
                ordered = planned.ordered;
                (planned.operator, rest)
            }
            Relation::Block(block) => (self.plan_block(*block)?, conditions),
        };
        let operator =
            if rest.is_empty() { operator } else { Operator::Filter { input: Box::new(operator), conditions: rest } };
        Ok(Planned { operator, ordered })
    }

    fn plan_block(&self, block: BlockRelation) -> SqlResult<Operator> {
        let BlockRelation { input, conditions, window, mut sort, limit } = block;
        let mut slots = input.slot_list();
        let order: &[SortKey] = if window.is_none() { &sort } else { &[] };
        let (mut operator, ordered) = self.plan(input, conditions, order, !limit.is_none())?;
        if ordered && window.is_none() {
            sort.clear();
        }
        if let Some((slot, functions)) = window {
            operator = Operator::Window { input: Box::new(operator), slots: slots.clone(), slot, functions };
            slots.push(slot);
        }
        if limit.is_none() {
            return Ok(operator);
        }
        Ok(Operator::Top { input: Box::new(operator), slots, sort, limit })
    }

    fn plan_table(
        &self,
        table: TableRelation,
        conditions: Vec<Condition>,
        order: &[SortKey],
        limited: bool,
    ) -> SqlResult<Planned> {
        let references: Vec<&Condition> = conditions.iter().collect();
        let path = AccessPath::choose(self, &table, &references, order, limited)?;
        let ordered = path.ordered;
        let left = conditions.into_iter().enumerate().filter(|(position, _)| !path.consumed.contains(position));
        let residual = left.map(|(_, condition)| condition).collect();
        let TableRelation { slot, table, hints, access } = table;
        let scan = TableScan { slot, table, path: path.part, residual, hints, access };
        Ok(Planned { operator: Operator::Table(Box::new(scan)), ordered })
    }

    /// LEFT and RIGHT JOIN and OUTER APPLY; returns the conditions that are still to be checked on its result. A loop
    /// keeps the order of the side whose rows all come.
    fn plan_outer_join(
        &self,
        join: JoinRelation,
        mut conditions: Vec<Condition>,
        bound: SlotSet,
        order: &[SortKey],
    ) -> SqlResult<(Planned, Vec<Condition>)> {
        let JoinRelation { kind, loops, left, right, on } = join;
        let (left, right) = if kind == JoinKind::Right { (right, left) } else { (left, right) };
        let (left_slots, right_slots) = (left.slots(), right.slots());
        let right_list = right.slot_list();
        let target_on_right = contains_target(&right);
        let own_left = take_matching(&mut conditions, |slots| slots & right_slots == 0);
        let left = self.plan_joins(left, own_left, bound, order, false)?;
        let has_keys = on.iter().any(|condition| join_key(condition, left_slots, right_slots).is_some());
        let wants_loop = loops || self.loop_joins;
        let use_hash = has_keys && !wants_loop && !self.would_seek(&right, &on, left_slots)?;
        let ordered = order.is_empty() || !use_hash && left.ordered;
        let operator = if use_hash {
            self.hash_join(LoopKind::Left, left.operator, right, on, left_slots, right_list, target_on_right)?
        } else {
            let right = self.plan_joins(right, on, bound | left_slots, &[], false)?;
            Operator::Loop {
                kind: LoopKind::Left,
                left: Box::new(left.operator),
                right: Box::new(right.operator),
                right_slots: right_list,
                target_on_right,
            }
        };
        Ok((Planned { operator, ordered }, conditions))
    }
}

/// Takes the conditions out whose slots fulfil `test`.
fn take_matching(conditions: &mut Vec<Condition>, test: impl Fn(SlotSet) -> bool) -> Vec<Condition> {
    let (taken, kept) = std::mem::take(conditions).into_iter().partition(|condition| test(condition.slots()));
    *conditions = kept;
    taken
}

/// Takes inner joins apart.
fn flatten(
    relation: Relation,
    loops: bool,
    leaves: &mut Vec<Leaf>,
    conditions: &mut Vec<Condition>,
    forced: &mut bool,
) -> SqlResult<()> {
    match relation {
        Relation::Join(join) if matches!(join.kind, JoinKind::Inner | JoinKind::Cross) => {
            let JoinRelation { loops: own_loops, left, right, on, .. } = *join;
            if own_loops {
                // A join hint fixes the order of all joins as written.
                *forced = true;
                if matches!(right, Relation::Join(_)) {
                    return Err(SqlError::not_supported("a join hint before a join in parentheses"));
                }
            }
            flatten(left, loops, leaves, conditions, forced)?;
            flatten(right, own_loops, leaves, conditions, forced)?;
            conditions.extend(on);
        }
        Relation::Block(block) if block.window.is_none() && block.limit.is_none() => {
            let BlockRelation { input, conditions: inner, .. } = *block;
            flatten(input, loops, leaves, conditions, forced)?;
            conditions.extend(inner);
        }
        other => leaves.push(Leaf { relation: other, loops }),
    }
    Ok(())
}

/// The two sides of an equality between what stands to the left and the right relation.
fn join_key(condition: &Condition, left_slots: SlotSet, right_slots: SlotSet) -> Option<(Scalar, Scalar, Collation)> {
    let Condition::Compare { op: CompareOp::Equal, left, right, collation } = condition else { return None };
    // Only values that are represented alike have the same key bytes when they are equal.
    if !compares_alike(left.ty, right.ty) {
        return None;
    }
    let (a, b) = (left.slots(), right.slots());
    let from_left = |slots: SlotSet| slots & left_slots != 0 && slots & right_slots == 0;
    let from_right = |slots: SlotSet| slots & right_slots != 0 && slots & left_slots == 0;
    if from_left(a) && from_right(b) {
        Some((left.clone(), right.clone(), *collation))
    } else if from_left(b) && from_right(a) {
        Some((right.clone(), left.clone(), *collation))
    } else {
        None
    }
}

fn forces_seek(relation: &Relation) -> bool {
    match relation {
        Relation::Table(table) => table.hints.force_seek,
        Relation::Join(join) => forces_seek(&join.left) || forces_seek(&join.right),
        _ => false,
    }
}

fn contains_target(relation: &Relation) -> bool {
    match relation {
        Relation::Table(table) => table.access == Access::Change,
        Relation::Join(join) => contains_target(&join.left) || contains_target(&join.right),
        Relation::Block(block) => contains_target(&block.input),
        _ => false,
    }
}
