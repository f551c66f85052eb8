//! Keeps the driver's warnings out of the program's log.
//!
//! With `TrustServerCertificate=true` or without encryption, the driver logs a warning for each connection, and a
//! worker opens several at startup. The warnings only repeat the connection string, and relevant faults are returned as
//! errors. So while the driver connects, its events of level info and warn are dropped. Errors and events that need
//! `debug` or `trace` go on to the current subscriber.
//!
//! Without any `tracing` subscriber, events go to the `log` crate, and only its logger can filter them. In this case
//! this module filters nothing: setting a subscriber even for a moment would end the forwarding to `log` for the whole
//! process.

use tracing::instrument::WithSubscriber;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, NoSubscriber, Subscriber};
use tracing::{Dispatch, Event, Level, Metadata, dispatcher};

/// Passes on everything except the driver's infos and warnings.
struct WithoutWarnings {
    outer: Dispatch,
}

pub(crate) async fn without_warnings<F: Future>(driver: F) -> F::Output {
    let outer = dispatcher::get_default(Dispatch::clone);
    if outer.is::<NoSubscriber>() {
        return driver.await;
    }
    driver.with_subscriber(WithoutWarnings { outer }).await
}

fn is_dropped(metadata: &Metadata<'_>) -> bool {
    [Level::INFO, Level::WARN].contains(metadata.level()) && metadata.target().starts_with("tiberius")
}

impl Subscriber for WithoutWarnings {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_dropped(metadata) { Interest::never() } else { self.outer.register_callsite(metadata) }
    }

    /// This subscriber needs no events beyond those that the current subscriber needs.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::current())
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !is_dropped(metadata) && self.outer.enabled(metadata)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.outer.new_span(span)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        self.outer.record(span, values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        self.outer.record_follows_from(span, follows);
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        !is_dropped(event.metadata())
    }

    fn event(&self, event: &Event<'_>) {
        self.outer.event(event);
    }

    fn enter(&self, span: &Id) {
        self.outer.enter(span);
    }

    fn exit(&self, span: &Id) {
        self.outer.exit(span);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.outer.clone_span(id)
    }

    fn try_close(&self, id: Id) -> bool {
        self.outer.try_close(id)
    }
}
