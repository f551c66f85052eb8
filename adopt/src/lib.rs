//! Lets this crate's workers process an existing queue table.
//!
//! A [`Mapping`] describes the meaning of the table's columns. The mapping and the table's catalog data yield one
//! script: a schema of its own with readpast's procedures, a few of which are written for that table. A worker, the
//! program and the web page use that schema like any other; the table's own producers and readers keep working.
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
//! A ready row exists only in the adopted table. A claim takes up to a number of rows by one `UPDATE TOP (n)` (or
//! `DELETE TOP (n)`) with OUTPUT under READPAST and UPDLOCK. In the same transaction it inserts a claimed row in `jobs`
//! for each. From then on it is a job like any other: leases, fences, attempts, progress, cancelling, history, `peek`
//! and the web page work on `jobs` and need no change. Only these procedures differ:
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
//! `jobs`. So readers that follow the table's rule cannot get a row that a worker has, and a worker cannot get a row
//! that they have marked, deleted, or locked. The mapping must prove this, or it is rejected: with the values that a
//! claim sets, and with the values that giving up sets, the predicate must be false whatever the other columns contain.
//! A table without a mark, where taking is deleting, needs `claim.delete`, because a lock alone would have to be held
//! until the job finishes.
//!
//! A job stays held until it finishes. While it waits for its next attempt, or after its worker was lost, its row stays
//! marked as taken (or deleted from the table). An attempt has failed or may have failed, and only `jobs` knows when
//! the next attempt may start and how many remain. A row whose job has not started is restored: `release` of a row that
//! was claimed for the first time resets the columns that the claim set. If the claim deletes, `release` restores
//! nothing: only the table's owner could insert the old identity value, and a new one would change the order. The job
//! stays held, and the next claim gets it first. Removing the adoption restores every held row, with its identity.
//!
//! # Job ids and keys
//!
//! A row gets its job id when it is claimed, from the sequence, in the table's order. A restored row gets a new id the
//! next time. The id is never the key, even if the key is an int: a row that returns under the same key (restored, or
//! made ready by hand) would start with fence 1 again, and a finish of its previous job could finish it. `jobs` stores
//! the key in columns `their_...` with one filtered unique index, and shows it in the job's headers under the columns'
//! names.
//!
//! If a claimed row's key already has a job, someone else made the row ready: a person who wants a dead job to run
//! again, or a procedure that resets rows that are in process for too long. The claim takes over the existing job: its
//! attempts start again, its fence grows, and a finish of the earlier run changes nothing.
//!
//! All other procedures lock a job first and then its row; a claim locks the rows first. The two orders meet only in
//! such a row. Then the claim is the deadlock's victim (DEADLOCK_PRIORITY), and its retry does no harm.
//!
//! # Rejected rows
//!
//! A constraint may reject the mapping's change of a row. `finish` then fails as if a sink had failed (58020): the
//! worker finds the job to blame, and its attempt fails. `note_ends` must not fail, because jobs of a lost worker have
//! to return. It rolls back to a savepoint, processes the jobs one by one, leaves the rejected row unchanged, and adds
//! the error to the job's. `note_requeued` does the same; the job then stays dead.
//!
//! A rejected claim would fail again and again, because the row cannot be marked. So it calls `note_refused`, which
//! tries the first rows one by one, stores the keys of the rejected rows in `refused_rows`, and creates a dead job for
//! each. Claims and counts skip these rows. `reap` forgets them after ten minutes, and requeueing the job does so at
//! once. A claim that deletes sets nothing, so there is no key to store, and expressions computed from its rows must be
//! such that they cannot fail.
//!
//! # Checks
//!
//! A small parser reads the mapping's expressions (the predicate, values to set), and the script contains only what the
//! parser understood, written anew with every name in brackets and every column qualified. The mapping's text is never
//! copied. The parser knows literals, columns, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, and a
//! list of functions.
//!
//! An index must keep the predicate's rows together and in order. Its first columns are those that the predicate
//! compares for equality, followed by those of the order; a due time must be the first of these. Otherwise each claim
//! would read, sort and lock all ready rows. The error names the index to create, and the claim names the index that
//! was found.
//!
//! # The script
//!
//! The scripts of `sql/` mark the places that differ, each by a line with its name: `-- adopt: refuse`. `adopt/sql/`
//! has one file for each script that differs, with the replacements. A place without a replacement fails a test, and so
//! does a replacement without a place. Replacements are T-SQL with marks like `/*{table}*/`, for names, lists of
//! columns and expressions.
//!
//! The first batch checks whether the table is still the one from which the script was made. The next batches compare
//! the columns that `jobs` keeps of a row with the previous ones: another key, mark or type is accepted only while
//! there are no jobs. The statements that restore held rows are generated and stored, too: a removal needs neither the
//! mapping nor a table that could be adopted today. It is one transaction with the removal of the schema.

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
