-- Ends a worker: it is marked lost, its election ends, and the next reap returns the jobs that it still holds. Its row
-- stays for a day, because a claim may still commit, and reap finds the claimed jobs by this row. The last report
-- counts as with a heartbeat, even if the worker was marked lost. The queue's last worker also writes history.
CREATE OR ALTER PROCEDURE [$(schema)].[unregister_worker]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @done      bigint        = NULL,
    @failed    bigint        = NULL,
    @dead      bigint        = NULL,
    @times     varchar(1400) = NULL,
    @report_no bigint        = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @tries int = 0;

IF @done NOT BETWEEN 0 AND 1000000000000000 OR @failed NOT BETWEEN 0 AND 1000000000000000
    OR @dead NOT BETWEEN 0 AND 1000000000000000
    THROW 58003, N'done, failed and dead must be 0 to 10^15', 1;

UPDATE [$(schema)].[workers] WITH (ROWLOCK) SET lost_at = @now WHERE worker_id = @worker_id AND lost_at IS NULL;

-- Stored once, because a repeated call has no greater number.
UPDATE [$(schema)].[workers] WITH (ROWLOCK)
SET done = ISNULL(@done, done), failed = ISNULL(@failed, failed), dead = ISNULL(@dead, dead),
    times = ISNULL(@times, times), report_no = @report_no, reported_at = @now
WHERE worker_id = @worker_id AND @report_no > ISNULL(report_no, 0);

UPDATE d
SET until = @now
FROM [$(schema)].[queues] AS q WITH (FORCESEEK (queues_name (name)))
INNER JOIN [$(schema)].[duties] AS d WITH (ROWLOCK) ON d.queue_id = q.queue_id
WHERE q.name = @queue AND d.worker_id = @worker_id AND d.until > @now;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
-- Up to three times, because another worker that stopped at the same moment may have missed this worker's report.
WHILE @tries < 3
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] WITH (NOLOCK)
        WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
    AND EXISTS (SELECT 1 FROM [$(schema)].[workers] WITH (NOLOCK)
        WHERE queue_id = @queue_id AND (done <> ISNULL(noted_done, 0) OR failed <> ISNULL(noted_failed, 0)
            OR dead <> ISNULL(noted_dead, 0) OR times <> ISNULL(noted_times, '')))
BEGIN
    SET @tries = @tries + 1;
    EXEC [$(schema)].[note_history] @queue_id;
END;
GO
