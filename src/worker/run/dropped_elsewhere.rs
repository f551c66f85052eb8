//! Drops values of the program on a thread of their own.

use std::ops::{Deref, DerefMut};
use std::thread;

/// A value that is dropped on a thread of its own. A handler may own a value that panics when it is dropped in async
/// code, such as a tokio runtime. The last part of a worker may be dropped on its I/O thread, on a job's thread, or in
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
        // Without a thread, the value is dropped here regardless.
        let _ = thread::Builder::new().name("readpast-drop".to_owned()).spawn(move || drop(value));
    }
}
