//! Observes log events, for tests.

use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A subscriber that calls `ask` at each event of this crate.
struct Asking<F> {
    ask: F,
    answers: Arc<Mutex<Vec<bool>>>,
}

impl<S: Subscriber, F: Fn() -> bool + 'static> Layer<S> for Asking<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("readpast") {
            self.answers.lock().push((self.ask)());
        }
    }
}

/// Runs `run`, calls `ask` at each event that this thread logs meanwhile, and returns the answers.
pub(crate) fn seen(ask: impl Fn() -> bool + Send + Sync + 'static, run: impl FnOnce()) -> Vec<bool> {
    let answers = Arc::default();
    let layer = Asking { ask, answers: Arc::clone(&answers) };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
    std::mem::take(&mut *answers.lock())
}
