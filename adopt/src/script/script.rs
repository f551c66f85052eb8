//! The whole script.

use crate::patches::{applied, filled};
use crate::plan::Plan;

use super::marks::Marks;

macro_rules! changes {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../../sql/", $name, ".part")))),*] };
}

const CHANGES: [(&str, &str); 27] = changes![
    "000_adopted_table.sql",
    "000_begin.sql",
    "095_adoption.sql",
    "096_refused_rows.sql",
    "200_create_queue.sql",
    "210_enqueue.sql",
    "218_note_ends.sql",
    "220_enqueue_batch.sql",
    "229_note_refused.sql",
    "230_claim.sql",
    "232_look.sql",
    "240_finish.sql",
    "250_release.sql",
    "300_reap.sql",
    "350_sample.sql",
    "360_unfinished.sql",
    "400_stats.sql",
    "405_list_kinds.sql",
    "406_backlog.sql",
    "429_note_requeued.sql",
    "430_requeue.sql",
    "437_run_again.sql",
    "440_purge.sql",
    "444_delete_queue.sql",
    "470_set_schedule.sql",
    "490_create_batch.sql",
    "985_adopted.sql",
];

/// Scripts that stay unchanged, or are left out, if a claim deletes the row: a deleted row is neither restored nor
/// marked again, and cannot be skipped.
const FOR_ROWS_THAT_STAY: [&str; 4] =
    ["096_refused_rows.sql", "229_note_refused.sql", "250_release.sql", "429_note_requeued.sql"];

const REMOVE: &str = include_str!("../../sql/remove.sql.part");

/// The scripts of the adoption, in execution order. `$(schema)` stands for the schema. A test finds faulty changes.
pub(crate) fn scripts(plan: &Plan, base: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    let marks = Marks { plan };
    let values = marks.values()?;
    let mut scripts = Vec::new();
    let is_left_out = |name: &str| FOR_ROWS_THAT_STAY.contains(&name) && plan.mapping.takes_out();
    let is_ours = |name: &str| base.iter().any(|(known, _)| *known == name);
    let additions = CHANGES.iter().filter(|(name, _)| !is_ours(name) && !is_left_out(name));
    let mut all: Vec<(&str, &str)> = base.iter().chain(additions).copied().collect();
    all.sort_by_key(|(name, _)| *name);
    for (name, text) in all {
        let change = CHANGES.iter().find(|(changed, _)| *changed == name);
        let text = match change {
            Some((_, change)) if !is_left_out(name) => {
                let changed = applied(text, change).map_err(|error| format!("{name}: {error}"))?;
                filled(&changed, &values).map_err(|error| format!("{name}: {error}"))?
            }
            _ => text.to_owned(),
        };
        scripts.push((name.to_string(), text));
    }
    Ok(scripts)
}

/// The script that removes an adoption, and first restores held rows or not. Errors as [`scripts`].
pub(crate) fn removal(gives_back: bool, uninstall: &str) -> Result<String, String> {
    let uninstall = uninstall.trim_end().trim_end_matches("GO").to_string();
    let gives_back = if gives_back { "1" } else { "0" }.to_string();
    filled(REMOVE, &[("gives_back", gives_back), ("uninstall", uninstall)])
}

#[cfg(test)]
mod tests {
    use readpast::admin::adopt_seam;

    use super::*;
    use crate::patches::places;

    #[test]
    fn each_place_of_the_scripts_has_its_change() {
        for (name, text) in adopt_seam::scripts() {
            match CHANGES.iter().find(|(changed, _)| changed == name) {
                Some((_, change)) => _ = applied(text, change).unwrap_or_else(|error| panic!("{name}: {error}")),
                None => assert_eq!(places(text).collect::<Vec<_>>(), [""; 0], "{name} has places and no changes"),
            }
        }
    }

    #[test]
    fn what_is_no_change_to_a_script_is_a_script() {
        let is_ours = |name: &str| adopt_seam::scripts().iter().any(|(known, _)| *known == name);
        for (name, text) in CHANGES.iter().filter(|(name, _)| !is_ours(name)) {
            assert!(!text.contains("--@ "), "{name} changes a script that is not there");
        }
    }
}
