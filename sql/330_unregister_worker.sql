-- Ends a worker: it is marked lost, and jobs that it still holds are left to the next reap. Its row stays for a day, even where it holds nothing: a
-- claim of it may still be on its way, and only by this row does reap find the jobs of it. Duties that it had pass to the next heartbeat.
-- With it a worker says for the last time what it has done, as with a heartbeat; one that was marked lost may do so, too. The last worker of a queue
-- has it written into history: nobody else may come for long.
CREATE OR ALTER PROCEDURE [$(schema)].[unregister_worker]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @done      bigint        = NULL,
    @failed    bigint        = NULL,
    @dead      bigint        = NULL,
    @times     varchar(1400) = NULL,
    @report_no bigint        = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int;

UPDATE [$(schema)].[workers] WITH (ROWLOCK) SET lost_at = @now WHERE worker_id = @worker_id AND lost_at IS NULL;

-- Once: a call that is repeated brings no greater number.
UPDATE [$(schema)].[workers] WITH (ROWLOCK)
SET done = @done, failed = @failed, dead = @dead, times = @times, report_no = @report_no, reported_at = @now
WHERE worker_id = @worker_id AND @report_no > ISNULL(report_no, 0);

UPDATE d
SET until = @now
FROM [$(schema)].[queues] AS q
INNER JOIN [$(schema)].[duties] AS d WITH (ROWLOCK) ON d.queue_id = q.queue_id
WHERE q.name = @queue AND d.worker_id = @worker_id AND d.until > @now;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[workers] WITH (NOLOCK) WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until >= @now)
    EXEC [$(schema)].[note_history] @queue_id;
GO
