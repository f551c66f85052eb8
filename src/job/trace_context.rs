//! Trace contexts in a job's headers, as written by the program's OpenTelemetry propagator (`traceparent` and
//! `tracestate` for the W3C's trace context). Without the feature `opentelemetry` no job is part of a trace.

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

/// The current context, which jobs that are enqueued now join.
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

    /// The headers to send with a job. A job with a context of its own keeps it.
    pub(crate) fn headers_of<'a>(&self, job: &'a NewJob) -> Option<Cow<'a, Headers>> {
        let own = job.headers.as_ref();
        #[cfg(feature = "opentelemetry")]
        if let Some(with_context) = self.added_to(own) {
            return Some(Cow::Owned(with_context));
        }
        own.map(Cow::Borrowed)
    }

    /// Returns the job's own headers with this context, or `None` if the job has a context of its own or if there is no
    /// context to add. If the headers would become too long, the job is sent without a context rather than rejected.
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
    // If the program has told its layer to leave the current context alone, only the span has it.
    if !context.has_active_span() {
        context = tracing::Span::current().context();
    }
    let mut headers = Headers::default();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut headers));
    headers
}

/// Makes `span`, which must not have been entered, part of the job's trace.
#[cfg(feature = "opentelemetry")]
pub(crate) fn continue_trace(span: &tracing::Span, job: &Job) {
    let Some(headers) = job.details.as_ref().and_then(|details| details.headers.as_ref()) else { return };
    if span.is_disabled() {
        return;
    }
    let context =
        global::get_text_map_propagator(|propagator| propagator.extract_with_context(&Context::new(), headers));
    if context.has_active_span() {
        // Without a layer for OpenTelemetry, there is nothing to continue.
        let _ = span.set_parent(context);
    }
}

#[cfg(feature = "opentelemetry")]
impl Injector for Headers {
    fn set(&mut self, name: &str, value: String) {
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
