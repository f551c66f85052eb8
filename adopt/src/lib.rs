//! Lets this crate's workers process an existing queue table.
//!
//! A [`Mapping`] describes the meaning of the table's columns. From the mapping and the table's catalog data, this
//! crate generates one script. The script creates a schema with readpast's procedures, a few of which are written for
//! that table. Workers, the CLI and the web UI use that schema like any other. The table's own producers and readers
//! keep working.
//!
//! ```text
//! mapping.toml ─▶ mapping ─▶ plan ◀─ catalog (what the table is)
//!                             │
//!                 refusals, with the line and a remedy
//!                             ▼
//!                          script = sql/*.sql with the changes of adopt/sql/ ─▶ printed, or installed
//!                             │
//!                  adoption (a table of the schema: the mapping and what the table was) ─▶ check, remove
//! ```
//!
//! # A row becomes a job when it is claimed
//!
//! A ready row exists only in the adopted table. A claim takes up to n rows by one `UPDATE TOP (n)` (or `DELETE TOP
//! (n)`) with OUTPUT, READPAST and UPDLOCK. In the same transaction it inserts a claimed job into `jobs` for each row.
//! From then on the row is a job like any other: leases, fences, attempts, progress, cancelling, history, `peek` and
//! the web UI work on `jobs` and need no change. Only these procedures differ:
//!
//! | procedure | what it does in addition |
//! |---|---|
//! | `claim` | after the held jobs (see below), takes rows of the table |
//! | `finish` | does to the row, found by its key, what the mapping says for done, failed and dead |
//! | `note_ends` | does the same for jobs that finish in `reap`, `cancel` and `release`, which call it in their transactions |
//! | `release` | restores a row that was claimed for the first time, and deletes the job |
//! | `note_requeued` | marks the rows of jobs that wait again, in the transaction of `requeue` |
//! | `stats`, `sample`, `unfinished`, `look` | also count, or look for, the table's ready rows |
//! | `enqueue`, `enqueue_batch`, `create_batch`, `set_schedule`, `purge` of unfinished jobs, `delete_queue`, and unsupported options of `create_queue` | fail (58003), and say what to do instead |
//!
//! # Who holds a row
//!
//! The claim makes the predicate for "ready" false: it sets a column, or it deletes the row and keeps all of it in
//! `jobs`. Other readers that follow the table's rule therefore cannot get a row that a worker holds. A worker cannot
//! get a row that another reader has marked, deleted, or locked. A mapping that does not guarantee this is rejected:
//! the predicate must be false with the values that a claim sets, and with the values that are set when the job fails
//! or finishes, whatever the other columns contain. If readers of the table take a row by deleting it, the table has no
//! column to mark. Its mapping needs `claim.delete`, because a lock alone would have to be held until the job finishes.
//!
//! A job stays held until it finishes. While it waits for its next attempt, or after its worker was lost, its row stays
//! marked as taken (or deleted from the table). Only `jobs` knows when the next attempt may start and how many attempts
//! remain. A row whose job has not started is restored: `release` of a row that was claimed for the first time resets
//! the columns that the claim set. If the claim deletes rows, `release` restores nothing: only the table's owner could
//! insert the old identity value, and a new value would change the order. The job stays held, and the next claim gets
//! it first. Removing the adoption restores every held row with its identity value.
//!
//! # Job ids and keys
//!
//! A row gets its job id from the sequence when it is claimed, in the table's order. A restored row gets a new id with
//! its next claim. The id is never the key, even if the key is an int. Otherwise a row that becomes ready again under
//! the same key (restored, or by hand) would start with fence 1 again, and a finish of its previous job could finish
//! it. `jobs` stores the key in columns named `their_...` with one filtered unique index. The job's headers contain the
//! key under the columns' names.
//!
//! If a claimed row's key already has a job, the row was made ready outside readpast: by a person who wants a dead job
//! to run again, or by a procedure that resets rows that were in process for too long. The claim takes over the
//! existing job. Its attempts start again, its fence grows, and a finish of the earlier run changes nothing.
//!
//! All other procedures lock a job first and then its row; a claim locks the rows first. Only such a row can cause a
//! deadlock between the two orders. The claim is then the victim (DEADLOCK_PRIORITY), and its retry does no harm.
//!
//! # Rejected rows
//!
//! A constraint may reject the mapping's change of a row. `finish` then fails as if a sink had failed (58020): the
//! worker finds the job to blame, and its attempt fails. `note_ends` must not fail, because otherwise the jobs of a
//! lost worker would not return to the queue. It rolls back to a savepoint, processes the jobs one by one, leaves the
//! rejected row unchanged, and adds SQL Server's error to the job's error. `note_requeued` does the same, and the job
//! stays dead.
//!
//! If a row cannot be marked, every claim would fail. A rejected claim therefore calls `note_refused`, which tries the
//! first rows one by one, stores the keys of the rejected rows in `refused_rows`, and creates a dead job for each.
//! Claims and counts skip these rows. `reap` removes them from `refused_rows` after ten minutes; requeueing the dead
//! job removes them immediately. A claim that deletes rows sets no values, so it has no key to store. Expressions that
//! are computed from its rows must therefore never fail.
//!
//! # Checks
//!
//! A small parser reads the mapping's expressions (the predicate, values to set). The mapping's text is never copied:
//! the script is written from the parsed expressions, with every name in brackets and every column qualified. The
//! parser knows literals, columns, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, and a list of
//! functions.
//!
//! An index must keep the predicate's rows together and in order. Its first columns are the columns that the predicate
//! compares for equality. They are followed by the columns of the order, which must begin with the due time, if there
//! is one. Without such an index, each claim would read, sort and lock all ready rows. If no index is suitable, the
//! error names the index to create; otherwise the claim names the index in a hint.
//!
//! # The script
//!
//! The scripts of `sql/` mark each place that differs by a line with the place's name: `-- adopt: refuse`. `adopt/sql/`
//! has one file with replacements for each script that differs. A place without a replacement fails a test, and so does
//! a replacement without a place. Replacements are T-SQL with marks like `/*{table}*/` for names, lists of columns and
//! expressions.
//!
//! The first batch checks whether the table is still the one from which the script was made. The next batches check
//! whether the script keeps the same columns of a row in `jobs` as the installed one. Another key, mark or type is
//! accepted only while there are no jobs. The statements that restore held rows are also generated and stored, so that
//! a removal needs neither the mapping nor a table that could still be adopted. Held rows are restored in the same
//! transaction that removes the schema.

#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(
    clippy::module_inception,
    reason = "a room's main type stands in a file of its own name; mod.rs lists what is in it"
)]

mod catalog;
mod check;
mod error;
mod expression;
mod index_choice;
mod install;
mod installed;
mod mapping;
mod names;
mod patches;
mod plan;
mod script;

pub use check::{AdoptionCheck, check};
pub use error::Error;
pub use install::{Adoption, abandon, adopt, plan, remove};
pub use installed::mapping;
pub use mapping::Mapping;
