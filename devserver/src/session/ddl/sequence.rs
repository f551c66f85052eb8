//! CREATE and ALTER SEQUENCE.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::object::{Object, Sequence};
use crate::error::{SqlError, SqlResult};
use crate::session::client_session::Session;
use crate::tsql::ast::CreateSequence;
use crate::value::SqlType;

impl Session {
    pub(crate) fn create_sequence(&mut self, create: &CreateSequence) -> SqlResult<()> {
        // Who may not change the schema lacks CREATE SEQUENCE on it, too, which nobody can be granted here.
        let schema =
            self.schema_for(&create.name).or_else(|error| self.check_create("CREATE SEQUENCE").and(Err(error)))?;
        self.check_free(&schema, &create.name.name)?;
        let ty = match &create.data_type {
            Some(ty) => self.with_binder(|binder| binder.resolve_type(ty))?,
            None => SqlType::BigInt,
        };
        let (min, max) = match ty {
            SqlType::TinyInt => (0, 255),
            SqlType::SmallInt => (i64::from(i16::MIN), i64::from(i16::MAX)),
            SqlType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
            SqlType::BigInt => (i64::MIN, i64::MAX),
            _ => return Err(SqlError::not_supported(format!("a sequence of type {ty}"))),
        };
        let increment = create.increment.unwrap_or(1);
        let start = create.start.unwrap_or(if increment > 0 { min } else { max });
        if increment == 0 {
            return Err(SqlError::not_supported("a sequence with INCREMENT BY 0"));
        }
        if !(min..=max).contains(&start) {
            let message = "An invalid value was specified for argument 'START WITH' for the given data type.";
            return Err(SqlError::new(11708, message));
        }
        let sequence = Sequence {
            id: self.new_object_id(),
            schema,
            name: Arc::clone(&create.name.name),
            ty,
            start,
            increment,
            min,
            max,
            next: Mutex::new(Some(start)),
        };
        let undo = self.database.catalog.write().put_object(Object::Sequence(Arc::new(sequence)));
        self.keep_undo(undo);
        Ok(())
    }
}
