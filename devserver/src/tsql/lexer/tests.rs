use super::reserved_word::RESERVED_WORDS;
use super::scan::tokenize;
use super::token::TokenKind;

fn kinds(text: &str) -> Vec<TokenKind> {
    let mut kinds: Vec<TokenKind> = tokenize(text).unwrap().into_iter().map(|token| token.kind).collect();
    assert_eq!(kinds.pop(), Some(TokenKind::End));
    kinds
}

fn error_number(text: &str) -> i32 {
    tokenize(text).unwrap_err().number
}

#[test]
fn reserved_words_are_sorted_for_the_binary_search() {
    assert!(RESERVED_WORDS.is_sorted());
}

#[test]
fn names_strings_and_binaries_are_unescaped() {
    assert_eq!(kinds("[a]]b]"), [TokenKind::QuotedName("a]b".into())]);
    assert_eq!(kinds("\"a\"\"b\""), [TokenKind::QuotedName("a\"b".into())]);
    assert_eq!(kinds("'it''s'"), [TokenKind::String { value: "it's".into(), national: false }]);
    assert_eq!(kinds("N'日本'"), [TokenKind::String { value: "日本".into(), national: true }]);
    assert_eq!(kinds("0xABC"), [TokenKind::Binary(vec![0x0A, 0xBC].into())]);
    assert_eq!(kinds("0x"), [TokenKind::Binary(Vec::new().into())]);
}

#[test]
fn words_are_reserved_in_any_letter_case() {
    assert_eq!(kinds("sElEcT"), [TokenKind::Word { reserved: true }]);
    assert_eq!(kinds("größe #t output"), vec![TokenKind::Word { reserved: false }; 3]);
}

#[test]
fn numbers_know_their_kind() {
    assert_eq!(kinds("1 1. .5"), [TokenKind::Integer, TokenKind::Decimal, TokenKind::Decimal]);
    assert_eq!(error_number("1e3"), 59_000);
    assert_eq!(error_number("$1"), 59_000);
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
    assert_eq!(error_number(&"9".repeat(39)), 1007);
    assert_eq!(error_number(&"a".repeat(129)), 103);
}
