//! The joins that keep one side's rows: by a table of hashes, and FULL. Their sides come as closures.

use std::collections::HashMap;

use crate::error::SqlResult;
use crate::execute::frame::{Emit, Flow, Frame, Run, SavedRows};
use crate::plan::query::{HashJoin, LoopKind};
use crate::plan::scalar::Condition;
use crate::value::{Collation, SqlType, Value, encode_key};

/// Appends the value to a key for a table of hashes; false for NULL, which equals nothing.
pub fn push_join_key(value: &Value, ty: SqlType, collation: Collation, key: &mut Vec<u8>) -> bool {
    if value.is_null() {
        return false;
    }
    encode_key(value, ty, collation, false, key);
    true
}

/// The rows of the right side are put into a table by their keys; each row of the left side looks for its partners
/// there.
pub fn hash_join(
    join: &HashJoin,
    left: impl FnOnce(&mut Run<'_>, &mut Frame, Emit<'_>) -> SqlResult<Flow>,
    right: impl FnOnce(&mut Run<'_>, &mut Frame, Emit<'_>) -> SqlResult<Flow>,
    run: &mut Run<'_>,
    frame: &mut Frame,
    emit: Emit<'_>,
) -> SqlResult<Flow> {
    let mut table: HashMap<Vec<u8>, Vec<SavedRows>> = HashMap::new();
    right(run, frame, &mut |run, frame| {
        let mut key = Vec::new();
        for (_, right, collation) in &join.keys {
            let value = right.eval(run, frame)?;
            if !push_join_key(&value, right.ty, *collation, &mut key) {
                return Ok(Flow::Continue);
            }
        }
        table.entry(key).or_default().push(frame.save(&join.right_slots));
        Ok(Flow::Continue)
    })?;
    let mut key = Vec::new();
    left(run, frame, &mut |run, frame| {
        key.clear();
        let mut comparable = true;
        for (left, _, collation) in &join.keys {
            let value = left.eval(run, frame)?;
            comparable = comparable && push_join_key(&value, left.ty, *collation, &mut key);
        }
        let target = frame.target.clone();
        let mut matched = false;
        if let Some(partners) = table.get(&key).filter(|_| comparable) {
            for partner in partners {
                frame.restore(&join.right_slots, partner.clone());
                if !join.target_on_right {
                    frame.target.clone_from(&target);
                }
                if !Condition::all_hold(&join.on, run, frame)? {
                    continue;
                }
                matched = true;
                if emit(run, frame)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        if !matched && join.kind == LoopKind::Left {
            frame.set_null(&join.right_slots);
            if join.target_on_right {
                frame.target = None;
            }
            return emit(run, frame);
        }
        Ok(Flow::Continue)
    })
}
