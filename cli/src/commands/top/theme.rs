//! How the screen tells things apart: by colours, and without colours by weight alone.

use ratatui::style::{Color, Modifier, Style};

/// The styles, with or without colours.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    colours: bool,
}

impl Theme {
    /// Without colours where NO_COLOR is set to something (no-color.org).
    pub fn of_environment() -> Theme {
        Theme::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    pub fn new(colours: bool) -> Theme {
        Theme { colours }
    }

    fn colour(self, colour: Color, otherwise: Modifier) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }

    pub fn plain(self) -> Style {
        Style::new()
    }

    /// The first line.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// The heads of columns and sections.
    pub fn heading(self) -> Style {
        self.colour(Color::Cyan, Modifier::UNDERLINED).add_modifier(Modifier::BOLD)
    }

    /// The row that keys are about.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Something to look at: dead jobs, failures, a lost connection.
    pub fn bad(self) -> Style {
        self.colour(Color::Red, Modifier::BOLD)
    }

    /// Something to know: a paused queue, a question.
    pub fn warning(self) -> Style {
        self.colour(Color::Yellow, Modifier::BOLD)
    }

    /// Something that went well.
    pub fn good(self) -> Style {
        self.colour(Color::Green, Modifier::empty())
    }

    /// What matters less.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}
