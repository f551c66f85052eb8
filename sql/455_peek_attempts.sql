-- Returns the stored failed attempts of one job of the queue, the oldest first. Does not wait (READPAST), so an attempt
-- that is being stored is left out. Result: attempt, fence, worker_id, worker (its name), failed_at, run_us (NULL: its
-- worker was lost), error. Later versions add columns at the end.
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

SELECT attempt, fence, worker_id, worker, failed_at, run_us, error
FROM [$(schema)].[attempts] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (attempts_pk (job_id)))
WHERE job_id = @job_id AND queue_id = @queue_id
ORDER BY fence
OPTION (MAXDOP 1);
GO
