//! Refuses NEXT VALUE FOR where it may not stand: see [`crate::plan::next_value_forbidden`].

use crate::bind::binder::Binder;
use crate::error::SqlResult;
use crate::plan::next_value_forbidden::ForbiddenPlace;
use crate::plan::scalar::{Node, Scalar};

impl Binder<'_> {
    /// Binds what must not contain NEXT VALUE FOR.
    pub fn without_next_value<T>(
        &mut self,
        place: ForbiddenPlace,
        bind: impl FnOnce(&mut Self) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let before = self.next_values;
        let bound = bind(self)?;
        if self.next_values != before { Err(place.error()) } else { Ok(bound) }
    }
}

pub fn takes_next_value(scalar: &Scalar) -> bool {
    let mut found = false;
    scalar.visit(&mut |node| found |= matches!(node, Node::NextValue(_)));
    found
}
