//! The outcomes of exit codes.

use std::process::ExitStatus;
use std::str::FromStr;
use std::time::Duration;

use crate::texts::duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitOutcome {
    Done,
    Retry,
    RetryIn(Duration),
    Dead,
    Snooze(Duration),
    Move(String),
}

/// `EX_DATAERR` of sysexits.h: invalid input.
const DATA_ERROR: i32 = 65;

/// `EX_TEMPFAIL` of sysexits.h: try again later.
const TEMPORARY_FAILURE: i32 = 75;

impl FromStr for ExitOutcome {
    type Err = String;

    fn from_str(text: &str) -> Result<ExitOutcome, String> {
        match text.split_once(':') {
            None if text == "done" => Ok(ExitOutcome::Done),
            None if text == "retry" => Ok(ExitOutcome::Retry),
            None if text == "dead" => Ok(ExitOutcome::Dead),
            Some(("retry", delay)) => Ok(ExitOutcome::RetryIn(duration(delay)?)),
            Some(("snooze", delay)) => Ok(ExitOutcome::Snooze(duration(delay)?)),
            Some(("move", queue)) if !queue.is_empty() => Ok(ExitOutcome::Move(queue.to_owned())),
            _ => Err(format!(
                "'{text}' is not an outcome; allowed are done, retry, retry:5m, dead, snooze:60s and move:QUEUE"
            )),
        }
    }
}

/// The rule of one `--on-exit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitRule {
    /// Ranges of codes, both ends included. If empty, the rule is for all codes that no other rule names.
    codes: Vec<(i32, i32)>,
    outcome: ExitOutcome,
}

impl FromStr for ExitRule {
    type Err = String;

    fn from_str(text: &str) -> Result<ExitRule, String> {
        let (codes, outcome) = text.split_once('=').ok_or("write it as CODES=OUTCOME, for example 1-9=dead")?;
        let outcome = outcome.parse()?;
        if codes == "other" {
            return Ok(ExitRule { codes: Vec::new(), outcome });
        }
        let codes = codes.split(',').map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<u8>(), last.parse::<u8>()) {
                (Ok(first), Ok(last)) if first <= last => Ok((first.into(), last.into())),
                _ => Err(format!("'{range}' is not an exit code; write 0 to 255, a range such as 1-9, or other")),
            }
        });
        Ok(ExitRule { codes: codes.collect::<Result<_, _>>()?, outcome })
    }
}

#[derive(Debug, Clone, Default)]
pub struct ExitOutcomes(Vec<ExitRule>);

impl ExitOutcomes {
    /// Creates the outcomes. If several rules name a code, the last one counts.
    pub fn new(rules: Vec<ExitRule>) -> ExitOutcomes {
        ExitOutcomes(rules)
    }

    /// The outcome by a rule that names this code.
    pub fn named(&self, code: i32) -> Option<ExitOutcome> {
        let names_it = |rule: &&ExitRule| rule.codes.iter().any(|(first, last)| (*first..=*last).contains(&code));
        self.0.iter().rev().find(names_it).map(|rule| rule.outcome.clone())
    }

    /// The outcome of an exit; a job whose program was killed by a signal is retried.
    pub fn after(&self, status: ExitStatus) -> ExitOutcome {
        status.code().map_or(ExitOutcome::Retry, |code| self.of(code))
    }

    fn of(&self, code: i32) -> ExitOutcome {
        if let Some(outcome) = self.named(code) {
            return outcome;
        }
        match code {
            0 => ExitOutcome::Done,
            DATA_ERROR => ExitOutcome::Dead,
            TEMPORARY_FAILURE => ExitOutcome::Retry,
            _ => self
                .0
                .iter()
                .rev()
                .find(|rule| rule.codes.is_empty())
                .map_or(ExitOutcome::Retry, |rule| rule.outcome.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes<const N: usize>(rules: &[&str], codes: [i32; N]) -> [ExitOutcome; N] {
        let outcomes = ExitOutcomes::new(rules.iter().map(|rule| rule.parse().unwrap()).collect());
        codes.map(|code| outcomes.of(code))
    }

    #[test]
    fn codes_mean_what_sysexits_says_or_a_rule() {
        use ExitOutcome::*;
        let minute = Duration::from_secs(60);
        assert_eq!(outcomes(&[], [0, 1, 65, 75, 255]), [Done, Retry, Dead, Retry, Retry]);
        let rules = ["1-9=dead", "other=snooze:60s", "3,80=retry:1m", "0=dead", "75=move:large:2"];
        let codes = [0, 1, 3, 9, 10, 65, 75, 80];
        let moved = Move("large:2".to_owned());
        let expected = [Dead, Dead, RetryIn(minute), Dead, Snooze(minute), Dead, moved, RetryIn(minute)];
        assert_eq!(outcomes(&rules, codes), expected);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for rule in [
            "",
            "3",
            "3=",
            "3=no",
            "x=dead",
            "9-1=dead",
            "256=dead",
            "-1=dead",
            "3=snooze",
            "3=retry:soon",
            "3=move",
            "3=move:",
        ] {
            assert!(rule.parse::<ExitRule>().is_err(), "{rule}");
        }
    }
}
