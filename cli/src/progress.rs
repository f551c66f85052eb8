//! A progress bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress(ProgressBar);

impl Progress {
    /// Shows a bar. `what` names the things that are counted; `total` is their number, if known.
    pub fn new(what: &str, total: Option<u64>) -> Progress {
        let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let template = match total {
            Some(_) => "{msg} {human_pos} of {human_len}  {bar:30}  {per_sec}  {eta} left",
            None => "{msg} {human_pos}  {per_sec}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress(bar)
    }

    pub fn advance(&self, count: u64) {
        self.0.inc(count);
    }

    pub fn set(&self, count: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(count);
    }

    /// Hides the bar while something else is written.
    pub fn beside(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
