//! What the program gives all jobs of a worker to share: values by their type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Values by their type, one of each. Nothing changes while jobs run, so that a look needs no lock.
#[derive(Clone, Default)]
pub(crate) struct State(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl State {
    /// Adds a value; whether there was one of its type already.
    pub(super) fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        self.0.insert(TypeId::of::<T>(), Arc::new(value)).is_some()
    }

    /// Adds those of `others` whose types are not there yet.
    pub(super) fn fill_up(&mut self, others: &State) {
        for (of_type, value) in &others.0 {
            self.0.entry(*of_type).or_insert_with(|| value.clone());
        }
    }

    pub(super) fn get<T: Send + Sync + 'static>(&self) -> &T {
        let value = self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        value.unwrap_or_else(|| panic!("there is no state of type {}; give it to Handlers::state", type_name::<T>()))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.0.len())
    }
}
