use super::reserved_word::RESERVED_WORDS;
use super::scan::tokenize;

fn error_number(text: &str) -> i32 {
    tokenize(text).unwrap_err().number
}

#[test]
fn reserved_words_are_sorted_for_the_binary_search() {
    assert!(RESERVED_WORDS.is_sorted());
}

#[test]
fn comments_nest_and_lines_are_counted() {
    let tokens = tokenize("-- one\n/* two /* three\n */ */ a\n'x\ny' b").unwrap();
    let lines: Vec<u32> = tokens.iter().map(|token| token.line).collect();
    assert_eq!(lines, [3, 4, 5, 5]);
}

#[test]
fn what_cannot_be_a_token_has_sql_servers_error() {
    assert_eq!(error_number("'abc"), 105);
    assert_eq!(error_number("[abc"), 105);
    assert_eq!(error_number("/* /* */"), 113);
    assert_eq!(error_number("[]"), 1038);
    assert_eq!(error_number("SELECT {"), 102);
    assert_eq!(error_number("@"), 102);
    assert_eq!(error_number("1e3"), 59_000);
    assert_eq!(error_number("$1"), 59_000);
    assert_eq!(error_number(&"9".repeat(39)), 1007);
    assert_eq!(error_number(&"a".repeat(129)), 103);
}
