-- Returns the stored failed attempts of one job of the queue, the oldest first, including attempts in other queues that
-- the job was in. Does not wait (READPAST), so an attempt that is being stored is left out. Result: attempt, fence,
-- worker_id, worker (its name), failed_at, run_us (NULL: its worker was lost), error, queue (of the attempt; NULL: it
-- was deleted), cpu_us, peak_bytes. Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [$(schema)].[peek_attempts]
    @queue  nvarchar(129),
    @job_id bigint
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT a.attempt, a.fence, a.worker_id, a.worker, a.failed_at, a.run_us, a.error,
    (SELECT q.name FROM [$(schema)].[queues] AS q WITH (NOLOCK) WHERE q.queue_id = a.queue_id) AS queue,
    a.cpu_us, a.peak_bytes
FROM [$(schema)].[attempts] AS a WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (attempts_pk (job_id)))
WHERE a.job_id = @job_id
    AND (EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                 WHERE j.job_id = @job_id AND j.queue_id = @queue_id)
         OR EXISTS (SELECT 1 FROM [$(schema)].[archive] AS r WITH (NOLOCK, FORCESEEK (archive_pk (job_id)))
                    WHERE r.job_id = @job_id AND r.queue_id = @queue_id))
ORDER BY a.fence
OPTION (MAXDOP 1);
GO
