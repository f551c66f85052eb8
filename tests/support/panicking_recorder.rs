//! A metrics recorder with a defect.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Panics when a histogram of one name is recorded.
pub struct PanickingRecorder(pub &'static str);

struct Panic;

impl HistogramFn for Panic {
    fn record(&self, _: f64) {
        panic!("the recorder's defect");
    }
}

impl Recorder for PanickingRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() == self.0 { Histogram::from_arc(Arc::new(Panic)) } else { Histogram::noop() }
    }
}
