//! The two pages of a form.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::typed::Typed;
use crate::frame::Frame;
use crate::payload_view::View;
use crate::render::html;
use crate::texts::in_one_direction;

/// The first step.
#[derive(Template)]
#[template(path = "form.html")]
pub struct FormPage<'a> {
    pub frame: Frame,
    /// Where the form is sent.
    pub action: &'static str,
    pub lead: String,
    /// Names and values of fields that are not shown.
    pub hidden: Vec<(&'static str, String)>,
    pub groups: Vec<Group>,
    pub back: String,
    pub typed: &'a Typed,
}

pub struct Group {
    pub title: &'static str,
    pub is_folded: bool,
    pub fields: Vec<Field>,
}

pub struct Field {
    pub name: &'static str,
    pub label: String,
    pub hint: String,
    pub input: Input,
    pub is_required: bool,
    /// A word beside the label: that a setting is not the default, for example.
    pub mark: Option<String>,
}

pub enum Input {
    Line,
    /// A line, with suggestions.
    Suggested(Vec<String>),
    /// Lines, and how many are seen.
    Lines(u8),
    /// A file, and its greatest size in bytes.
    File(usize),
    /// Values and their labels.
    Choice(Vec<(String, String)>),
    /// A box that sends this value when it is ticked.
    Tick(String),
}

impl Field {
    pub fn new(name: &'static str, label: impl Into<String>, hint: impl Into<String>, input: Input) -> Field {
        Field { name, label: label.into(), hint: hint.into(), input, is_required: false, mark: None }
    }

    pub fn required(mut self) -> Field {
        self.is_required = true;
        self
    }
}

impl Group {
    /// A group that is open.
    pub fn open(title: &'static str, fields: Vec<Field>) -> Group {
        Group { title, is_folded: false, fields }
    }

    /// A group that is folded unless something has been typed into it, or is wrong.
    pub fn folded(title: &'static str, fields: Vec<Field>, typed: &Typed) -> Group {
        let is_used = |field: &Field| !typed.is_empty(field.name) || typed.wrong(field.name).is_some();
        Group { title, is_folded: !fields.iter().any(is_used), fields }
    }
}

impl FormPage<'_> {
    /// The page. Its status says whether something is wrong.
    pub fn response(&self) -> Response {
        let status = if self.typed.is_right() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        (status, html(self)).into_response()
    }

    /// The first wrong field, which gets the focus.
    fn has_focus(&self, name: &str) -> bool {
        let fields = || self.groups.iter().flat_map(|group| &group.fields);
        fields().find(|field| self.typed.wrong(field.name).is_some()).is_some_and(|field| field.name == name)
    }

    /// Browsers send files only in multipart forms.
    fn has_file(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.fields).any(|field| matches!(field.input, Input::File(_)))
    }

    fn described_by(&self, field: &Field) -> String {
        let wrong = self.typed.wrong(field.name).map(|_| format!("{}-wrong", field.name));
        let hint = (!field.hint.is_empty()).then(|| format!("{}-hint", field.name));
        wrong.into_iter().chain(hint).collect::<Vec<_>>().join(" ")
    }
}

/// The second step.
#[derive(Template)]
#[template(path = "form_check.html")]
pub struct CheckPage {
    pub frame: Frame,
    pub action: &'static str,
    /// The label of the button that does it.
    pub label: &'static str,
    pub will_be: Vec<String>,
    pub warnings: Vec<String>,
    /// What was typed: labels and values.
    pub facts: Vec<(&'static str, String)>,
    pub changes: Vec<Change>,
    pub payload: Option<View>,
    pub times: Option<Times>,
    pub hidden: Vec<(&'static str, String)>,
}

/// What a setting is and will be.
pub struct Change {
    pub name: &'static str,
    pub old: String,
    pub new: String,
    pub effect: &'static str,
}

/// The next times of a schedule.
pub struct Times {
    pub zone: String,
    /// In the zone, in UTC, and what the zone's clocks do before it.
    pub rows: Vec<(String, String, String)>,
}

impl Times {
    fn are_utc(&self) -> bool {
        self.zone == "UTC"
    }

    fn have_changes(&self) -> bool {
        self.rows.iter().any(|(_, _, clocks)| !clocks.is_empty())
    }
}

impl CheckPage {
    fn has_effects(&self) -> bool {
        self.changes.iter().any(|change| !change.effect.is_empty())
    }

    pub fn response(mut self) -> Response {
        for text in self.will_be.iter_mut().chain(&mut self.warnings) {
            *text = in_one_direction(text);
        }
        html(&self)
    }
}

/// What was typed into these fields, with their labels.
pub fn typed_facts(typed: &Typed, labels: &[(&str, &'static str)]) -> Vec<(&'static str, String)> {
    let given = labels.iter().filter(|(name, _)| !typed.is_empty(name));
    given.map(|(name, label)| (*label, typed.lines(name))).collect()
}

/// Fields with what was typed, for the second step to send.
pub fn typed_fields(typed: &Typed, names: &[&'static str]) -> Vec<(&'static str, String)> {
    let given = names.iter().filter(|name| !typed.is_empty(name));
    given.map(|name| (*name, typed.text(name).to_owned())).collect()
}
