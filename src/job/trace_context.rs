//! Where a job stands in the producer's trace, in its headers: as the program's OpenTelemetry propagator writes it
//! (`traceparent` and `tracestate`, where that is the one of the W3C's trace context).
//!
//! Without the feature `opentelemetry` no job is part of a trace.

use std::borrow::Cow;

#[cfg(feature = "opentelemetry")]
use {
    opentelemetry::propagation::{Extractor, Injector},
    opentelemetry::trace::TraceContextExt,
    opentelemetry::{Context, global},
    tracing_opentelemetry::OpenTelemetrySpanExt,
};

use super::headers::Headers;
#[cfg(feature = "opentelemetry")]
use super::job::Job;
use super::new_job::NewJob;

/// What is current: that jobs which are enqueued now go with.
pub(crate) struct TraceContext {
    #[cfg(feature = "opentelemetry")]
    headers: Headers,
}

impl TraceContext {
    pub(crate) fn current() -> TraceContext {
        TraceContext {
            #[cfg(feature = "opentelemetry")]
            headers: current_headers(),
        }
    }

    /// The headers that a job is sent with. One that has a context of its own keeps it.
    pub(crate) fn headers_of<'a>(&self, job: &'a NewJob) -> Option<Cow<'a, Headers>> {
        let own = job.headers.as_ref();
        #[cfg(feature = "opentelemetry")]
        if let Some(with_context) = self.added_to(own) {
            return Some(Cow::Owned(with_context));
        }
        own.map(Cow::Borrowed)
    }

    /// `None` for a job that has a context of its own, or none to be added. No job is refused for the sake of a trace:
    /// where the headers would become too long, it goes without.
    #[cfg(feature = "opentelemetry")]
    fn added_to(&self, own: Option<&Headers>) -> Option<Headers> {
        let is_there = |name: &str| own.is_some_and(|own| own.get(name).is_some());
        if self.headers.is_empty() || self.headers.iter().any(|(name, _)| is_there(name)) {
            return None;
        }
        let mut with_context = own.cloned().unwrap_or_default();
        with_context.extend(&self.headers);
        with_context.check().is_ok().then_some(with_context)
    }
}

#[cfg(feature = "opentelemetry")]
fn current_headers() -> Headers {
    let mut context = Context::current();
    // Where the program has told its layer to leave the current context alone, only the span knows it.
    if !context.has_active_span() {
        context = tracing::Span::current().context();
    }
    let mut headers = Headers::default();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut headers));
    headers
}

/// Makes `span`, which must not have been entered, a part of the job's trace.
#[cfg(feature = "opentelemetry")]
pub(crate) fn continue_trace(span: &tracing::Span, job: &Job) {
    let Some(headers) = job.details.as_ref().and_then(|details| details.headers.as_ref()) else { return };
    if span.is_disabled() {
        return;
    }
    let context =
        global::get_text_map_propagator(|propagator| propagator.extract_with_context(&Context::new(), headers));
    if context.has_active_span() {
        // The subscriber may have no layer for OpenTelemetry: then there is nothing to continue.
        let _ = span.set_parent(context);
    }
}

#[cfg(feature = "opentelemetry")]
impl Injector for Headers {
    fn set(&mut self, name: &str, value: String) {
        // A tracestate without entries, for one.
        if !value.is_empty() {
            Headers::set(self, name.to_owned(), value);
        }
    }
}

#[cfg(feature = "opentelemetry")]
impl Extractor for Headers {
    fn get(&self, name: &str) -> Option<&str> {
        self.text(name)
    }

    fn keys(&self) -> Vec<&str> {
        self.iter().map(|(name, _)| name).collect()
    }
}
