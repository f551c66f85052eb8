//! The FROM clause between binding and planning: which tables there are and
//! how they are joined, not yet how they are read.

use std::sync::Arc;

use crate::catalog::system_view::SystemView;
use crate::plan::query::{Limit, QueryPlan, SortKey, TableHandle, WindowFunction};
use crate::plan::scalar::{Condition, Scalar, SlotSet, slot_bit};
use crate::plan::table_function::TableFunction;
use crate::plan::table_hints::{Access, TableHints};
use crate::tsql::ast::JoinKind;

/// The FROM clause after binding, before access paths are chosen.
#[derive(Debug)]
pub enum Relation {
    Unit,
    Table(TableRelation),
    Values {
        slot: usize,
        rows: Vec<Vec<Scalar>>,
    },
    Derived {
        slot: usize,
        query: Arc<QueryPlan>,
    },
    View {
        slot: usize,
        view: SystemView,
        /// NOLOCK: it waits for nobody who changes what it shows.
        unlocked: bool,
    },
    Function {
        slot: usize,
        function: Arc<TableFunction>,
    },
    /// Within a recursive CTE: the rows found last.
    Working {
        slot: usize,
        working: usize,
    },
    /// Joins, CROSS APPLY and OUTER APPLY.
    Join(Box<JoinRelation>),
    /// A merged derived table.
    Block(Box<BlockRelation>),
}

#[derive(Debug)]
pub struct TableRelation {
    pub slot: usize,
    pub table: TableHandle,
    pub hints: TableHints,
    pub access: Access,
}

#[derive(Debug)]
pub struct JoinRelation {
    pub kind: JoinKind,
    /// LOOP JOIN; OUTER APPLY.
    pub loops: bool,
    pub left: Relation,
    pub right: Relation,
    pub on: Vec<Condition>,
}

#[derive(Debug)]
pub struct BlockRelation {
    pub input: Relation,
    pub conditions: Vec<Condition>,
    pub window: Option<(usize, Vec<WindowFunction>)>,
    pub sort: Vec<SortKey>,
    pub limit: Limit,
}

impl Relation {
    pub fn cross(left: Relation, right: Relation) -> Relation {
        let kind = JoinKind::Cross;
        Relation::Join(Box::new(JoinRelation { kind, loops: false, left, right, on: Vec::new() }))
    }

    /// The slots that it fills.
    pub fn slots(&self) -> SlotSet {
        self.slot_list().into_iter().fold(0, |slots, slot| slots | slot_bit(slot))
    }

    /// The slots, one by one, in the order of the tables.
    pub fn slot_list(&self) -> Vec<usize> {
        let mut list = Vec::new();
        self.add_slots(&mut list);
        list
    }

    fn add_slots(&self, out: &mut Vec<usize>) {
        match self {
            Relation::Unit => {}
            Relation::Table(table) => out.push(table.slot),
            Relation::Values { slot, .. }
            | Relation::Derived { slot, .. }
            | Relation::View { slot, .. }
            | Relation::Function { slot, .. }
            | Relation::Working { slot, .. } => out.push(*slot),
            Relation::Join(join) => {
                join.left.add_slots(out);
                join.right.add_slots(out);
            }
            Relation::Block(block) => {
                block.input.add_slots(out);
                out.extend(block.window.iter().map(|(slot, _)| *slot));
            }
        }
    }

    /// The slots of others that it reads.
    pub fn outer_slots(&self) -> SlotSet {
        let read = match self {
            Relation::Unit | Relation::Table(_) | Relation::View { .. } | Relation::Working { .. } => 0,
            Relation::Values { rows, .. } => rows.iter().flatten().fold(0, |slots, scalar| slots | scalar.slots()),
            Relation::Derived { query, .. } => query.outer_slots,
            Relation::Function { function, .. } => function.slots(),
            Relation::Join(join) => {
                let on = join.on.iter().fold(0, |slots, condition| slots | condition.slots());
                join.left.outer_slots() | join.right.outer_slots() | on
            }
            Relation::Block(block) => {
                let conditions = block.conditions.iter().fold(0, |slots, condition| slots | condition.slots());
                let sort = block.sort.iter().fold(0, |slots, key| slots | key.scalar.slots());
                let limit = [&block.limit.skip, &block.limit.take];
                let limit = limit.into_iter().flatten().fold(0, |slots, scalar| slots | scalar.slots());
                let functions = block.window.iter().flat_map(|(_, functions)| functions);
                let windows = functions.fold(0, |slots, function| slots | function.slots());
                block.input.outer_slots() | conditions | sort | limit | windows
            }
        };
        read & !self.slots()
    }

    /// The table in a slot.
    pub fn table_in(&mut self, wanted: usize) -> Option<&mut TableRelation> {
        match self {
            Relation::Table(table) if table.slot == wanted => Some(table),
            Relation::Join(join) => {
                let JoinRelation { left, right, .. } = &mut **join;
                left.table_in(wanted).or_else(|| right.table_in(wanted))
            }
            Relation::Block(block) => block.input.table_in(wanted),
            _ => None,
        }
    }

    /// The slots of the stored tables, for finding the one that a DELETE through a CTE means.
    pub fn table_slots(&self, out: &mut Vec<usize>) {
        match self {
            Relation::Table(table) => out.push(table.slot),
            Relation::Join(join) => {
                join.left.table_slots(out);
                join.right.table_slots(out);
            }
            Relation::Block(block) => block.input.table_slots(out),
            _ => {}
        }
    }
}
