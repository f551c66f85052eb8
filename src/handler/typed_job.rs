//! Job types of the program. A type defines its kind, its payload, and how it runs.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{BoxError, Error};
use crate::job::NewJob;

use super::context::Context;
use super::output::IntoOutput;

/// A job type, whose fields are the payload, as JSON.
///
/// ```
/// use readpast::{BoxError, Context, Handlers, NewJob, TypedJob};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     path: String,
///     width: u32,
/// }
///
/// impl TypedJob for Resize {
///     const KIND: &'static str = "resize";
///     type Output = ();
///
///     fn run(self, context: &Context) -> Result<(), BoxError> {
///         println!("job {}: {} to {} pixels", context.job().id(), self.path, self.width);
///         Ok(())
///     }
/// }
///
/// # fn main() -> Result<(), readpast::Error> {
/// // The producer:
/// let job = NewJob::of(&Resize { path: "a.png".to_owned(), width: 640 })?.priority(-1);
/// // The worker:
/// let handlers = Handlers::new().job::<Resize>();
/// # Ok(())
/// # }
/// ```
pub trait TypedJob: Serialize + DeserializeOwned {
    /// The kind of these jobs: 1 to 64 printable ASCII characters without spaces. It is stored with each job, and no
    /// other type may have the same kind.
    const KIND: &'static str;

    /// The output of these jobs: `()`, [`Output`](super::output::Output), [`Json`](super::output::Json) or an `Option`
    /// of one of these.
    type Output: IntoOutput;

    /// Runs the job. The payload has been parsed into `self`; if it cannot be parsed, the job becomes dead and `run` is
    /// not called.
    ///
    /// # Errors
    ///
    /// The job may return any error. It is then retried, unless a [`JobError`](super::job_error::JobError) says
    /// otherwise.
    fn run(self, context: &Context) -> Result<Self::Output, BoxError>;
}

impl NewJob {
    /// Creates a job of a type, with its payload and its kind.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] if `job` cannot be written as JSON, for example because of a map whose keys are not strings.
    pub fn of<T: TypedJob>(job: &T) -> Result<NewJob, Error> {
        Ok(NewJob::json(job)?.kind(T::KIND))
    }
}
