//! A JSON object of a row's columns, as an expression.

use crate::names::literal;

use super::texts::json_text;

/// The parts of the object's text: constant texts, and expressions over the row.
#[derive(Debug, Default)]
pub(super) struct JsonObject {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Constant(String),
    Value(String),
}

impl JsonObject {
    /// Adds a number, `true` or `false`, given as text; NULL becomes `null`.
    pub(super) fn bare(&mut self, name: &str, value: &str, is_nullable: bool) {
        self.name(name);
        self.value(if is_nullable { format!("ISNULL({value}, N'null')") } else { value.to_string() });
    }

    /// Adds a text whose special characters are already escaped.
    pub(super) fn text(&mut self, name: &str, value: &str, is_nullable: bool) {
        self.name(name);
        if is_nullable {
            self.value(format!("ISNULL(N'\"' + {value} + N'\"', N'null')"));
        } else {
            self.constant("\"");
            self.value(value.to_string());
            self.constant("\"");
        }
    }

    /// The expression. `first` wraps its first part: CONCAT returns nvarchar(max) if a part is one, otherwise at most
    /// 4,000 characters.
    pub(super) fn whole(mut self, first: impl Fn(&str) -> String) -> String {
        self.constant("}");
        let parts = self.parts.iter().enumerate().map(|(at, part)| match part {
            Part::Constant(text) if at == 0 => first(&literal(text)),
            Part::Constant(text) => literal(text),
            Part::Value(value) => value.clone(),
        });
        format!("CONCAT({})", parts.collect::<Vec<_>>().join(", "))
    }

    fn name(&mut self, name: &str) {
        let before = if self.parts.is_empty() { "{" } else { "," };
        self.constant(&format!("{before}{}:", json_text(name)));
    }

    fn constant(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Constant(last)) => last.push_str(text),
            _ => self.parts.push(Part::Constant(text.to_string())),
        }
    }

    fn value(&mut self, value: String) {
        self.parts.push(Part::Value(value));
    }
}
