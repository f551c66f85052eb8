//! Common table expressions: which of them a name means, and what its query sees. Recursive ones are in
//! [`crate::bind::recursion`].

use crate::bind::binder::Binder;
use crate::bind::recursion::is_recursive;
use crate::error::{SqlError, SqlResult};
use crate::plan::relation::Relation;
use crate::storage::fold;
use crate::tsql::ast::{Ident, ObjectName};

impl Binder<'_> {
    /// The place of the CTE that a name means.
    pub fn find_cte(&self, name: &ObjectName) -> SqlResult<Option<usize>> {
        if name.schema.is_some() || name.database.is_some() {
            return Ok(None);
        }
        let wanted = fold(&name.name);
        let Some(place) = self.ctes.iter().rposition(|cte| fold(&cte.name) == wanted) else { return Ok(None) };
        let is_working = self.recursions.iter().any(|recursion| recursion.place == place);
        if self.cte_in_progress.contains(&place) && !is_working {
            return Err(SqlError::not_supported(format!("the CTE {} in a query of its own", name.name)));
        }
        Ok(Some(place))
    }

    /// Binds a reference to a CTE: a CTE sees those before it, and nothing of the query that uses it.
    pub fn bind_cte(&mut self, place: usize, alias: &Ident, mergeable: bool) -> SqlResult<Relation> {
        if let Some(recursion) = self.recursions.iter().find(|recursion| recursion.place == place) {
            let recursion = recursion.clone();
            return self.bind_recursive_reference(&recursion, alias);
        }
        let cte = self.ctes[place].clone();
        let later = self.ctes.split_off(place + 1);
        let scopes = std::mem::take(&mut self.scopes);
        self.cte_in_progress.push(place);
        let recursions = std::mem::take(&mut self.recursions);
        let bound =
            if is_recursive(&cte) { self.bind_recursive(&cte, place) } else { self.bind_query(&cte.query, false) };
        self.recursions = recursions;
        self.cte_in_progress.pop();
        self.scopes = scopes;
        self.ctes.extend(later);
        self.add_derived(bound?, alias, &cte.columns, mergeable)
    }
}
