//! The ledger: what producers and workers did, in the order in which it happened, whatever became of the processes.
//!
//! Each line is one `write` to a file that is open for appending, so lines of several processes do not mix, and a line
//! is there even if its process is killed right after it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

/// Queues of the soak. A job's kind is its queue, except for follow-ups.
pub const QUEUES: [&str; 5] = [PLAIN, GROUPS, LIMITED, BATCHES, SINK];
pub const PLAIN: &str = "plain";
pub const GROUPS: &str = "groups";
pub const LIMITED: &str = "limited";
pub const BATCHES: &str = "batches";
pub const SINK: &str = "sink";
/// The kind of the follow-ups in `batches`.
pub const FOLLOW_UP: &str = "follow_up";

/// The queues that keep the rows of done jobs.
pub const KEPT: [&str; 2] = [GROUPS, BATCHES];

/// The most jobs of `limited` that may run at once.
pub const LIMIT: usize = 3;

/// The state of a done job's row.
const DONE: u8 = 3;

pub struct Ledger {
    file: File,
}

/// A line. `job` of `sealed` is the number of the batch, and its `fence` how many members it has.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// `enqueued`, `sealed`, `start`, `end`, `failed`; of a process: `killed`, `paused`.
    pub event: &'a str,
    /// Queue, or `follow_up`.
    pub kind: &'a str,
    pub job: i64,
    pub fence: i32,
    /// Of `w7`, 7; 0 for producers.
    pub worker: u32,
    /// The job's number and the key of its group or batch.
    pub number: u64,
    pub key: &'a str,
}

impl Ledger {
    pub fn open(path: &Path) -> io::Result<Ledger> {
        Ok(Ledger { file: File::options().append(true).create(true).open(path)? })
    }

    pub fn note(&self, line: Line<'_>) -> io::Result<()> {
        let Line { event, kind, job, fence, worker, number, key } = line;
        (&self.file).write_all(format!("{event} {kind} {job} {fence} {worker} {number} {key}\n").as_bytes())
    }

    /// Notes that a process was killed, or stopped for a while.
    pub fn note_process(&self, event: &str, worker: u32) -> io::Result<()> {
        self.note(Line { event, kind: "-", job: 0, fence: 0, worker, number: 0, key: "-" })
    }
}

fn line(text: &str) -> Option<Line<'_>> {
    let words: Vec<&str> = text.split(' ').collect();
    let [event, kind, job, fence, worker, number, key] = words[..] else { return None };
    let (job, fence, worker, number) =
        (job.parse().ok()?, fence.parse().ok()?, worker.parse().ok()?, number.parse().ok()?);
    Some(Line { event, kind, job, fence, worker, number, key })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    Ended,
    Failed,
}

#[derive(Debug)]
struct Run {
    fence: i32,
    worker: u32,
    outcome: Outcome,
}

#[derive(Debug, Default)]
struct Job {
    kind: &'static str,
    is_enqueued: bool,
    runs: Vec<Run>,
}

impl Job {
    fn has_ended(&self) -> bool {
        self.runs.iter().any(|run| run.outcome == Outcome::Ended)
    }

    fn ended_under(&self, fence: i32) -> bool {
        self.runs.iter().any(|run| run.fence == fence && run.outcome == Outcome::Ended)
    }
}

#[derive(Debug, Default)]
struct Batch {
    /// How many members it had when it was sealed.
    size: Option<usize>,
    ended: usize,
    /// Its follow-ups: how many members had ended at the start of each.
    follow_ups: Vec<usize>,
}

/// What the ledger says.
#[derive(Debug, Default)]
pub struct Story {
    jobs: HashMap<i64, Job>,
    batches: HashMap<String, Batch>,
    /// Workers that were killed or stopped: their runs may repeat.
    disturbed: HashSet<u32>,
    /// The last job of each group that has started, and its number.
    last_of_group: HashMap<String, (u64, i64)>,
    /// The jobs of `limited` that run now, with their workers.
    running: HashMap<i64, u32>,
    pub most_running: usize,
    pub ended: u64,
    /// Runs after a failed one.
    pub retried: u64,
    /// Runs after one whose worker was lost, under a higher fence.
    pub repeated: u64,
    out_of_order: Vec<String>,
    doubled: Vec<String>,
}

/// What SQL Server says, after the end.
#[derive(Debug, Default)]
pub struct Tables {
    /// Job id, state and fence of each row of the soak's queues.
    pub jobs: HashMap<i64, (u8, i32)>,
    /// Job id and fence of each row that the sink wrote.
    pub results: Vec<(i64, i32)>,
    /// The workers that SQL Server called lost.
    pub lost_workers: HashSet<u32>,
}

/// What speaks against each promise.
#[derive(Debug, Default)]
pub struct Findings {
    pub lost: Vec<String>,
    pub doubled: Vec<String>,
    pub unknown: Vec<String>,
    pub out_of_order: Vec<String>,
    pub over_limit: Vec<String>,
    pub follow_ups: Vec<String>,
    pub results: Vec<String>,
}

impl Story {
    pub fn read(path: &Path) -> io::Result<Story> {
        let mut story = Story::default();
        for text in BufReader::new(File::open(path)?).lines() {
            // A last line can be cut short if the disk is full.
            if let Some(line) = line(&text?) {
                story.tell(line);
            }
        }
        Ok(story)
    }

    pub fn enqueued(&self) -> usize {
        self.jobs.values().filter(|job| job.is_enqueued).count()
    }

    pub fn batches(&self) -> usize {
        self.batches.values().filter(|batch| batch.size.is_some()).count()
    }

    fn tell(&mut self, line: Line<'_>) {
        match line.event {
            "enqueued" => self.job(line).is_enqueued = true,
            "sealed" => self.batch(line).size = Some(line.fence as usize),
            "start" => self.start(line),
            "end" => self.end(line, Outcome::Ended),
            "failed" => self.end(line, Outcome::Failed),
            "killed" | "paused" => {
                self.disturbed.insert(line.worker);
                // Its leases end, and others may start jobs in the place of these.
                self.running.retain(|_, worker| *worker != line.worker);
            }
            _ => {}
        }
    }

    fn job(&mut self, line: Line<'_>) -> &mut Job {
        let kind = QUEUES.into_iter().find(|kind| *kind == line.kind).unwrap_or(FOLLOW_UP);
        self.jobs.entry(line.job).or_insert_with(|| Job { kind, ..Job::default() })
    }

    fn batch(&mut self, line: Line<'_>) -> &mut Batch {
        self.batches.entry(line.key.to_owned()).or_default()
    }

    fn start(&mut self, line: Line<'_>) {
        let runs = &mut self.job(line).runs;
        let (is_first, last) = (runs.is_empty(), runs.iter().max_by_key(|run| run.fence));
        let highest = last.map_or(0, |run| run.fence);
        let has_failed = last.is_some_and(|run| run.outcome == Outcome::Failed);
        let is_again = runs.iter().any(|run| run.fence == line.fence);
        runs.push(Run { fence: line.fence, worker: line.worker, outcome: Outcome::Open });
        if is_again {
            self.doubled.push(format!("job {} started twice under fence {}", line.job, line.fence));
        }
        if !is_first && line.fence > highest {
            self.retried += u64::from(has_failed);
            self.repeated += u64::from(!has_failed);
        }
        // A process that was stopped between its claim and this line writes it late. SQL Server ignores that run.
        if line.fence < highest {
            return;
        }
        match line.kind {
            LIMITED => {
                self.running.insert(line.job, line.worker);
                self.most_running = self.most_running.max(self.running.len());
            }
            GROUPS if is_first => self.start_in_group(line),
            FOLLOW_UP if is_first => {
                let batch = self.batch(line);
                batch.follow_ups.push(batch.ended);
            }
            _ => {}
        }
    }

    /// The previous job of the group must have ended, and must have a lower number.
    fn start_in_group(&mut self, line: Line<'_>) {
        let last = self.last_of_group.insert(line.key.to_owned(), (line.number, line.job));
        let Some((number, job)) = last else { return };
        if number > line.number || !self.jobs.get(&job).is_some_and(Job::has_ended) {
            self.out_of_order.push(format!("job {} of group {} started before job {job} ended", line.job, line.key));
        }
    }

    fn end(&mut self, line: Line<'_>, outcome: Outcome) {
        let job = self.job(line);
        let had_ended = job.has_ended();
        if let Some(run) = job.runs.iter_mut().find(|run| run.fence == line.fence && run.worker == line.worker) {
            run.outcome = outcome;
        }
        if self.running.get(&line.job).is_some_and(|worker| *worker == line.worker) {
            self.running.remove(&line.job);
        }
        if outcome == Outcome::Ended && !had_ended {
            self.ended += 1;
            if line.kind == BATCHES {
                self.batch(line).ended += 1;
            }
        }
    }

    /// Compares with the tables. `in_doubt` is how many jobs were enqueued by calls whose answer was lost.
    pub fn compare(&self, tables: &Tables, in_doubt: u64) -> Findings {
        let mut findings = Findings { out_of_order: self.out_of_order.clone(), ..Findings::default() };
        findings.doubled = self.doubled.clone();
        let mut unknown = Vec::new();
        for (id, job) in &self.jobs {
            self.check_repeats(*id, job, tables, &mut findings);
            if !job.is_enqueued && job.kind != FOLLOW_UP {
                unknown.push(format!("job {id} of {} ran, but no call enqueued it", job.kind));
            }
            check_row(*id, job, tables.jobs.get(id).copied(), &mut findings);
        }
        for (id, (state, _)) in &tables.jobs {
            if !self.jobs.contains_key(id) {
                findings.lost.push(format!("job {id} is in state {state}, but never ran"));
            }
        }
        if unknown.len() as u64 > in_doubt {
            findings.unknown = unknown;
        }
        if self.most_running > LIMIT {
            findings.over_limit.push(format!("{} jobs ran at once", self.most_running));
        }
        self.check_batches(&mut findings);
        self.check_results(tables, &mut findings);
        findings
    }

    /// After a run has ended, its job runs again only if its worker was disturbed or lost its lease.
    fn check_repeats(&self, id: i64, job: &Job, tables: &Tables, findings: &mut Findings) {
        let highest = job.runs.iter().map(|run| run.fence).max().unwrap_or_default();
        let silent = job.runs.iter().find(|run| {
            let may_repeat = self.disturbed.contains(&run.worker) || tables.lost_workers.contains(&run.worker);
            run.outcome == Outcome::Ended && run.fence < highest && !may_repeat
        });
        if let Some(run) = silent {
            findings
                .doubled
                .push(format!("job {id} ended under fence {} and ran again, though its worker lived", run.fence));
        }
    }

    fn check_batches(&self, findings: &mut Findings) {
        for (key, batch) in &self.batches {
            let Some(size) = batch.size else { continue };
            match batch.follow_ups[..] {
                [ended] if ended >= size => {}
                [ended] => {
                    findings.follow_ups.push(format!("batch {key}: the follow-up started after {ended} of {size}"))
                }
                _ => findings.follow_ups.push(format!("batch {key}: {} follow-ups ran", batch.follow_ups.len())),
            }
        }
    }

    fn check_results(&self, tables: &Tables, findings: &mut Findings) {
        let mut rows: HashMap<i64, Vec<i32>> = HashMap::new();
        for (id, fence) in &tables.results {
            rows.entry(*id).or_default().push(*fence);
        }
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.kind == SINK && job.has_ended()) {
            match rows.remove(id).unwrap_or_default()[..] {
                [fence] if job.ended_under(fence) => {}
                [fence] => findings.results.push(format!("job {id}: a row of fence {fence}, which never ended")),
                ref rows => findings.results.push(format!("job {id}: {} rows", rows.len())),
            }
        }
        findings.results.extend(rows.keys().map(|id| format!("job {id}: a row, but no run ended")));
    }
}

/// Each enqueued job has ended, and its row says the same.
fn check_row(id: i64, job: &Job, row: Option<(u8, i32)>, findings: &mut Findings) {
    let is_kept = job.kind == FOLLOW_UP || KEPT.contains(&job.kind);
    let problem = match row {
        Some((DONE, fence)) if is_kept && job.ended_under(fence) => return,
        Some((DONE, fence)) => format!("is done under fence {fence}, but that run never ended"),
        Some((state, _)) => format!("is still in state {state}"),
        None if !job.has_ended() => "is gone, but no run ended".to_owned(),
        None if is_kept => "ended, but has no row".to_owned(),
        None => return,
    };
    findings.lost.push(format!("job {id} of {} {problem}", job.kind));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job of `plain` that two workers ran, a group of two jobs, a batch of one with its follow-up, and a job of
    /// `limited` and of `sink`.
    const GOOD: &str = "enqueued plain 1 0 0 1 -\nstart plain 1 1 1 1 -\nend plain 1 1 1 1 -\nkilled - 0 0 1 0 -\n\
        start plain 1 2 2 1 -\nend plain 1 2 2 1 -\n\
        enqueued groups 2 0 0 2 a\nenqueued groups 3 0 0 3 a\nstart groups 2 1 2 2 a\nend groups 2 1 2 2 a\n\
        start groups 3 1 2 3 a\nend groups 3 1 2 3 a\n\
        enqueued batches 4 0 0 4 b\nsealed batches 9 1 0 0 b\nstart batches 4 1 2 4 b\nend batches 4 1 2 4 b\n\
        start follow_up 5 1 2 0 b\nend follow_up 5 1 2 0 b\n\
        enqueued sink 6 0 0 6 -\nstart sink 6 1 2 6 -\nend sink 6 1 2 6 -\n";

    fn tables() -> Tables {
        let jobs = [2, 3, 4, 5].map(|id| (id, (DONE, 1))).into();
        Tables { jobs, results: vec![(6, 1)], lost_workers: HashSet::new() }
    }

    fn findings(ledger: &str, tables: &Tables) -> Findings {
        let mut story = Story::default();
        ledger.lines().for_each(|text| story.tell(line(text).unwrap()));
        story.compare(tables, 0)
    }

    /// The findings of the good ledger with one thing changed.
    fn spoilt(part: &str, by: &str) -> Findings {
        assert_eq!(GOOD.matches(part).count(), 1, "{part}");
        findings(&GOOD.replace(part, by), &tables())
    }

    #[test]
    fn a_run_that_repeats_after_a_kill_breaks_no_promise() {
        let Findings { lost, doubled, unknown, out_of_order, over_limit, follow_ups, results } =
            findings(GOOD, &tables());
        assert_eq!([lost, doubled, unknown, out_of_order, over_limit, follow_ups, results].concat(), [""; 0]);
    }

    #[test]
    fn a_lost_job_is_found() {
        let lost = |findings: Findings| findings.lost.concat();
        assert_eq!(
            lost(spoilt("end groups 3 1 2 3 a\n", "")),
            "job 3 of groups is done under fence 1, but that run never ended"
        );
        assert_eq!(
            lost(spoilt("start sink 6 1 2 6 -\nend sink 6 1 2 6 -\n", "")),
            "job 6 of sink is gone, but no run ended"
        );
        let mut without_row = tables();
        without_row.jobs.remove(&3);
        assert_eq!(lost(findings(GOOD, &without_row)), "job 3 of groups ended, but has no row");
        let mut stuck = tables();
        stuck.jobs.insert(7, (0, 0));
        assert_eq!(lost(findings(GOOD, &stuck)), "job 7 is in state 0, but never ran");
    }

    #[test]
    fn a_doubled_job_is_found() {
        let found = spoilt("killed - 0 0 1 0 -\n", "").doubled;
        assert_eq!(found, ["job 1 ended under fence 1 and ran again, though its worker lived"]);
        let found = spoilt("start plain 1 2 2", "start plain 1 1 2").doubled;
        assert_eq!(found, ["job 1 started twice under fence 1"]);
    }

    #[test]
    fn a_job_that_nobody_enqueued_is_found() {
        assert_eq!(spoilt("enqueued sink 6 0 0 6 -\n", "").unknown.len(), 1);
    }

    #[test]
    fn a_group_out_of_order_is_found() {
        let found =
            spoilt("end groups 2 1 2 2 a\nstart groups 3 1 2 3 a\n", "start groups 3 1 2 3 a\nend groups 2 1 2 2 a\n");
        assert_eq!(found.out_of_order, ["job 3 of group a started before job 2 ended"]);
    }

    #[test]
    fn more_running_jobs_than_the_limit_are_found_unless_their_worker_was_killed() {
        let starts =
            |worker: u32| (11..15).map(|id| format!("start limited {id} 1 {worker} {id} -\n")).collect::<String>();
        assert_eq!(findings(&starts(1), &Tables::default()).over_limit, ["4 jobs ran at once"]);
        let killed = starts(1).replace("start limited 14", "killed - 0 0 1 0 -\nstart limited 14");
        assert_eq!(findings(&killed, &Tables::default()).over_limit, [""; 0]);
    }

    #[test]
    fn a_follow_up_that_is_missing_early_or_doubled_is_found() {
        let follow_up = "start follow_up 5 1 2 0 b\nend follow_up 5 1 2 0 b\n";
        assert_eq!(spoilt(follow_up, "").follow_ups, ["batch b: 0 follow-ups ran"]);
        let twice = format!("{follow_up}{}", follow_up.replace(" 5 ", " 8 "));
        assert_eq!(spoilt(follow_up, &twice).follow_ups, ["batch b: 2 follow-ups ran"]);
        let found = spoilt("end batches 4 1 2 4 b\nstart follow_up 5 1 2 0 b\n", "start follow_up 5 1 2 0 b\n");
        assert_eq!(found.follow_ups, ["batch b: the follow-up started after 0 of 1"]);
    }

    #[test]
    fn a_sink_row_that_is_missing_or_doubled_is_found() {
        let results = |rows: &[(i64, i32)]| findings(GOOD, &Tables { results: rows.to_vec(), ..tables() }).results;
        assert_eq!(results(&[]), ["job 6: 0 rows"]);
        assert_eq!(results(&[(6, 1), (6, 1)]), ["job 6: 2 rows"]);
        assert_eq!(results(&[(6, 2)]), ["job 6: a row of fence 2, which never ended"]);
        assert_eq!(results(&[(6, 1), (7, 1)]), ["job 7: a row, but no run ended"]);
    }
}
