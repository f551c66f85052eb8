//! A metrics recorder with a defect.

use std::sync::Arc;

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Panics when a counter of one name is raised, or a gauge of that name becomes 0. (Histograms are registered with their first value, by whichever thread
/// has it, where a local recorder is not known.)
pub struct PanickingRecorder(pub &'static str);

struct Panic;

impl CounterFn for Panic {
    fn increment(&self, _: u64) {
        panic!("the recorder's defect");
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Panic {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}
    fn set(&self, value: f64) {
        assert!(value > 0.0, "the recorder's defect");
    }
}

impl Recorder for PanickingRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == self.0 { Counter::from_arc(Arc::new(Panic)) } else { Counter::noop() }
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        if key.name() == self.0 { Gauge::from_arc(Arc::new(Panic)) } else { Gauge::noop() }
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
