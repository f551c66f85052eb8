//! A metrics recorder with a defect.

use std::sync::Arc;

use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Panics when a counter of one name is raised. (Histograms are registered with their first value, by whichever thread
/// has it, where a local recorder is not known.)
pub struct PanickingRecorder(pub &'static str);

struct Panic;

impl CounterFn for Panic {
    fn increment(&self, _: u64) {
        panic!("the recorder's defect");
    }

    fn absolute(&self, _: u64) {}
}

impl Recorder for PanickingRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == self.0 { Counter::from_arc(Arc::new(Panic)) } else { Counter::noop() }
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
