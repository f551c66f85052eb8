//! Splits connection strings by ADO.NET's rules.

use crate::error::Error;

use super::known_keys::{IN_QUOTES, invalid, pair, squeezed};

/// Splits the string by ADO.NET's rules. Pairs end at `;`, keys at the first `=` (`==` is a literal one). A value that
/// begins with a quote ends at the next single quote of that kind (a doubled quote is a literal one). Keys are returned
/// in lower case without spaces. See "Connection string syntax" in Microsoft's ADO.NET documentation. No error quotes
/// the text, which may be a password.
pub(crate) fn split(text: &str) -> Result<Vec<(String, String)>, Error> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start_matches(is_gap);
    while !rest.is_empty() {
        let position = pairs.len() + 1;
        let (key, after_key) =
            split_key(rest).ok_or_else(|| invalid(format!("pair {position} has no '='; {IN_QUOTES}")))?;
        let key = squeezed(&key);
        let after_key = after_key.trim_start();
        let quote = after_key.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let (value, after_value) = match quote {
            Some(quote) => split_quoted(&after_key[1..], quote)
                .ok_or_else(|| invalid(format!("the quote of the value of {} is not closed", pair(position, &key))))?,
            None => {
                let end = after_key.find(';').unwrap_or(after_key.len());
                (after_key[..end].trim_end().to_string(), &after_key[end..])
            }
        };
        let after_value = after_value.trim_start();
        if !after_value.is_empty() && !after_value.starts_with(';') {
            return Err(invalid(format!("there is text after the quoted value of {}", pair(position, &key))));
        }
        pairs.push((key, value));
        rest = after_value.trim_start_matches(is_gap);
    }
    Ok(pairs)
}

fn is_gap(character: char) -> bool {
    character == ';' || character.is_whitespace()
}

fn split_key(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(['=', ';'])?;
        if rest[end..].starts_with(';') {
            return None;
        }
        key.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('=') {
            Some(after) => {
                key.push('=');
                rest = after;
            }
            None => return Some((key, rest)),
        }
    }
}

fn split_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(quote)?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(quote) {
            Some(after) => {
                value.push(quote);
                rest = after;
            }
            None => return Some((value, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_equal_signs_in_values_are_kept() {
        let pairs = |text: &str| split(text).unwrap();
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        assert_eq!(pairs("PWD='a;b''c\"d' ; UID = x"), [pair("pwd", "a;b'c\"d"), pair("uid", "x")]);
        assert_eq!(pairs("PWD=\"é=\"\"=\";;"), [pair("pwd", "é=\"=")]);
        assert_eq!(pairs("PWD=abc=="), [pair("pwd", "abc==")]);
        assert_eq!(pairs("a==b=c"), [pair("a=b", "c")]);
        assert_eq!(pairs("PWD="), [pair("pwd", "")]);
    }
}
