//! The names of settings and sections, and what a wrong one was probably meant to be.

use super::table::Setting;

/// Whether a section has this name.
pub(super) fn is_section(settings: &[Setting], name: &str) -> bool {
    settings.iter().any(|setting| setting.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// The sections that have settings, in their order.
pub(super) fn sections(settings: &[Setting]) -> Vec<&'static str> {
    let mut sections: Vec<&str> = settings.iter().map(|setting| split(setting.key).0).collect();
    sections.dedup();
    sections
}

/// What a name was probably meant to be, if anything: of the pairs, the second part of the one whose first part is like
/// it.
pub(super) fn nearest<'a, T>(name: &str, candidates: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    // So that `lease` is taken for `lease_ms`, and `colour` for nothing.
    const LIKENESS: f64 = 0.85;
    candidates
        .map(|(candidate, meant)| (strsim::jaro_winkler(name, candidate), meant))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, meant)| meant)
}

/// A key's section, and its name there.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}
