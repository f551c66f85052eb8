//! A program for each job.

use std::borrow::Cow;
use std::process::ExitStatus;

use readpast::{BoxError, Context, Job, JobError, Output};

use super::ending::{Ending, Why};
use super::error_tail::ErrorTail;
use super::exit_outcomes::{ExitOutcome, ExitOutcomes};
use super::parents;
use super::process::{Input, Process};
use super::program;
use super::runner::{Runner, ended_early, was_told_to_end};

/// Runs the program for one job.
///
/// # Errors
///
/// The job's outcome by the program's exit.
pub fn run(runner: &Runner, outcomes: &ExitOutcomes, job: &Job, context: &Context) -> Result<Output, BoxError> {
    let Runner { program, starting, guard, grace, max_output, .. } = runner;
    let parents = parents::of(job, context)?.map(|parents| serde_json::to_vec(&parents)).transpose()?;
    let (prepared, mut process) = starting.start(program, context, || {
        let mut prepared = program.for_job(job, guard.run(), parents.as_deref())?;
        let process = Process::spawn(&mut prepared.command, guard, false, runner.memory_for(job))?;
        Ok((prepared, process))
    })?;
    let payload = if prepared.reads_payload { program::payload(job)? } else { Cow::Borrowed([].as_slice()) };

    let (mut input, mut output, mut errors) = (Input::all(&payload), Vec::new(), ErrorTail::default());
    let (mut ending, mut logged) = (Ending::new(*grace), LoggedOutput::default());
    while ending.goes_on(&process) {
        let at_most = ending.look(&mut process, context);
        process.exchange(&mut input, &mut output, &mut errors, at_most)?;
        logged.add(&output, context);
        errors.log(context);
        if output.len() > *max_output {
            ending.begin(&mut process, Why::OutputTooLong);
            output.clear(); // nobody wants it, and it goes on coming
            logged = LoggedOutput::default();
        }
    }
    let (status, usage) = process.end(&mut output, &mut errors)?;
    context.report_usage(usage);
    logged.add(&output, context);
    errors.log(context);
    if output.len() > *max_output || ending.why() == Some(Why::OutputTooLong) {
        return Err(JobError::dead(format!("its standard output is larger than {max_output} bytes")).into());
    }
    if let Some(why) = ending.why() {
        return Err(ended_early(why, context, &errors).into());
    }
    if outcomes.after(status) != ExitOutcome::Done
        && let Some(what) = process.out_of_memory()
    {
        return Err(JobError::out_of_memory(errors.after(&what)).into());
    }
    judge(status, process.in_words(status), outcomes, output, &errors, context)
}

/// How much of the standard output is in the job's log. Output that is no text, such as an image, is left out.
#[derive(Default)]
struct LoggedOutput {
    bytes: usize,
    is_no_text: bool,
}

impl LoggedOutput {
    fn add(&mut self, output: &[u8], context: &Context) {
        let new = &output[self.bytes..];
        self.bytes = output.len();
        self.is_no_text |= new.contains(&0);
        if !self.is_no_text {
            context.log_output(new);
        }
    }
}

fn judge(
    status: ExitStatus,
    in_words: String,
    outcomes: &ExitOutcomes,
    output: Vec<u8>,
    errors: &ErrorTail,
    context: &Context,
) -> Result<Output, BoxError> {
    let outcome = outcomes.after(status);
    if outcome == ExitOutcome::Done {
        return Ok(if output.is_empty() { Output::default() } else { Output::bytes(output) });
    }
    let text = errors.after(&in_words);
    let is_named = status.code().is_some_and(|code| outcomes.named(code).is_some());
    Err(match outcome {
        // The whole service was told to stop, with its programs: not the job's fault.
        _ if !is_named && was_told_to_end(status, context) => JobError::snooze(std::time::Duration::ZERO, text),
        ExitOutcome::Done | ExitOutcome::Retry => JobError::retry(text),
        ExitOutcome::RetryIn(delay) => JobError::retry_in(delay, text),
        ExitOutcome::Dead => JobError::dead(text),
        ExitOutcome::Snooze(delay) => JobError::snooze(delay, text),
        ExitOutcome::Move(queue) => JobError::move_to(queue, text),
    }
    .into())
}
