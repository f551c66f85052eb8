//! What happens to a job whose program has run out of memory.

use std::str::FromStr;

use readpast::OutOfMemory;

use crate::texts::bytes;

/// The rule of `--on-out-of-memory`.
#[derive(Debug, Clone, PartialEq)]
pub struct OutOfMemoryRule(pub OutOfMemory);

impl FromStr for OutOfMemoryRule {
    type Err = String;

    fn from_str(text: &str) -> Result<OutOfMemoryRule, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let rule = match (name, rest.split_once(':')) {
            ("retry", None) if text == name => OutOfMemory::Retry,
            ("move", _) if !rest.is_empty() => OutOfMemory::MoveTo(rest.to_owned()),
            ("grow", Some((factor, max))) => match (factor.parse::<f64>(), bytes(max)) {
                (Ok(factor), Ok(max)) if factor > 1.0 && factor.is_finite() && max > 0 => {
                    OutOfMemory::Grow { factor, max: max as u64 }
                }
                _ => return Err("write it as grow:FACTOR:BYTES, for example grow:2:64GiB".to_owned()),
            },
            _ => return Err(format!("'{text}' is not allowed; write retry, grow:2:64GiB or move:QUEUE")),
        };
        Ok(OutOfMemoryRule(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_what_happens() {
        let rule = |text: &str| text.parse::<OutOfMemoryRule>().map(|rule| rule.0);
        assert_eq!(rule("retry"), Ok(OutOfMemory::Retry));
        assert_eq!(rule("grow:1.5:64GiB"), Ok(OutOfMemory::Grow { factor: 1.5, max: 64 << 30 }));
        assert_eq!(rule("move:big:jobs"), Ok(OutOfMemory::MoveTo("big:jobs".to_owned())));
        for text in
            ["", "retry:", "retry:1", "grow", "grow:2", "grow:1:1GiB", "grow:inf:1GiB", "grow:2:lots", "move:", "dead"]
        {
            assert!(rule(text).is_err(), "{text}");
        }
    }
}
