//! What the program has handed in is dropped on a thread of its own, wherever a worker lets go of it.

use std::ops::{Deref, DerefMut};
use std::thread;

/// What is dropped on a thread of its own. A handler may own what panics when it is dropped where async code runs, as a
/// tokio runtime does; and a worker's last piece goes where its end finds it: on its I/O thread, on a job's thread, in
/// the program's own async code.
pub(in crate::worker) struct DroppedElsewhere<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> DroppedElsewhere<T> {
    pub(in crate::worker) fn new(value: T) -> DroppedElsewhere<T> {
        DroppedElsewhere(Some(value))
    }
}

impl<T: Send + 'static> Deref for DroppedElsewhere<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> DerefMut for DroppedElsewhere<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl<T: Send + 'static> Drop for DroppedElsewhere<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // Without a thread it is dropped here, for better or worse.
        let _ = thread::Builder::new().name("readpast-drop".to_owned()).spawn(move || drop(value));
    }
}
