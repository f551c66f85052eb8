//! What becomes of an error.
//!
//! Which error ends what (there is no single page; "TRY...CATCH", "SET XACT_ABORT" and "Database Engine error
//! severities" in MicrosoftDocs/sql-docs say most of it):
//!
//! | error | without TRY | within TRY |
//! |---|---|---|
//! | most | the statement; with XACT_ABORT the batch, and the transaction is rolled back | CATCH; with XACT_ABORT the transaction is doomed |
//! | a name that turns out missing when the statement is reached | the procedure or batch it stands in | CATCH of a caller only |
//! | failed conversions, deadlock victims, calls nested too deep, arguments for a procedure without parameters, rows of another width in INSERT … EXEC | the batch, and the transaction is rolled back | CATCH, the transaction is doomed |
//! | what keeps CREATE TABLE from making its table; a column that ALTER TABLE does not find, or has already | the batch, and the transaction is rolled back | CATCH, the transaction is doomed |
//! | THROW | the batch; with XACT_ABORT also the transaction | CATCH |
//! | RAISERROR | nothing | CATCH |
//! | cancelled by the client | everything, at once | as without |

use std::sync::Arc;

use crate::error::SqlError;
use crate::execute::activation::Activation;
use crate::session::client_session::Session;
use crate::session::outcome::{Control, Failure, Origin, StepResult};
use crate::session::result_target::ResultTarget;
use crate::tds::token::DoneKind;

/// What an error ends when nobody catches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Statement,
    Scope,
    Batch,
    /// And the transaction is rolled back.
    BatchAndTransaction,
}

fn reach(error: &SqlError, origin: Origin) -> Reach {
    match error.number {
        // Failed conversions of text.
        245 | 241 | 295 | 8114 | 8169 | 235 => Reach::BatchAndTransaction,
        // Deadlock victim; what SNAPSHOT cannot go on with.
        1205 | 3951 | 3960 | 3961 => Reach::BatchAndTransaction,
        // Too many procedures in each other; arguments for a procedure that has no parameters.
        217 | 8146 => Reach::BatchAndTransaction,
        // INSERT … EXEC meets rows of another width. (Other INSERTs are found out when they are bound.)
        213 if matches!(origin, Origin::Statement | Origin::Change) => Reach::BatchAndTransaction,
        // Cancelled; not supported: nothing good can come after it.
        3617 | 596 | crate::error::NOT_SUPPORTED => Reach::Batch,
        3915 | 3930 => Reach::Batch,
        _ => match origin {
            Origin::Statement | Origin::Change | Origin::RaiseError => Reach::Statement,
            Origin::Binding => Reach::Scope,
            Origin::Throw => Reach::Batch,
            // Permissions are asked for before anything is made.
            Origin::CreateTable if error.number != 262 => Reach::BatchAndTransaction,
            // A table or column that is not there, or a column that is there already.
            Origin::AlterTable if matches!(error.number, 2705 | 4902 | 4924) => Reach::BatchAndTransaction,
            Origin::CreateTable | Origin::AlterTable => Reach::Statement,
        },
    }
}

/// The errors of a change that was taken back: SQL Server says so in a message of its own. No page says which they are;
/// these are known to. Those of ALTER TABLE that adds a constraint (547) are none of a change.
fn ends_with_3621(error: &SqlError, origin: Origin) -> bool {
    match error.number {
        515 | 2601 | 2627 | 2628 | 8152 => true,
        547 => origin != Origin::AlterTable,
        220 | 242 | 512 | 530 | 1222 | 8115 | 8134 | 8672 => origin == Origin::Change,
        _ => false,
    }
}

/// The errors that CATCH does not get: the client has asked for the end.
fn is_uncatchable(error: &SqlError) -> bool {
    error.number == 3617 || error.severity >= 20
}

impl Session {
    /// Decides what becomes of an error.
    pub fn fail(
        &mut self,
        mut error: SqlError,
        origin: Origin,
        activation: &Activation,
        line: u32,
        out: &mut ResultTarget<'_>,
    ) -> StepResult {
        error = error.at_line(line);
        if error.procedure.is_none() {
            error.procedure = activation.procedure.as_ref().map(|procedure| Arc::clone(&procedure.full_name));
        }
        self.state.error = error.number;
        self.state.row_count = 0;
        let reach = reach(&error, origin);
        let level = self.state.nest_level;
        let aborts = self.state.options.xact_abort && origin != Origin::RaiseError;
        let binding_level = (origin == Origin::Binding).then_some(level);
        if self.is_caught(&error, binding_level) {
            if self.state.transaction_count > 0 && (aborts || reach == Reach::BatchAndTransaction) {
                self.state.doomed = true;
            }
            return Err(Failure::Raised { error, binding_level });
        }
        out.error(&error);
        if ends_with_3621(&error, origin) {
            out.info(3621, 0, 0, "The statement has been terminated.", error.procedure.as_deref(), error.line);
        }
        if let Some(worst) = &mut self.worst_severity {
            *worst = (*worst).max(error.severity);
        }
        if aborts || reach == Reach::BatchAndTransaction {
            self.rollback_everything(out);
            return Err(Failure::EndBatch);
        }
        match reach {
            Reach::Statement => {
                out.done_statement(DoneKind::Other, None);
                Ok(Control::Next)
            }
            Reach::Scope => Err(Failure::EndScope),
            Reach::Batch | Reach::BatchAndTransaction => Err(Failure::EndBatch),
        }
    }

    /// Whether a CATCH gets an error. One that was found when a statement of the nesting level `binding_level` was
    /// bound goes to a caller's.
    pub(crate) fn is_caught(&self, error: &SqlError, binding_level: Option<u32>) -> bool {
        !is_uncatchable(error)
            && self.try_levels.iter().any(|&try_level| binding_level.is_none_or(|level| try_level < level))
    }

    /// An error of a statement outside of any batch, for callers that only report.
    pub(crate) fn report(
        &mut self,
        error: SqlError,
        activation: &Activation,
        out: &mut ResultTarget<'_>,
    ) -> Result<(), Failure> {
        self.fail(error, Origin::Statement, activation, 1, out).map(|_| ())
    }
}
