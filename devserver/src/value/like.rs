//! LIKE and PATINDEX.
//!
//! A pattern is taken apart once into steps over UTF-16 units, in the form in which the collation compares them,
//! and then matched against any number of texts. Source: docs/t-sql/language-elements/like-transact-sql.md.

use crate::value::collation::Collation;
use crate::value::units::units;

/// A LIKE pattern, made ready once.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    steps: Vec<Step>,
    collation: Collation,
    trailing_blanks_count: bool,
    /// A pattern that ends in an open bracket matches nothing.
    is_void: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `%`
    AnyText,
    /// `_`
    AnyUnit,
    Unit(u16),
    /// `[…]` or `[^…]`: inclusive ranges of places in the order of the collation.
    Set {
        ranges: Vec<(u16, u16)>,
        negated: bool,
    },
}

impl Pattern {
    /// Takes a pattern apart. `unicode` says whether any operand of LIKE is `nchar` or `nvarchar`: only then do blanks at
    /// the end of the text count.
    pub fn new(pattern: &str, unicode: bool, collation: Collation) -> Pattern {
        let pattern: Vec<u16> = units(pattern).collect();
        let parsed = parse(&pattern, collation);
        let is_void = parsed.is_none();
        Pattern { steps: parsed.unwrap_or_default(), collation, trailing_blanks_count: unicode, is_void }
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        let units: Vec<u16> = self.collation.folded_units(text).collect();
        !self.is_void && self.matches_units(&self.steps, &units)
    }

    /// Where the first match begins, as PATINDEX answers: the place (from 0, in UTF-16 units) at which the text
    /// after a leading `%` begins to match.
    pub fn find(&self, text: &str) -> Option<usize> {
        let units: Vec<u16> = self.collation.folded_units(text).collect();
        if self.is_void {
            return None;
        }
        let Some((Step::AnyText, rest)) = self.steps.split_first() else {
            return self.matches_units(&self.steps, &units).then_some(0);
        };
        (0..=units.len()).find(|&start| self.matches_units(rest, &units[start..]))
    }

    /// The usual matching with one point to return to: a later `%` never needs an earlier one to take more.
    fn matches_units(&self, steps: &[Step], units: &[u16]) -> bool {
        let (mut step, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            if let Some(Step::AnyText) = steps.get(step) {
                step += 1;
                retry = Some((step, at));
                continue;
            }
            if step == steps.len() {
                let rest = &units[at..];
                if rest.is_empty() || (!self.trailing_blanks_count && rest.iter().all(|&unit| unit == 0x20)) {
                    return true;
                }
            } else if let Some(&unit) = units.get(at)
                && matches_unit(&steps[step], unit, self.collation)
            {
                step += 1;
                at += 1;
                continue;
            }
            match retry {
                Some((after_any, from)) if from < units.len() => {
                    retry = Some((after_any, from + 1));
                    (step, at) = (after_any, from + 1);
                }
                _ => return false,
            }
        }
    }
}

fn matches_unit(step: &Step, unit: u16, collation: Collation) -> bool {
    match step {
        Step::AnyUnit => true,
        Step::Unit(wanted) => *wanted == unit,
        Step::Set { ranges, negated } => {
            let place = collation.fold(unit);
            ranges.iter().any(|&(from, to)| (from..=to).contains(&place)) != *negated
        }
        Step::AnyText => false,
    }
}

/// None if the pattern ends in an open bracket: it matches nothing.
fn parse(units: &[u16], collation: Collation) -> Option<Vec<Step>> {
    const PERCENT: u16 = b'%' as u16;
    const UNDERSCORE: u16 = b'_' as u16;
    const OPEN: u16 = b'[' as u16;
    let mut steps = Vec::with_capacity(units.len());
    let mut at = 0;
    while at < units.len() {
        let unit = units[at];
        at += 1;
        match unit {
            PERCENT => steps.push(Step::AnyText),
            UNDERSCORE => steps.push(Step::AnyUnit),
            OPEN => {
                let (set, length) = parse_set(&units[at..], collation)?;
                steps.push(set);
                at += length;
            }
            _ => steps.push(Step::Unit(collation.fold(unit))),
        }
    }
    Some(steps)
}

/// What stands between brackets, and how many units that is with the closing one.
fn parse_set(units: &[u16], collation: Collation) -> Option<(Step, usize)> {
    const CARET: u16 = b'^' as u16;
    const CLOSE: u16 = b']' as u16;
    const HYPHEN: u16 = b'-' as u16;
    let negated = units.first() == Some(&CARET);
    let mut at = usize::from(negated);
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    loop {
        let unit = *units.get(at)?;
        at += 1;
        if unit == CLOSE {
            return Some((Step::Set { ranges, negated }, at));
        }
        let from = collation.fold(unit);
        let is_range = units.get(at) == Some(&HYPHEN) && units.get(at + 1).is_some_and(|&after| after != CLOSE);
        if !is_range {
            ranges.push((from, from));
            continue;
        }
        ranges.push((from, collation.fold(units[at + 1])));
        at += 2;
    }
}
