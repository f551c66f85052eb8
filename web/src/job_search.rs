//! A search for jobs: from the fields of a request, as a filter of the library, and as a link.

use std::time::SystemTime;

use readpast::BatchId;
use readpast::admin::{JobCursor, JobFilter, JobState, WorkerId, WorkerRow};
use readpast::crates::serde_json;
use readpast::crates::uuid::Uuid;

use crate::failure::Failure;
use crate::fields::Fields;
use crate::links::link;
use crate::texts;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSearch {
    pub queue: String,
    /// The state of the jobs, or `None` for any state.
    pub state: Option<JobState>,
    pub kind: Option<String>,
    pub error: Option<String>,
    pub key: Option<String>,
    pub group: Option<String>,
    pub batch: Option<BatchId>,
    pub correlation_id: Option<Uuid>,
    pub worker: Option<WorkerId>,
    pub since: Option<SystemTime>,
    pub until: Option<SystemTime>,
}

/// The word for any state.
const ALL: &str = "all";

/// The states in display order, with their meanings.
pub const STATES: [(JobState, &str); 8] = [
    (JobState::Ready, "waits to be claimed"),
    (JobState::Scheduled, "waits for its time"),
    (JobState::Waiting, "waits in its group, or for other jobs"),
    (JobState::Claimed, "held by a worker"),
    (JobState::Dead, "out of attempts, or failed for good"),
    (JobState::Cancelled, "cancelled before it was done"),
    (JobState::Done, "run, and kept"),
    (JobState::Archived, "run, and moved to the archive"),
];

impl JobSearch {
    pub fn of(queue: &str, state: JobState) -> JobSearch {
        JobSearch { state: Some(state), ..JobSearch::all(queue) }
    }

    /// The jobs that a worker holds.
    pub fn held_by(worker: &WorkerRow) -> JobSearch {
        JobSearch { worker: Some(worker.worker_id), ..JobSearch::of(&worker.queue, JobState::Claimed) }
    }

    pub fn all(queue: &str) -> JobSearch {
        JobSearch {
            queue: queue.to_owned(),
            state: None,
            kind: None,
            error: None,
            key: None,
            group: None,
            batch: None,
            correlation_id: None,
            worker: None,
            since: None,
            until: None,
        }
    }

    /// Reads the search from a request.
    pub fn read(fields: &Fields) -> Result<JobSearch, Failure> {
        let text = |name| fields.get(name).map(str::to_owned);
        let time = |name| {
            let time =
                fields.get(name).map(|text| texts::read_time(text).map_err(|why| Failure::bad(name, text, &why)));
            time.transpose()
        };
        Ok(JobSearch {
            queue: fields.required("queue")?.to_owned(),
            state: state(fields.get("state").unwrap_or(ALL))?,
            kind: text("kind"),
            error: text("error"),
            key: text("key"),
            group: text("group"),
            batch: fields.parsed("batch")?.map(BatchId),
            correlation_id: fields.parsed("correlation_id")?,
            worker: fields.parsed("worker")?.map(WorkerId),
            since: time("since")?,
            until: time("until")?,
        })
    }

    /// The fields, as [`read`](Self::read) expects them.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("queue", self.queue.clone()), ("state", self.state_word())];
        let optional = [
            ("kind", self.kind.clone()),
            ("error", self.error.clone()),
            ("key", self.key.clone()),
            ("group", self.group.clone()),
            ("batch", self.batch.map(|batch| batch.to_string())),
            ("correlation_id", self.correlation_id.map(|id| id.to_string())),
            ("worker", self.worker.map(|worker| worker.to_string())),
            ("since", self.since.map(texts::utc)),
            ("until", self.until.map(texts::utc)),
        ];
        fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
        fields
    }

    /// A link to a page with this search and more fields.
    pub fn link(&self, page: &str, more: &[(&str, &str)]) -> String {
        let fields = self.fields();
        link(page, fields.iter().map(|(name, value)| (*name, value.as_str())).chain(more.iter().copied()))
    }

    /// The conditions beyond the state, in words, each with a link to the search without it.
    pub fn conditions(&self) -> Vec<(String, String)> {
        let fields = self.fields();
        let without =
            |name| link("jobs", fields.iter().filter(|(other, _)| *other != name).map(|(n, v)| (*n, v.as_str())));
        let conditions = fields.iter().filter(|(name, _)| !["queue", "state"].contains(name));
        conditions.map(|(name, value)| (format!("{}: {value}", name.replace('_', " ")), without(*name))).collect()
    }

    pub fn in_state(&self, state: Option<JobState>) -> JobSearch {
        JobSearch { state, worker: self.worker.filter(|_| state == Some(JobState::Claimed)), ..self.clone() }
    }

    /// The name of the state, or "all".
    pub fn state_word(&self) -> String {
        self.state.map_or_else(|| ALL.to_owned(), |state| state.to_string())
    }

    /// Whether it has conditions that no index covers, so that a page may read jobs that it does not show.
    pub fn is_narrow(&self) -> bool {
        let times = self.since.is_some() || self.until.is_some();
        self.kind.is_some()
            || self.error.is_some()
            || self.key.is_some()
            || self.group.is_some()
            || self.batch.is_some()
            || self.correlation_id.is_some()
            || times && !self.has_ended()
    }

    /// Whether it asks for more than a state.
    pub fn has_conditions(&self) -> bool {
        self.is_narrow() || self.since.is_some() || self.until.is_some() || self.worker.is_some()
    }

    /// Whether it has conditions other than the error and the kind.
    pub fn has_more_conditions(&self) -> bool {
        JobSearch { kind: None, error: None, worker: None, ..self.clone() }.has_conditions()
    }

    /// Whether its jobs have finished: the newest come first.
    pub fn has_ended(&self) -> bool {
        self.state.is_some_and(JobState::has_ended)
    }

    /// The library's filter, without an order.
    pub fn filter(&self) -> JobFilter {
        let mut filter = self.state.map_or_else(JobFilter::all, JobFilter::from);
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind);
        }
        if let Some(error) = &self.error {
            filter = filter.error(error);
        }
        if let Some(key) = &self.key {
            filter = filter.dedup_key(key);
        }
        if let Some(group) = &self.group {
            filter = filter.group_key(group);
        }
        if let Some(batch) = self.batch {
            filter = filter.batch(batch);
        }
        if let Some(id) = self.correlation_id {
            filter = filter.correlation_id(id);
        }
        if let Some(worker) = self.worker {
            filter = filter.worker(worker);
        }
        if let Some(since) = self.since {
            filter = filter.since(since);
        }
        if let Some(until) = self.until {
            filter = filter.until(until);
        }
        filter
    }

    /// Describes the search: `dead jobs of mail with "timeout" in their error`.
    pub fn words(&self) -> String {
        let mut words = format!("{} jobs of {}", self.state_word(), self.queue);
        let conditions = [
            self.kind.as_ref().map(|kind| format!("of kind {kind}")),
            self.error.as_ref().map(|error| format!("with “{error}” in their error")),
            self.key.as_ref().map(|key| format!("with key {key}")),
            self.group.as_ref().map(|group| format!("of group {group}")),
            self.batch.map(|batch| format!("of batch {batch}")),
            self.correlation_id.map(|id| format!("with correlation id {id}")),
            self.worker.map(|worker| format!("held by worker {worker}")),
            self.since.map(|since| format!("since {}", texts::utc(since))),
            self.until.map(|until| format!("until {}", texts::utc(until))),
        ];
        for condition in conditions.into_iter().flatten() {
            words.push_str(", ");
            words.push_str(&condition);
        }
        words
    }
}

/// Reads the name of a state; `None` means all states.
fn state(word: &str) -> Result<Option<JobState>, Failure> {
    if word == ALL {
        return Ok(None);
    }
    let known = STATES.iter().find(|(state, _)| state.to_string() == word).map(|(state, _)| *state);
    known.map(Some).ok_or_else(|| {
        let words: Vec<String> = STATES.iter().map(|(state, _)| state.to_string()).collect();
        Failure::bad("state", word, &format!("it must be all or one of {}", words.join(", ")))
    })
}

/// Reads a position in a list from a request.
pub fn read_place(fields: &Fields) -> Result<Option<JobCursor>, Failure> {
    let Some(text) = fields.get("after") else { return Ok(None) };
    let place = serde_json::from_str(text);
    place.map(Some).map_err(|_| Failure::bad("after", text, "it must come from a link to the next page"))
}

/// Writes a position in a list for a link.
pub fn write_place(place: &JobCursor) -> String {
    serde_json::to_string(place).unwrap_or_default() // places are plain values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_an_address_and_an_address_a_search() {
        let text = b"queue=a%26b&state=dead&kind=resize&error=100%25&key=k&group=g&batch=7&since=2026-11-23T10:20:30Z\
                     &correlation_id=67e55044-10b1-426f-9247-bb680e5fe0c8";
        let search = JobSearch::read(&Fields::read(text)).unwrap();
        assert_eq!((search.queue.as_str(), search.batch), ("a&b", Some(BatchId(7))));
        let link = search.link("jobs", &[("after", "x")]);
        assert_eq!(JobSearch::read(&Fields::read(link.split_once('?').unwrap().1.as_bytes())).unwrap(), search);
        assert!(link.starts_with("jobs?queue=a%26b&") && link.ends_with("&after=x"), "{link}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        for text in
            ["state=dead", "queue=a&state=died", "queue=a&batch=x", "queue=a&since=now", "queue=a&correlation_id=1"]
        {
            let failure = JobSearch::read(&Fields::read(text.as_bytes())).unwrap_err();
            assert!(matches!(failure, Failure::Bad { .. }), "{text}");
        }
    }
}
