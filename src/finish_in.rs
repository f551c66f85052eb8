//! Acknowledging a job inside of its handler's own transaction.

use futures_io::{AsyncRead, AsyncWrite};

use crate::error::Error;
use crate::handler::{BoxError, Context, IntoOutput, Output};
use crate::ids::Fence;
use crate::queue::enqueue::run;
use crate::queue::finish::{Finish, FinishResult, finish_one_command, follow_up_list_type, read_finish_one};

/// What a handler returns that has acknowledged its job itself: by [`finish_in`], which is the only way to get one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the handler must return it, so that its worker knows that the job is acknowledged"]
pub struct Finished(());

impl IntoOutput for Finished {
    fn into_output(self) -> Result<Output, BoxError> {
        Ok(Output::acknowledged())
    }
}

/// Acknowledges the job that runs as done, on the handler's own connection, inside its transaction: what the handler
/// writes there, the acknowledgement, the queue's sink and the follow-ups in `output` are committed together or not at
/// all, once, however often the job runs.
///
/// For results that are written in a set, a [sink](crate::QueueOptions::sink) is faster: it is called once for a batch
/// of jobs, and costs no connection and no round trip of the handler's own. This is for a handler that decides by what
/// it reads in the same transaction.
///
/// Acknowledge last, right before the commit: from then on until the transaction ends, the job's row is locked. Return
/// what you get. Where the transaction was not committed all the same, the worker notices, and the attempt has failed.
///
/// ```no_run
/// use readpast::tiberius::Client;
/// use readpast::{BoxError, Context, Finished, Job, Output, finish_in};
/// # use readpast::futures_io::{AsyncRead, AsyncWrite};
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
/// The client is the handler's own, with the driver's [command time-out](crate::tiberius), 30 seconds by default. A
/// handler that returns with its transaction open keeps its job locked, whatever it returns. The worker says so in its
/// log, acknowledges its other jobs meanwhile, and asks for the outcome of this one until the transaction has ended.
///
/// # Errors
///
/// [`Error::LeaseLost`] when the job is not this worker's any more: another one may be running it. [`Error::Refused`]
/// before anything is sent, where `output` cannot be acknowledged as it is, the context is a test's, or the queue's
/// delivery is `at_most_once`, so that there is nothing to acknowledge. [`Error::ResultRefused`] from the sink or a
/// follow-up, and SQL Server's other errors.
///
/// After an error, roll the transaction back or drop the client, and return the error (`?`): the attempt has failed. An
/// error inside of the procedure has rolled the transaction back as a whole. After [`Error::ConnectionLost`],
/// [`Error::Protocol`] or [`Error::UnreadableText`], drop the client.
///
/// # Cancel safety
///
/// Not cancel safe: when the future is dropped, drop the client too.
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
    let (worker, started_at) =
        context.run().ok_or_else(|| refused("finish_in needs the context of a job that a worker runs".to_owned()))?;
    let job = context.job();
    if job.fence() == Fence::NONE {
        return Err(refused("finish_in is not for queues with delivery at_most_once: there is no row left".to_owned()));
    }
    let (schema, queue) = context.place();
    let finish = Finish {
        job_id: job.id(),
        fence: job.fence(),
        attempt: job.attempt(),
        kind: None,
        outcome: output.into_outcome(),
        run: started_at.elapsed(),
    };
    let follow_up_list = follow_up_list_type(schema);
    let command = finish_one_command(schema, queue, worker, &finish, &follow_up_list)?;
    context.acknowledges();
    match read_finish_one(run(client, schema, command).await?)? {
        None => Ok(Finished(())),
        Some(FinishResult::Lost | FinishResult::Dead) => Err(Error::LeaseLost),
    }
}
