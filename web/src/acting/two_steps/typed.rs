//! What a visitor typed into a form, and what is wrong with it.

use readpast::{Error, NewJob};

use crate::fields::Fields;

#[derive(Debug, Clone, Default)]
pub struct Typed {
    fields: Fields,
    /// The names of fields, and what is wrong with each.
    wrong: Vec<(&'static str, String)>,
}

/// The step that a form's button asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Show the second step, or the form with what is wrong.
    Check,
    /// Show the form as it was typed.
    Back,
    Do,
}

impl Typed {
    pub fn new(fields: Fields) -> Typed {
        Typed { fields, wrong: Vec::new() }
    }

    pub fn step(&self) -> Step {
        match self.fields.get("step") {
            Some("do") => Step::Do,
            Some("back") => Step::Back,
            _ => Step::Check,
        }
    }

    /// The text of a field; empty if nothing was typed.
    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_default()
    }

    /// A text of several lines. Browsers send their ends as CR LF, whatever was typed.
    pub fn lines(&self, name: &str) -> String {
        self.text(name).replace("\r\n", "\n")
    }

    /// How often a field was sent.
    pub fn count(&self, name: &str) -> usize {
        self.fields.all(name).count()
    }

    pub fn is_empty(&self, name: &str) -> bool {
        self.fields.get(name).is_none()
    }

    pub fn say(&mut self, name: &'static str, what: impl Into<String>) {
        self.wrong.push((name, what.into()));
    }

    pub fn wrong(&self, name: &str) -> Option<&str> {
        self.wrong.iter().find(|(other, _)| *other == name).map(|(_, what)| what.as_str())
    }

    pub fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Says what is wrong with a field that has been read.
    pub fn must(&mut self, name: &'static str, right: Result<(), String>) {
        if let Err(what) = right {
            self.say(name, what);
        }
    }

    /// Reads a field. `None` if it is empty or wrong.
    pub fn read<T>(&mut self, name: &'static str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let text = self.fields.get(name)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(what) => {
                self.say(name, what);
                None
            }
        }
    }

    /// Sets an attribute of a job. What the library says is wrong with it stands under the field.
    pub fn job_part<T: Clone>(
        &mut self,
        name: &'static str,
        job: NewJob,
        read: impl FnOnce(&str) -> Result<T, String>,
        set: impl Fn(NewJob, T) -> NewJob,
    ) -> NewJob {
        let part = self.read(name, |text| {
            let part = read(text)?;
            set(NewJob::text(""), part.clone()).check().map_err(reason)?;
            Ok(part)
        });
        match part {
            Some(part) => set(job, part),
            None => job,
        }
    }
}

/// What is wrong, without the beginning of the sentence that a form does not need.
fn reason(error: Error) -> String {
    match error {
        Error::InvalidJob { reason, .. } => reason,
        error => error.to_string(),
    }
}

/// Reads a text as it is.
pub fn verbatim(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// Reads a whole number of this range.
pub fn whole<T: std::str::FromStr>(text: &str, allowed: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("it is '{text}'; it must be {allowed}"))
}
