//! OUTPUT: computed for each changed row, for the client or into a table.

use crate::error::SqlResult;
use crate::execute::frame::{Frame, Run};
use crate::execute::new_row::insert_row;
use crate::plan::change::OutputPlan;
use crate::plan::scalar::Scalar;
use crate::storage::OnDuplicateKey;
use crate::value::Value;

/// Lets other sessions go on while OUTPUT is computed, if it needs nothing but the changed rows: those are locked.
pub(crate) fn prepare_output(outputs: &[OutputPlan], run: &mut Run<'_>) -> SqlResult<()> {
    if !outputs.is_empty() && outputs.iter().all(|output| output.is_apart) {
        run.own_storage()?.latch.let_go();
    }
    Ok(())
}

/// Computes one OUTPUT clause for the row in the frame; `sent`: the rows for the client.
pub(crate) fn run_output(
    output: &OutputPlan,
    run: &mut Run<'_>,
    frame: &mut Frame,
    sent: &mut Vec<Vec<Value>>,
) -> SqlResult<()> {
    let row = Scalar::eval_all(&output.items, run, frame)?;
    match &output.into {
        Some(target) => {
            let values = row.into_iter().zip(&output.items).map(|(value, item)| Some((value, item.ty)));
            // The identity of a table that OUTPUT writes to is not the statement's.
            let (identity, scope_identity) = (run.state.identity, run.activation.scope_identity);
            insert_row(run, frame, target, values, OnDuplicateKey::AsIndexSays, "INSERT")?;
            (run.state.identity, run.activation.scope_identity) = (identity, scope_identity);
        }
        None => sent.push(row),
    }
    Ok(())
}
