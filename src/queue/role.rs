//! What a login may do.

use std::fmt;

use serde::Serialize;

/// A role of the schema: what its members may do (`sql/README.md`, "Who may do what").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// `readpast_producer`: enqueues.
    Producer,
    /// `readpast_worker`: claims and acknowledges.
    Worker,
    /// `readpast_operator`: changes queues and jobs.
    Operator,
    /// `readpast_monitor`: looks at queues and jobs.
    Monitor,
    /// `readpast_autoscaler`: asks how many workers a queue needs.
    Autoscaler,
}

impl Role {
    const WORDS: [(&str, Role); 5] = [
        ("producer", Role::Producer),
        ("worker", Role::Worker),
        ("operator", Role::Operator),
        ("monitor", Role::Monitor),
        ("autoscaler", Role::Autoscaler),
    ];

    /// Of words with spaces between them; a word of a later release is left out.
    pub(super) fn all_of(words: &str) -> Vec<Role> {
        let role = |word| Role::WORDS.iter().find(|(of, _)| *of == word).map(|(_, role)| *role);
        words.split_whitespace().filter_map(role).collect()
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Role::WORDS.iter().find(|(_, role)| role == self).map(|(word, _)| *word);
        f.pad(word.unwrap_or_default()) // all have one
    }
}
