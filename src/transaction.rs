//! Calls that run on the caller's own connection, inside the caller's transaction.

use futures_io::{AsyncRead, AsyncWrite};
use tiberius::Command;

use crate::config::check_schema;
use crate::connection::{Answer, AnswerSizeLimit, into_rows, one_row};
use crate::error::{BoxError, Error};
use crate::handler::{Context, IntoOutput, Output};
use crate::id::{BatchId, Enqueued, Fence};
use crate::job::{NewBatch, NewJob, SealedBatch, check_jobs};
use crate::procedures::producer::{
    ENQUEUE_BATCH, Lists, SEAL_BATCH, batch_command, create_command, enqueue_command, in_order, next_chunk,
    read_created, read_enqueued, read_sealed, seal_command,
};
use crate::procedures::worker::{Finish, FinishResult, finish_one_command, follow_up_list_type, read_finish_one};

/// The return value of a handler that has finished its job itself. Only [`finish_in`] creates one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the handler must return it, so that its worker knows that the job is finished"]
pub struct Finished(());

impl IntoOutput for Finished {
    fn into_output(self) -> Result<Output, BoxError> {
        Ok(Output::finished())
    }
}

/// Finishes the running job as done, on the handler's own connection, inside its transaction. The handler's writes
/// there, the job's outcome, the queue's sink and the follow-ups in `output` are committed together or not at all,
/// once, however often the job runs.
///
/// If the results of many jobs can be written together, a [sink](crate::procedures::operator::QueueOptions::sink) is
/// faster: one call serves many jobs, and the handler needs no connection and no round trip. `finish_in` is for
/// handlers whose decisions depend on data read in the same transaction.
///
/// Call `finish_in` last, right before the commit, because the job's row is then locked until the transaction ends.
/// Return its value from the handler. If the transaction is not committed, the worker notices this, and the attempt
/// fails.
///
/// ```no_run
/// use readpast::crates::tiberius::Client;
/// use readpast::{BoxError, Context, Job, Output};
/// use readpast::transaction::{Finished, finish_in};
/// # use readpast::crates::futures_io::{AsyncRead, AsyncWrite};
/// # async fn connect() -> Result<Client<tokio_util::compat::Compat<tokio::net::TcpStream>>, BoxError> {
/// #     unimplemented!()
/// # }
///
/// fn book(job: &Job, context: &Context) -> Result<Finished, BoxError> {
///     let amount: i32 = job.json()?;
///     context.block_on(async {
///         let mut client = connect().await?;
///         client.begin_transaction().await?;
///         client.execute("UPDATE dbo.accounts SET balance = balance + @P1", &[&amount]).await?;
///         let finished = finish_in(&mut client, context, Output::default()).await?;
///         client.commit_transaction().await?;
///         Ok(finished)
///     })
/// }
/// ```
///
/// The client is the handler's own, with the driver's [command timeout](crate::crates::tiberius), 30 seconds by
/// default. If a handler returns while its transaction is open, its job stays locked, whatever the handler returns. The
/// worker logs this, finishes its other jobs, and asks for the outcome of this job until the transaction has ended.
///
/// # Errors
///
/// - [`Error::LeaseLost`] if the job no longer belongs to this worker; another worker may be running it
/// - [`Error::Refused`] before anything is sent, if `output` is not valid, the context is a test's, or the queue's
///   delivery is `at_most_once`
/// - [`Error::ResultRefused`] from the sink or for a follow-up
/// - SQL Server's other errors
///
/// After an error, roll the transaction back or drop the client, and return the error (`?`). The attempt then fails. An
/// error inside the procedure has already rolled back the whole transaction. After [`Error::ConnectionLost`],
/// [`Error::Protocol`] or [`Error::UnreadableText`], drop the client.
///
/// # Cancel safety
///
/// Not cancel safe: if the future is dropped, drop the client too.
pub async fn finish_in<S>(
    client: &mut tiberius::Client<S>,
    context: &Context,
    output: Output,
) -> Result<Finished, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let refused = |message: String| Error::Refused { message };
    output.check().map_err(refused)?;
    let (worker, started_at) = context
        .run()
        .ok_or_else(|| refused("finish_in needs the context of a job that a worker is running".to_owned()))?;
    let job = context.job();
    if job.fence() == Fence::NONE {
        return Err(refused(
            "finish_in cannot finish a job of a queue with delivery at_most_once: its row is gone".to_owned(),
        ));
    }
    let (schema, queue) = context.place();
    let finish = Finish {
        job_id: job.id(),
        fence: job.fence(),
        attempt: job.attempt(),
        kind: None,
        outcome: output.into_outcome(),
        run: started_at.elapsed(),
        usage: context.reported_usage().unwrap_or_default(),
    };
    let follow_up_list = follow_up_list_type(schema);
    let command = finish_one_command(schema, queue, worker, &finish, &follow_up_list)?;
    context.finishes();
    match read_finish_one(run(client, schema, command).await?)? {
        None | Some(FinishResult::Next) => Ok(Finished(())),
        Some(FinishResult::Lost | FinishResult::Dead) => Err(Error::LeaseLost),
    }
}

/// Creates a batch on the caller's own connection, inside its transaction if one is open. The batch exists once the
/// transaction commits, together with the jobs that [`enqueue_in`] has added. If [`seal_batch_in`] was called, it is
/// then sealed. The follow-up goes to `queue`. See [`Queue::create_batch`](crate::queue::Queue::create_batch).
///
/// ```no_run
/// use readpast::crates::tiberius::Client;
/// use readpast::{NewBatch, NewJob};
/// use readpast::transaction::{create_batch_in, enqueue_in, seal_batch_in};
/// # use readpast::crates::futures_io::{AsyncRead, AsyncWrite};
///
/// # async fn order<S: AsyncRead + AsyncWrite + Unpin + Send>(client: &mut Client<S>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// client.begin_transaction().await?;
/// let batch = NewBatch::new().then(NewJob::text("add up"));
/// let batch = create_batch_in(client, "readpast", "invoices", &batch).await?;
/// enqueue_in(client, "readpast", "invoices", &[NewJob::json(&7)?.batch(batch)]).await?;
/// seal_batch_in(client, "readpast", batch).await?;
/// client.commit_transaction().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Same as [`Queue::create_batch`](crate::queue::Queue::create_batch). An error inside the procedure rolls back the
/// caller's transaction, see [`enqueue_in`]. After [`Error::ConnectionLost`], [`Error::Protocol`] or
/// [`Error::UnreadableText`], drop the client.
///
/// # Cancel safety
///
/// Not cancel safe: if the future is dropped, drop the client too.
pub async fn create_batch_in<S>(
    client: &mut tiberius::Client<S>,
    schema: &str,
    queue: &str,
    batch: &NewBatch,
) -> Result<BatchId, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    check_schema(schema)?;
    batch.check()?;
    read_created(&run(client, schema, create_command(schema, queue, batch)).await?)
}

/// Seals a batch on the caller's own connection, inside its transaction if one is open, see [`create_batch_in`]. Call
/// it last: jobs of the batch cannot be finished until the transaction ends.
///
/// # Errors
///
/// Same as [`Queue::seal_batch`](crate::queue::Queue::seal_batch) and [`create_batch_in`].
///
/// # Cancel safety
///
/// Not cancel safe: if the future is dropped, drop the client too.
pub async fn seal_batch_in<S>(
    client: &mut tiberius::Client<S>,
    schema: &str,
    batch: BatchId,
) -> Result<SealedBatch, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    check_schema(schema)?;
    let result = run(client, schema, seal_command(schema, batch)).await?;
    read_sealed(one_row(SEAL_BATCH, into_rows(SEAL_BATCH, result))?)
}

/// Enqueues jobs on the caller's own connection, inside its transaction if one is open. The jobs exist once the
/// transaction commits. They get ascending ids in the order of `jobs`.
///
/// An error inside the procedure, such as [`Error::UnknownQueue`] or a deadlock, rolls back the caller's whole
/// transaction. If the procedure could not run at all ([`Error::NotInstalled`], [`Error::PermissionDenied`]), the
/// transaction may still be open and contain some of the jobs: roll it back, or drop the client.
///
/// ```no_run
/// use readpast::crates::tiberius::Client;
/// use readpast::{Error, NewJob};
/// use readpast::transaction::enqueue_in;
/// # use readpast::crates::futures_io::{AsyncRead, AsyncWrite};
///
/// # async fn order<S: AsyncRead + AsyncWrite + Unpin + Send>(client: &mut Client<S>)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// client.begin_transaction().await?;
/// client.execute("INSERT dbo.orders (id) VALUES (@P1)", &[&7_i32]).await?;
/// enqueue_in(client, "readpast", "invoices", &[NewJob::json(&7)?]).await?;
/// client.commit_transaction().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::InvalidJob`] before anything is sent; [`Error::QueueFull`], or [`Error::EnqueuedInPart`] if the queue has
/// room for the first jobs, which leave the transaction open; [`Error::UnknownQueue`], [`Error::NotInstalled`],
/// [`Error::PermissionDenied`] and SQL Server's other errors. After [`Error::ConnectionLost`], [`Error::Protocol`] or
/// [`Error::UnreadableText`], drop the client.
///
/// # Cancel safety
///
/// Not cancel safe: if the future is dropped, drop the client too.
pub async fn enqueue_in<S>(
    client: &mut tiberius::Client<S>,
    schema: &str,
    queue: &str,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    check_schema(schema)?;
    check_jobs(jobs)?;
    let lists = Lists::of(schema);
    let mut enqueued = Vec::with_capacity(jobs.len());
    while enqueued.len() < jobs.len() {
        let chunk = &*next_chunk(jobs, &enqueued);
        let answer = if let [job] = chunk {
            let answer = run(client, schema, enqueue_command(schema, queue, &lists, job)?).await;
            answer.and_then(|answer| Ok(vec![read_enqueued(&answer)?]))
        } else {
            let answer = run(client, schema, batch_command(schema, queue, &lists, chunk, None)?).await;
            answer.and_then(|answer| in_order(into_rows(ENQUEUE_BATCH, answer), chunk.len()))
        };
        match answer {
            Ok(answers) => enqueued.extend(answers),
            Err(full @ (Error::QueueFull { .. } | Error::EnqueuedInPart { .. })) => return Err(full.after(enqueued)),
            Err(error) => return Err(error),
        }
    }
    Ok(enqueued)
}

/// Runs a command on the caller's own connection.
pub(crate) async fn run<S>(
    client: &mut tiberius::Client<S>,
    schema: &str,
    command: Command<'_>,
) -> Result<Answer, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let answer = async { Answer::read(command.exec(client).await?, AnswerSizeLimit::PLAIN).await };
    answer.await.map_err(|error| Error::from_driver(error, "the caller's connection", schema))
}
