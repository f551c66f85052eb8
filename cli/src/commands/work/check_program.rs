//! `readpast check-program`: checks that a program speaks the protocol of `readpast work --keep`, without SQL Server.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use readpast::crates::serde_json::{self, Value};
use readpast::crates::uuid::Uuid;
use readpast::{BatchId, BoxError, Context, Job, JobEnd, JobId, NewJob};
use serde::Serialize;
use tempfile::TempDir;

use super::guard::Guard;
use super::pipeline::{Pace, Pipeline, Task};
use super::process::Input;
use super::program::Program;
use super::protocol::{self, Asked, Meaning, STOP, Said, VERSION};
use super::recycling::Recycling;
use super::runner::Runner;
use super::starting::Starting;
use super::talk::{Talk, Talked, shown};
use crate::exit::{Exit, failure};
use crate::output::Output;
use crate::texts::{counted, duration, exact, first_line};

/// Check that a program can be run by `readpast work --keep`, without SQL Server.
///
/// Starts the program, sends it jobs as a worker does, and says what it does wrong. A reply with an error conforms, and
/// is shown: whether a job fails is the program's business. See docs/protocol.md.
///
/// Exit code 1: the program does not conform.
#[derive(Debug, Args)]
#[command(after_help = "Example: readpast check-program --payload 'to be' -- python3 examples/work/count_words.py")]
pub struct CheckProgram {
    /// Program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required = true)]
    program: Vec<String>,
    /// Payload of the jobs that do not test payloads, so that the program does real work
    #[arg(long, value_name = "TEXT", default_value = "to be or not")]
    payload: String,
    /// Kind of the jobs [default: none]
    #[arg(long)]
    kind: Option<String>,
    /// Maximum time for a reply
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    within: Duration,
    /// Maximum time for the exit after standard input is closed
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    grace: Duration,
    /// Pass these variables to the program, although they are settings or credentials of a worker (comma-separated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pass_env: Vec<String>,
}

/// The default of `work --max-output`.
const MAX_OUTPUT: usize = 16 << 20;

/// How long the program must be silent after its start and between two jobs.
const SILENCE: Duration = Duration::from_millis(500);

/// The same after each reply: another line usually follows at once.
const SHORT_SILENCE: Duration = Duration::from_millis(50);

/// The pause in which the rest of unasked output comes.
const REST: Duration = Duration::from_millis(10);

/// How long the program's children may survive it.
const CHILDREN: Duration = Duration::from_millis(500);

/// How many processes that it has left are named.
const NAMED: usize = 5;

/// The jobs in a row.
const MANY: u32 = 100;

/// The first job's id needs more than 32 bits, as a queue's ids do one day.
const FIRST_ID: i64 = 1 << 32;

/// Characters of a handler's error in a line.
const SHOWN_ERROR: usize = 200;

const STAYS: &str = "It must read jobs, one per line, and reply to each, until its standard input is closed";
const ONLY_REPLIES: &str = "Standard output is only for replies; print everything else to standard error";

/// What was found: the error that a job was replied with, if any; or what is wrong.
type Found = Result<Option<String>, String>;

type TakeTurn = fn(&mut Check) -> Found;

/// The turns of the check, with their names.
const TURNS: [(&str, TakeTurn); 13] = [
    ("silence before the first job", |check| check.silence(SILENCE, "before its first job")),
    ("a text", |check| check.job(check.usual())),
    ("an empty payload", |check| check.job(NewJob::text(""))),
    ("a binary payload", |check| check.job(NewJob::bytes((0..=255).collect::<Vec<u8>>()))),
    ("a payload of 1 MiB", |check| check.job(NewJob::text("to be ".repeat((1 << 20) / 6)))),
    ("unusual characters", |check| check.job(NewJob::text("größe 🦀\r\n\t\"\\\" \u{2028}\u{85}\u{7f}\u{0} end\n"))),
    ("a job with every field", Check::full_job),
    ("a field that may be added later", |check| {
        let context = check.context(check.usual());
        check.send(context, b"\"added_later\":[{}],", SHORT_SILENCE)
    }),
    ("100 jobs in one process", Check::many_jobs),
    ("several jobs at once, if it asks for them", Check::jobs_ahead),
    ("silence between jobs", |check| {
        let context = check.context(check.usual());
        check.send(context, b"", SILENCE)
    }),
    ("exit when standard input is closed", Check::end),
    ("a job at once after the start", Check::job_at_once),
];

#[derive(Debug, Serialize)]
struct Turn {
    turn: &'static str,
    conforms: bool,
    /// The error that the job was replied with.
    error: Option<String>,
    wrong: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    protocol: u32,
    conforms: bool,
    turns: Vec<Turn>,
    not_checked: usize,
}

impl CheckProgram {
    pub async fn run(self, output: Output) -> Result<Exit> {
        // On one thread, because programs that stay are killed with the thread that has started them.
        let report = tokio::task::spawn_blocking(move || self.check(output)).await??;
        output.one(&report, || report.in_words())?;
        Ok(if report.conforms { Exit::Ok } else { Exit::Failed })
    }

    fn check(self, output: Output) -> Result<Report> {
        let (program, files) = Program::new(None, &self.program, &self.pass_env)?;
        if !program.is_constant() {
            return Err(failure(Exit::Usage, super::NO_PLACEHOLDERS));
        }
        let guard = Guard::start(files.as_ref().map(TempDir::path), None).context("cannot start the guard")?;
        let (starting, recycling, grace) = (Starting::default(), Recycling::default(), self.grace);
        let runner = Runner { program, starting, guard, grace, max_output: MAX_OUTPUT, memory: None, recycling };
        let mut check = Check { options: self, runner, talk: None, last_id: FIRST_ID, has_given_up: false };
        let (mut turns, mut last_hint) = (Vec::new(), String::new());
        for (turn, take) in TURNS {
            let found = take(&mut check);
            let (error, wrong) = found.map_or_else(|wrong| (None, Some(wrong)), |error| (error, None));
            let turn = Turn { turn, conforms: wrong.is_none(), error, wrong };
            if !output.is_json() {
                output.line(&turn.in_words(&mut last_hint))?;
            }
            turns.push(turn);
            if check.has_given_up {
                break;
            }
        }
        check.talk = None; // which kills a program that still runs
        check.runner.guard.end();
        let (conforms, not_checked) = (turns.iter().all(|turn| turn.conforms), TURNS.len() - turns.len());
        Ok(Report { protocol: VERSION, conforms, turns, not_checked })
    }
}

/// A job and its line.
struct Request {
    context: Context,
    line: Vec<u8>,
}

/// A job that the program gets, before those that are left.
struct Checked<'a> {
    request: Request,
    left: &'a RefCell<VecDeque<Request>>,
    /// The errors with which jobs were replied.
    errors: &'a RefCell<Vec<BoxError>>,
}

impl Task for Checked<'_> {
    fn context(&self) -> &Context {
        &self.request.context
    }

    fn next(&self) -> Option<Self> {
        let request = self.left.borrow_mut().pop_front()?;
        Some(Checked { request, left: self.left, errors: self.errors })
    }

    fn request(&self, _: Asked, line: &mut Vec<u8>) -> Result<(), BoxError> {
        line.extend_from_slice(&self.request.line);
        Ok(())
    }

    fn end(self, result: Result<readpast::Output, BoxError>) {
        self.errors.borrow_mut().extend(result.err());
    }
}

struct Check {
    options: CheckProgram,
    runner: Runner,
    /// `None`: the next turn starts it.
    talk: Option<Talk>,
    last_id: i64,
    /// Whether the other turns would only take long.
    has_given_up: bool,
}

impl Check {
    /// A job that the program understands.
    fn usual(&self) -> NewJob {
        NewJob::text(&self.options.payload)
    }

    /// The context of a new job.
    fn context(&mut self, job: NewJob) -> Context {
        let job = match &self.options.kind {
            Some(kind) => job.kind(kind),
            None => job,
        };
        self.last_id += 1;
        Context::for_test(Job::for_test(job).with_id(JobId(self.last_id)))
    }

    fn job(&mut self, job: NewJob) -> Found {
        let context = self.context(job);
        self.send(context, b"", SHORT_SILENCE)
    }

    /// A job that is sent before the program can have asked for anything.
    fn job_at_once(&mut self) -> Found {
        self.talk = None; // the next program is a new one
        self.job(self.usual())
    }

    fn full_job(&mut self) -> Found {
        let job = self.usual().kind("check").header("tenant", "acme").group_key("group").batch(BatchId(FIRST_ID));
        let job = job.correlation_id(Uuid::new_v4()).time_limit(Duration::from_secs(60)).max_attempts(3);
        let parents = [
            JobEnd::Done { output: Some(b"to be".to_vec()) },
            JobEnd::Done { output: Some(vec![0xFF]) },
            JobEnd::Dead { error: "no".to_owned() },
        ];
        let context = self.context(job).with_parents((1..).map(JobId).zip(parents));
        self.send(context, b"", SHORT_SILENCE)
    }

    fn many_jobs(&mut self) -> Found {
        let mut error = None;
        for number in 1..=MANY {
            let context = self.context(self.usual());
            let found = self.send(context, b"", Duration::ZERO);
            error = found.map_err(|wrong| format!("job {number} of {MANY}: {wrong}"))?.or(error);
        }
        Ok(error)
    }

    /// As many jobs as the program has asked for, at once. It may reply in any order.
    fn jobs_ahead(&mut self) -> Found {
        let talk = self.take_program()?;
        let ahead = talk.asked().ahead;
        self.talk = Some(talk);
        if ahead == 0 {
            return Ok(None);
        }
        let count = (ahead + 1).min(MANY as usize);
        let contexts = (0..count).map(|_| self.context(self.usual())).collect();
        self.send_all(contexts, b"", SHORT_SILENCE)
    }

    /// Sends a job, with these bytes after its opening brace, and reads the reply. The program must then be silent.
    fn send(&mut self, context: Context, added: &[u8], silence: Duration) -> Found {
        self.send_all([context].into(), added, silence)
    }

    /// The same with several jobs at once.
    fn send_all(&mut self, contexts: VecDeque<Context>, added: &[u8], silence: Duration) -> Found {
        let mut talk = self.take_program()?;
        let (mut requests, time) = (VecDeque::new(), self.options.within * contexts.len() as u32);
        for context in contexts {
            let mut request = Vec::new();
            protocol::request(&context, talk.asked(), &mut request).map_err(|error| error.to_string())?;
            request.splice(1..1, added.iter().copied());
            // After the request, which states the job's own.
            requests.push_back(Request { context: context.time_limit(time), line: request });
        }
        if requests.len() > 1 {
            talk.pace = Pace::fastest(self.options.kind.as_deref());
        }
        talk.errors.clear();
        let (left, errors) = (RefCell::new(requests), RefCell::default());
        let next = || left.borrow_mut().pop_front().map(|request| Checked { request, left: &left, errors: &errors });
        let Some(first) = next() else { return Ok(None) };
        let (line, mut jobs) = (first.request.line.clone(), Pipeline::new(first));
        // If this returns early, the program is dropped, which kills it.
        match talk.ask(&mut jobs, &self.runner).map_err(|error| error.to_string())? {
            Talked::OutOfStep(why) => return Err(why.to_owned()),
            Talked::ClosedInput => return Err(format!("it closed its standard input\n{STAYS}")),
            Talked::Answered => {}
            Talked::Wrong(wrong) => return Err(wrong),
            Talked::Gone(error) if talk.process.has_ended() || talk.process.is_silent() => {
                return Err(format!("{error}\n{STAYS}"));
            }
            Talked::Gone(error) => return Err(error.to_string()),
            Talked::Ended(_) => {
                let what = talk.errors.after(&format!("no reply within {}", exact(time)));
                drop(talk);
                self.has_given_up = true;
                let Some(context) = jobs.first() else { return Err(what) };
                return Err(format!("{what}\n{}", self.why_silent(&line, context)?));
            }
        }
        self.talk = Some(talk);
        self.silence(silence, "after its reply")?;
        let last = errors.into_inner().pop();
        Ok(last.map(|error: BoxError| match error.source() {
            Some(outcome) => format!("{error} ({outcome})"),
            None => error.to_string(),
        }))
    }

    /// The running program, or a new one.
    fn take_program(&mut self) -> Result<Talk, String> {
        if let Some(talk) = self.talk.take() {
            return Ok(talk);
        }
        Talk::start(&self.runner, None).map_err(|error| {
            self.has_given_up = true;
            self.runner.program.not_started(&error).to_string()
        })
    }

    /// Waits for a while, in which the program must neither write to standard output nor exit.
    fn silence(&mut self, silence: Duration, when: &str) -> Found {
        let mut talk = self.take_program()?;
        let until = Instant::now() + silence;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            talk.read(rest).map_err(|error| error.to_string())?;
            talk.read_asked();
            if !talk.output.is_empty() {
                talk.read_all(REST).map_err(|error| error.to_string())?;
                let said = shown(&std::mem::take(&mut talk.output));
                self.talk = Some(talk);
                return Err(unasked(&said, when));
            }
            if talk.process.has_ended() || talk.process.is_silent() {
                let what = match talk.exit_status().map_err(|error| error.to_string())? {
                    Some(status) => format!("it exited {when}: {}", talk.process.in_words(status)),
                    None => format!("it closed its standard output {when}"),
                };
                return Err(format!("{}\n{STAYS}", talk.errors.after(&what)));
            }
            if rest.is_zero() {
                self.talk = Some(talk);
                return Ok(None);
            }
        }
    }

    /// Why a new program does not reply to this job either: perhaps it does once its standard input is closed.
    fn why_silent(&mut self, request: &[u8], context: &Context) -> Result<&'static str, String> {
        let (mut talk, mut input) = (self.take_program()?, Input::all(request));
        let until = Instant::now() + self.options.within;
        let mut wait = |talk: &mut Talk| {
            while !talk.process.has_ended() && Instant::now() < until {
                let rest = until.saturating_duration_since(Instant::now());
                talk.process.exchange(&mut input, &mut talk.output, &mut talk.errors, rest)?;
            }
            talk.process.end(&mut talk.output, &mut talk.errors)
        };
        wait(&mut talk).map_err(|error| error.to_string())?;
        let mut lines = talk.output.split(|byte| *byte == b'\n');
        let unended = lines.next_back().unwrap_or_default();
        let is_reply = |line: &[u8]| {
            let meaning = Said::read(line).and_then(|said| said.about(&[], context, MAX_OUTPUT));
            matches!(meaning, Ok(Meaning::Reply(_)))
        };
        if is_reply(unended) {
            return Ok("End each reply with a line feed");
        }
        if lines.any(is_reply) {
            return Ok("It replies only when its standard input is closed: read line by line, and flush each reply");
        }
        Ok("Reply to each job with one line on standard output; if the program needs longer, pass --within")
    }

    fn end(&mut self) -> Found {
        let mut talk = self.take_program()?;
        let (mut input, until) = (Input::part(STOP), Instant::now() + self.options.within);
        while talk.asked().stop && !input.is_written() && Instant::now() < until {
            let sent = talk.process.exchange(&mut input, &mut talk.output, &mut talk.errors, REST);
            sent.map_err(|error| error.to_string())?;
        }
        if !talk.close(Instant::now() + self.options.grace) {
            let grace = exact(self.options.grace);
            return Err(format!(
                "it did not exit within {grace} after its standard input was closed\nEnd when there are no more lines to \
                 read"
            ));
        }
        let until = Instant::now() + CHILDREN;
        let mut left = self.runner.guard.left();
        while !left.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            left = self.runner.guard.left();
        }
        // This kills the rest of its process group.
        let ended = talk.process.end(&mut talk.output, &mut talk.errors);
        let (status, _) = ended.map_err(|error| error.to_string())?;
        if !status.success() {
            let what = format!("{}, instead of exit code 0", talk.process.in_words(status));
            return Err(talk.errors.after(&what));
        }
        if !talk.output.is_empty() {
            return Err(unasked(&shown(&talk.output), "after its standard input was closed"));
        }
        if !left.is_empty() {
            let named = left.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let others = left.len().saturating_sub(NAMED);
            let others = if others > 0 { format!(" and {others} more") } else { String::new() };
            return Err(format!(
                "it left processes running: {named}{others}\nEnd them, and wait for them, before it exits"
            ));
        }
        Ok(None)
    }
}

/// What is wrong with output that is not the reply to a job.
fn unasked(said: &str, when: &str) -> String {
    let first = said.trim().lines().next().unwrap_or_default();
    let is_reply = serde_json::from_str::<Value>(first).is_ok_and(|value| value.get("job_id").is_some());
    match is_reply {
        true => format!("it wrote another reply {when}: {first}\nReply once to each job, in the order of the jobs"),
        false => format!("it wrote to standard output {when}: {first}\n{ONLY_REPLIES}"),
    }
}

impl Turn {
    /// What follows the first line of a fault is left out if the fault before had the same.
    fn in_words(&self, last_hint: &mut String) -> String {
        match (&self.wrong, &self.error) {
            (Some(wrong), _) => {
                let (what, hint) = wrong.split_once('\n').unwrap_or((wrong, ""));
                let line = format!("wrong  {}: {what}", self.turn);
                if hint.is_empty() || hint == last_hint {
                    return line;
                }
                hint.clone_into(last_hint);
                format!("{line}\n       {}", hint.replace('\n', "\n       "))
            }
            (None, Some(error)) => {
                format!("ok     {}; replied with an error: {}", self.turn, first_line(error, SHOWN_ERROR))
            }
            (None, None) => format!("ok     {}", self.turn),
        }
    }
}

impl Report {
    fn in_words(&self) -> String {
        let wrong = self.turns.iter().filter(|turn| !turn.conforms).count();
        if wrong == 0 {
            return format!("the program conforms to protocol {}", self.protocol);
        }
        let verb = if wrong == 1 { "is" } else { "are" };
        let not_checked = match self.not_checked {
            0 => String::new(),
            left => format!("; {left} more not checked"),
        };
        format!("{} {verb} wrong{not_checked}; the protocol is in docs/protocol.md", counted(wrong as u64, "turn"))
    }
}
