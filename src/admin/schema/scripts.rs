//! The scripts of the schema, one by one and as a single script.

use crate::config::check_schema;
use crate::error::Error;

/// The scripts, in their order.
pub(super) const SCRIPTS: &[(&str, &str)] = &[
    ("000_begin.sql", include_str!("../../../sql/000_begin.sql")),
    ("005_homes.sql", include_str!("../../../sql/005_homes.sql")),
    ("010_queues.sql", include_str!("../../../sql/010_queues.sql")),
    ("020_jobs.sql", include_str!("../../../sql/020_jobs.sql")),
    ("030_archive.sql", include_str!("../../../sql/030_archive.sql")),
    ("040_workers.sql", include_str!("../../../sql/040_workers.sql")),
    ("042_name_wishes.sql", include_str!("../../../sql/042_name_wishes.sql")),
    ("050_samples.sql", include_str!("../../../sql/050_samples.sql")),
    ("060_duties.sql", include_str!("../../../sql/060_duties.sql")),
    ("065_depths.sql", include_str!("../../../sql/065_depths.sql")),
    ("070_marks.sql", include_str!("../../../sql/070_marks.sql")),
    ("075_attempts.sql", include_str!("../../../sql/075_attempts.sql")),
    ("076_cancellations.sql", include_str!("../../../sql/076_cancellations.sql")),
    ("077_logs.sql", include_str!("../../../sql/077_logs.sql")),
    ("082_progress.sql", include_str!("../../../sql/082_progress.sql")),
    ("085_schedules.sql", include_str!("../../../sql/085_schedules.sql")),
    ("086_batches.sql", include_str!("../../../sql/086_batches.sql")),
    ("087_groups.sql", include_str!("../../../sql/087_groups.sql")),
    ("088_claim_rates.sql", include_str!("../../../sql/088_claim_rates.sql")),
    ("089_history.sql", include_str!("../../../sql/089_history.sql")),
    ("090_claim_places.sql", include_str!("../../../sql/090_claim_places.sql")),
    ("091_kind_history.sql", include_str!("../../../sql/091_kind_history.sql")),
    ("092_audit.sql", include_str!("../../../sql/092_audit.sql")),
    ("093_edges.sql", include_str!("../../../sql/093_edges.sql")),
    ("094_indexes.sql", include_str!("../../../sql/094_indexes.sql")),
    ("100_enqueue_list.sql", include_str!("../../../sql/100_enqueue_list.sql")),
    ("105_detail_list.sql", include_str!("../../../sql/105_detail_list.sql")),
    ("110_finish_list.sql", include_str!("../../../sql/110_finish_list.sql")),
    ("111_usage_list.sql", include_str!("../../../sql/111_usage_list.sql")),
    ("112_follow_up_list.sql", include_str!("../../../sql/112_follow_up_list.sql")),
    ("113_change_list.sql", include_str!("../../../sql/113_change_list.sql")),
    ("114_sink_list.sql", include_str!("../../../sql/114_sink_list.sql")),
    ("115_attempt_list.sql", include_str!("../../../sql/115_attempt_list.sql")),
    ("117_member_list.sql", include_str!("../../../sql/117_member_list.sql")),
    ("118_edge_list.sql", include_str!("../../../sql/118_edge_list.sql")),
    ("120_job_list.sql", include_str!("../../../sql/120_job_list.sql")),
    ("125_id_list.sql", include_str!("../../../sql/125_id_list.sql")),
    ("127_progress_list.sql", include_str!("../../../sql/127_progress_list.sql")),
    ("128_kind_list.sql", include_str!("../../../sql/128_kind_list.sql")),
    ("190_unknown_queue.sql", include_str!("../../../sql/190_unknown_queue.sql")),
    ("192_refuse.sql", include_str!("../../../sql/192_refuse.sql")),
    ("195_mend_text.sql", include_str!("../../../sql/195_mend_text.sql")),
    ("196_raise.sql", include_str!("../../../sql/196_raise.sql")),
    ("197_check_text.sql", include_str!("../../../sql/197_check_text.sql")),
    ("198_check_needs.sql", include_str!("../../../sql/198_check_needs.sql")),
    ("198_set_hold.sql", include_str!("../../../sql/198_set_hold.sql")),
    ("199_check_home.sql", include_str!("../../../sql/199_check_home.sql")),
    ("200_create_queue.sql", include_str!("../../../sql/200_create_queue.sql")),
    ("205_check_job.sql", include_str!("../../../sql/205_check_job.sql")),
    ("207_latest_start.sql", include_str!("../../../sql/207_latest_start.sql")),
    ("208_room.sql", include_str!("../../../sql/208_room.sql")),
    ("210_enqueue.sql", include_str!("../../../sql/210_enqueue.sql")),
    ("212_link_queue.sql", include_str!("../../../sql/212_link_queue.sql")),
    ("213_watch_parents.sql", include_str!("../../../sql/213_watch_parents.sql")),
    ("214_lock_batch.sql", include_str!("../../../sql/214_lock_batch.sql")),
    ("215_advance_edges.sql", include_str!("../../../sql/215_advance_edges.sql")),
    ("216_end_batch.sql", include_str!("../../../sql/216_end_batch.sql")),
    ("217_lock_groups.sql", include_str!("../../../sql/217_lock_groups.sql")),
    ("218_note_ends.sql", include_str!("../../../sql/218_note_ends.sql")),
    ("219_advance_groups.sql", include_str!("../../../sql/219_advance_groups.sql")),
    ("220_enqueue_batch.sql", include_str!("../../../sql/220_enqueue_batch.sql")),
    ("221_note_edges.sql", include_str!("../../../sql/221_note_edges.sql")),
    ("222_next_priority.sql", include_str!("../../../sql/222_next_priority.sql")),
    ("223_widen_gap.sql", include_str!("../../../sql/223_widen_gap.sql")),
    ("224_lower_marks.sql", include_str!("../../../sql/224_lower_marks.sql")),
    ("225_claim_once.sql", include_str!("../../../sql/225_claim_once.sql")),
    ("226_sweep.sql", include_str!("../../../sql/226_sweep.sql")),
    ("227_cancel_expired.sql", include_str!("../../../sql/227_cancel_expired.sql")),
    ("228_note_attempts.sql", include_str!("../../../sql/228_note_attempts.sql")),
    ("229_claim_runs.sql", include_str!("../../../sql/229_claim_runs.sql")),
    ("230_claim.sql", include_str!("../../../sql/230_claim.sql")),
    ("231_claim_limited.sql", include_str!("../../../sql/231_claim_limited.sql")),
    ("232_look.sql", include_str!("../../../sql/232_look.sql")),
    ("233_claim_aged.sql", include_str!("../../../sql/233_claim_aged.sql")),
    ("234_claim_fair.sql", include_str!("../../../sql/234_claim_fair.sql")),
    ("235_await_jobs.sql", include_str!("../../../sql/235_await_jobs.sql")),
    ("236_move_jobs.sql", include_str!("../../../sql/236_move_jobs.sql")),
    ("237_wake_moved.sql", include_str!("../../../sql/237_wake_moved.sql")),
    ("238_call_sink.sql", include_str!("../../../sql/238_call_sink.sql")),
    ("239_finish_mended.sql", include_str!("../../../sql/239_finish_mended.sql")),
    ("240_finish.sql", include_str!("../../../sql/240_finish.sql")),
    ("242_finish_with.sql", include_str!("../../../sql/242_finish_with.sql")),
    ("245_finish_one.sql", include_str!("../../../sql/245_finish_one.sql")),
    ("250_release.sql", include_str!("../../../sql/250_release.sql")),
    ("252_recall.sql", include_str!("../../../sql/252_recall.sql")),
    ("260_recover.sql", include_str!("../../../sql/260_recover.sql")),
    ("290_tend.sql", include_str!("../../../sql/290_tend.sql")),
    ("300_reap.sql", include_str!("../../../sql/300_reap.sql")),
    ("310_register_worker.sql", include_str!("../../../sql/310_register_worker.sql")),
    ("320_heartbeat.sql", include_str!("../../../sql/320_heartbeat.sql")),
    ("322_note_progress.sql", include_str!("../../../sql/322_note_progress.sql")),
    ("324_checkpoints.sql", include_str!("../../../sql/324_checkpoints.sql")),
    ("326_parents.sql", include_str!("../../../sql/326_parents.sql")),
    ("328_note_history.sql", include_str!("../../../sql/328_note_history.sql")),
    ("329_note_kinds.sql", include_str!("../../../sql/329_note_kinds.sql")),
    ("330_unregister_worker.sql", include_str!("../../../sql/330_unregister_worker.sql")),
    ("331_peaks_by_kind.sql", include_str!("../../../sql/331_peaks_by_kind.sql")),
    ("332_most_resources.sql", include_str!("../../../sql/332_most_resources.sql")),
    ("340_promote.sql", include_str!("../../../sql/340_promote.sql")),
    ("350_sample.sql", include_str!("../../../sql/350_sample.sql")),
    ("360_unfinished.sql", include_str!("../../../sql/360_unfinished.sql")),
    ("368_thin_history.sql", include_str!("../../../sql/368_thin_history.sql")),
    ("370_expire.sql", include_str!("../../../sql/370_expire.sql")),
    ("380_due_schedules.sql", include_str!("../../../sql/380_due_schedules.sql")),
    ("382_fire_schedule.sql", include_str!("../../../sql/382_fire_schedule.sql")),
    ("384_fail_schedule.sql", include_str!("../../../sql/384_fail_schedule.sql")),
    ("385_do_duties.sql", include_str!("../../../sql/385_do_duties.sql")),
    ("400_stats.sql", include_str!("../../../sql/400_stats.sql")),
    ("402_list_workers.sql", include_str!("../../../sql/402_list_workers.sql")),
    ("404_list_history.sql", include_str!("../../../sql/404_list_history.sql")),
    ("405_list_kinds.sql", include_str!("../../../sql/405_list_kinds.sql")),
    ("406_backlog.sql", include_str!("../../../sql/406_backlog.sql")),
    ("408_list_holds.sql", include_str!("../../../sql/408_list_holds.sql")),
    ("409_worker_wish.sql", include_str!("../../../sql/409_worker_wish.sql")),
    ("410_pause.sql", include_str!("../../../sql/410_pause.sql")),
    ("412_pause_all.sql", include_str!("../../../sql/412_pause_all.sql")),
    ("420_resume.sql", include_str!("../../../sql/420_resume.sql")),
    ("422_resume_all.sql", include_str!("../../../sql/422_resume_all.sql")),
    ("424_confirm_copy.sql", include_str!("../../../sql/424_confirm_copy.sql")),
    ("429_note_requeued.sql", include_str!("../../../sql/429_note_requeued.sql")),
    ("430_requeue.sql", include_str!("../../../sql/430_requeue.sql")),
    ("432_cancel.sql", include_str!("../../../sql/432_cancel.sql")),
    ("434_outcomes.sql", include_str!("../../../sql/434_outcomes.sql")),
    ("436_promote_now.sql", include_str!("../../../sql/436_promote_now.sql")),
    ("437_run_again.sql", include_str!("../../../sql/437_run_again.sql")),
    ("438_set_priority.sql", include_str!("../../../sql/438_set_priority.sql")),
    ("439_skip.sql", include_str!("../../../sql/439_skip.sql")),
    ("440_purge.sql", include_str!("../../../sql/440_purge.sql")),
    ("442_delete_empty_queue.sql", include_str!("../../../sql/442_delete_empty_queue.sql")),
    ("444_delete_queue.sql", include_str!("../../../sql/444_delete_queue.sql")),
    ("446_set_group_weight.sql", include_str!("../../../sql/446_set_group_weight.sql")),
    ("448_list_groups.sql", include_str!("../../../sql/448_list_groups.sql")),
    ("450_peek.sql", include_str!("../../../sql/450_peek.sql")),
    ("452_list_edges.sql", include_str!("../../../sql/452_list_edges.sql")),
    ("454_list_graph.sql", include_str!("../../../sql/454_list_graph.sql")),
    ("455_peek_attempts.sql", include_str!("../../../sql/455_peek_attempts.sql")),
    ("456_job_logs.sql", include_str!("../../../sql/456_job_logs.sql")),
    ("457_progress_of.sql", include_str!("../../../sql/457_progress_of.sql")),
    ("458_find_job.sql", include_str!("../../../sql/458_find_job.sql")),
    ("459_list_errors.sql", include_str!("../../../sql/459_list_errors.sql")),
    ("460_schema_info.sql", include_str!("../../../sql/460_schema_info.sql")),
    ("470_set_schedule.sql", include_str!("../../../sql/470_set_schedule.sql")),
    ("472_delete_schedule.sql", include_str!("../../../sql/472_delete_schedule.sql")),
    ("474_pause_schedule.sql", include_str!("../../../sql/474_pause_schedule.sql")),
    ("476_resume_schedule.sql", include_str!("../../../sql/476_resume_schedule.sql")),
    ("478_run_schedule_now.sql", include_str!("../../../sql/478_run_schedule_now.sql")),
    ("480_list_schedules.sql", include_str!("../../../sql/480_list_schedules.sql")),
    ("490_create_batch.sql", include_str!("../../../sql/490_create_batch.sql")),
    ("492_seal_batch.sql", include_str!("../../../sql/492_seal_batch.sql")),
    ("494_cancel_batch.sql", include_str!("../../../sql/494_cancel_batch.sql")),
    ("496_list_batches.sql", include_str!("../../../sql/496_list_batches.sql")),
    ("498_note_action.sql", include_str!("../../../sql/498_note_action.sql")),
    ("500_begin_audit.sql", include_str!("../../../sql/500_begin_audit.sql")),
    ("502_end_audit.sql", include_str!("../../../sql/502_end_audit.sql")),
    ("504_list_audit.sql", include_str!("../../../sql/504_list_audit.sql")),
    ("880_queues_now.sql", include_str!("../../../sql/880_queues_now.sql")),
    ("882_jobs_now.sql", include_str!("../../../sql/882_jobs_now.sql")),
    ("884_workers_now.sql", include_str!("../../../sql/884_workers_now.sql")),
    ("900_roles.sql", include_str!("../../../sql/900_roles.sql")),
    ("990_end.sql", include_str!("../../../sql/990_end.sql")),
];

/// Precedes each batch of the single script, so that nothing is executed after an error.
const GUARD: &str = "IF @@ERROR <> 0 SET NOEXEC ON;\nGO\n";

/// Follows the last batch: cleans up after an error, because a client's session continues.
const FOOTER: &str = "\
SET NOEXEC OFF;
GO
SET LOCK_TIMEOUT -1;
IF APPLOCK_MODE(N'public', N'$(schema).install', N'Session') <> N'NoLock'
    EXEC sys.sp_releaseapplock @Resource = N'$(schema).install', @LockOwner = N'Session';
GO
";

#[doc(hidden)]
pub const UNINSTALL: &str = include_str!("../../../sql/uninstall.sql");

/// The T-SQL that [`Admin::install`](crate::admin::Admin::install) runs, for a DBA to read and run: one text with GO,
/// for sqlcmd and SQL Server Management Studio. Run it as a member of db_owner, in the database. After an error it
/// executes nothing more.
///
/// ```
/// let script = readpast::admin::install_script("jobs")?;
/// assert!(script.contains("CREATE SCHEMA [jobs] AUTHORIZATION dbo"));
/// # Ok::<(), readpast::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Config`] if a schema cannot have this name.
pub fn install_script(schema: &str) -> Result<String, Error> {
    check_schema(schema)?;
    let head = format!(
        "-- readpast {}, all installation scripts in one, for the schema {schema}. Run it as a member of db_owner, in the database.\n\
         --\n\
         -- After an error nothing more is executed, even if the client goes on: read the first error, and run all of it again.\n",
        env!("CARGO_PKG_VERSION")
    );
    Ok(in_one(&head, SCRIPTS.iter().copied(), schema))
}

/// A script without its `-- adopt: NAME` lines, which mark where the adoption of a table uses other T-SQL.
pub(super) fn unmarked(script: &str) -> String {
    script.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("-- adopt: ")).collect()
}

/// The scripts, in their order, with the `-- adopt: NAME` lines.
pub fn scripts() -> &'static [(&'static str, &'static str)] {
    SCRIPTS
}

/// Joins scripts to one text with GO, without the `-- adopt: NAME` lines. After an error it executes nothing more.
pub fn in_one<'a>(head: &str, scripts: impl IntoIterator<Item = (&'a str, &'a str)>, schema: &str) -> String {
    let mut script = head.to_string();
    for (name, text) in scripts {
        script.push_str(&format!("\n-- {name}\n"));
        for batch in unmarked(text).split_inclusive("\nGO\n") {
            script.push_str(GUARD);
            script.push_str(batch.trim_start_matches('\n'));
        }
    }
    script.push_str(FOOTER);
    script.replace("$(schema)", schema)
}

/// The T-SQL that [`Admin::uninstall`](crate::admin::Admin::uninstall) runs, for a DBA like [`install_script`].
///
/// # Errors
///
/// [`Error::Config`] if a schema cannot have this name.
pub fn uninstall_script(schema: &str) -> Result<String, Error> {
    check_schema(schema)?;
    Ok(UNINSTALL.replace("$(schema)", schema))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::schema::script_batches::batches;
    use crate::procedures::SCHEMA_VERSION;

    #[test]
    fn all_numbered_scripts_are_embedded_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
            .collect();
        files.sort();
        let embedded: Vec<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(embedded, files);
    }

    /// The scripts contain the version that they install.
    #[test]
    fn the_scripts_install_the_version_that_this_release_needs() {
        let script = |wanted: &str| SCRIPTS.iter().find(|(name, _)| *name == wanted).unwrap().1;
        let begin = script("000_begin.sql");
        assert!(begin.contains(&format!("@installed > {SCHEMA_VERSION}\n")));
        assert!(begin.contains(&format!("would install version {SCHEMA_VERSION};")));
        let end = script("990_end.sql");
        assert!(end.contains(&format!("version = {SCHEMA_VERSION})")));
        assert!(end.contains(&format!("VALUES ({SCHEMA_VERSION}, ")));
    }

    #[test]
    fn the_script_for_a_dba_names_no_places_of_adoptions() {
        assert!(SCRIPTS.iter().any(|(_, text)| text.contains("-- adopt: ")));
        assert!(!install_script("jobs").unwrap().contains("-- adopt: "));
        let script = "a\n-- adopt: one\nb\n  -- adopt: two\nc\nd\n-- adopt: end\ne\n";
        assert_eq!(unmarked(script), "a\nb\nc\nd\ne\n");
    }

    #[test]
    fn a_procedure_stands_alone_in_its_batch() {
        for (name, script) in SCRIPTS {
            for batch in batches(script) {
                let code =
                    batch.lines().find(|line| !line.starts_with("--") && !line.trim().is_empty()).unwrap_or_default();
                if batch.contains("\nCREATE OR ALTER PROCEDURE") {
                    assert!(code.starts_with("CREATE OR ALTER PROCEDURE"), "{name}: {code}");
                }
            }
        }
    }
}
