//! Somebody else's queue table, driven by this crate's workers.
//!
//! A [`Mapping`] says what the table's columns mean. From it and from the table's catalog comes one script: a schema of
//! its own with the procedures of the contract, of which a few are written for that table. A worker, the program and
//! the page use that schema as any other; the table's own producers and readers go on beside them.
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
//! A row that is ready stands in their table only. A claim takes up to so many rows of it, by one `UPDATE TOP (n)` (or
//! `DELETE TOP (n)`) with OUTPUT under READPAST and UPDLOCK, and in the same transaction each of them gets a row in
//! `jobs`, claimed already. From there on it is a job like any other: leases, fences, attempts, progress, cancelling,
//! history, `peek` and the page work on `jobs` and need no change. So no procedure but these differs:
//!
//! | procedure | what it does besides |
//! |---|---|
//! | `claim` | after the jobs that are held (see below), takes rows of theirs |
//! | `finish` | does to their row, found by its key, what the mapping says for done, failed and dead |
//! | `note_ends` | does so for jobs that end in `reap`, `cancel` and `release`: it is called there, in their transactions |
//! | `release` | gives a row back that was claimed for the first time: it is as it was before, and the job is gone |
//! | `note_requeued` | marks the rows of jobs that wait again, in the transaction of `requeue` |
//! | `stats`, `sample`, `unfinished`, `look` | count, or look for, their ready rows, too |
//! | `enqueue`, `enqueue_batch`, `create_batch`, `set_schedule`, `purge` of unfinished jobs, `delete_queue`, and what `create_queue` cannot do here | refuse (58003), and say what to do instead |
//!
//! # Who holds a row
//!
//! The claim makes the predicate false that says "ready": it sets a column, or it deletes the row and keeps all of it
//! in `jobs`. So whoever follows the table's rule cannot get a row that a worker has, and a worker cannot get one that
//! they have marked, deleted, or hold a lock on. That is proved from the mapping, or the mapping is refused: with the
//! values that a claim sets in place of the columns, the predicate must be false whatever the other columns are;
//! likewise with those that giving up sets. A table without a mark, where taking is deleting, needs `claim.delete`: a
//! lock alone would have to be kept until the job ends.
//!
//! A job stays held until it ends: one that waits for its next attempt, or whose worker was lost, is marked as taken
//! for their readers all that time (or is not in their table). An attempt has failed then, or may have, and when the
//! next one may begin, and how many there may be, is something that only `jobs` knows. What has not begun goes back:
//! `release` of a row that was claimed for the first time sets the columns that the claim had set to what they were. A
//! table whose claim deletes gets nothing back by `release`: its identity column could be given the old value only by
//! its owner, and a new one would change the order. The job stays held, and the next claim gets it first. Removing the
//! adoption gives every held row back, with its identity.
//!
//! # Numbers and keys
//!
//! A row gets its job number when it is claimed, from the sequence, in the order of the table. A row that was given
//! back gets another one the next time. The number is not the key, not even where that is an int: a row that comes
//! again under the same key (given back, or made ready by hand) would begin with fence 1 again, and an acknowledgement
//! of its former life could end it. The key stands beside it in `jobs`, in columns `their_...`, one filtered unique
//! index over them, and is shown as the job's headers, by the columns' names.
//!
//! A row whose key has a job already was made ready by somebody else: a person who wants a dead one to be run again, or
//! a procedure that gives back what is in process for too long. The claim takes that job over: the attempts begin
//! again, its fence grows, and what the run before says changes nothing.
//!
//! Everybody else locks a job first and then its row; a claim locks the rows first. The two meet only in such a row,
//! and then the claim is the deadlock's victim (DEADLOCK_PRIORITY): made again, it does no harm.
//!
//! # Rows that are refused
//!
//! What the mapping does to a row, a constraint may refuse. `finish` then fails as it does for a sink's refusal
//! (58020), so that the worker finds the job that is to blame, whose attempt has failed. `note_ends` must not fail:
//! jobs of a lost worker have to come back. It goes back to a savepoint, does one job after the other, leaves alone the
//! row that is refused, and adds the error to the job's. `note_requeued` does so, too: such a job stays dead.
//!
//! A claim that is refused would be refused again and again, because nobody can mark the row. So it calls
//! `note_refused`, which tries the first rows one by one, notes the keys of those that are to blame in `refused_rows`,
//! and makes a dead job of each. Claims, and whoever counts what is ready, pass those by; `reap` forgets them after ten
//! minutes, and requeueing such a job at once. Where a claim deletes there is no key to note: nothing is set then, and
//! what is computed of a row must be such that it cannot fail.
//!
//! # What is checked
//!
//! The expressions of a mapping (the predicate, what is set) are read by a small parser and written anew from what it
//! understood, every name in brackets and every column qualified: nothing of the mapping's text goes into the script as
//! it is. It knows literals, columns, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, LIKE, arithmetic, and a list of
//! functions.
//!
//! An index must have the rows of the predicate together and in their order: its first columns are those that the
//! predicate compares for equality, then come those of the order; a time that must have come is the first of these.
//! Otherwise each claim would read, sort and lock all
//! that is ready, and the refusal names the index to create. The claim names the index that was found.
//!
//! # The script
//!
//! The scripts of `sql/` mark the places that differ here, each by a line with its name: `-- adopt: refuse`. The changes
//! stand in `adopt/sql/`, one file for each script that differs: its places, and what is put there. A place without a
//! change fails a test, and so does a change without a place. What they put in is T-SQL with marks like `/*{table}*/`,
//! for which names, lists of columns and expressions are filled in.
//!
//! Its first batch looks whether the table is what the script was made from. Behind it, what `jobs` keeps of a row is
//! compared with what it kept: another key, another mark or another type is taken only while there are no jobs. The
//! statements that give back what is held are written here, too, and kept: a removal needs neither the mapping nor a
//! table that could be adopted today. It is one transaction with the schema's end.

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
