-- Calls the queue's sink with the done jobs of @jobs that the worker still holds, in finish's transaction and before
-- its changes. While the sink runs, the jobs' rows have U locks. Claims, enqueues and operators' reads do not wait for
-- these locks.
--
-- If the sink fails, everything is rolled back with error 58020, including a caller's transaction. The error's text
-- begins with the number of the sink's error and a colon, by which the worker decides: it retries the call after a
-- deadlock, but not after a rejected result.
CREATE OR ALTER PROCEDURE [$(schema)].[call_sink]
    @sink      nvarchar(517),
    @queue_id  int,
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[finish_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @open int, @message nvarchar(2048);
DECLARE @done [$(schema)].[sink_list];

INSERT @done (job_id, kind, correlation_id, fence, output)
SELECT j.job_id, j.kind, j.correlation_id, j.fence, f.output
FROM @jobs AS f
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
ORDER BY f.job_id  -- keeps the order of the join
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    RETURN 0;

-- One more level, so that a COMMIT by the sink commits nothing. It is detected below.
BEGIN TRANSACTION;
SET @open = @@TRANCOUNT;
BEGIN TRY
    EXEC @sink @done;
    IF @@TRANCOUNT <> @open
        THROW 58003, N'the sink ended a transaction or left one open; it must end exactly those that it begins', 1;
    IF XACT_STATE() <> 1
        THROW 58003, N'the sink caught an error that makes the transaction uncommittable; it must rethrow the error', 1;
END TRY
BEGIN CATCH
    SET @message = CONCAT(ERROR_NUMBER(), N': the sink ', @sink, N' failed with error ', ERROR_NUMBER(), N' in line ',
                          ERROR_LINE(), N' of ', ERROR_PROCEDURE(), N': ', ERROR_MESSAGE());
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    EXEC [$(schema)].[raise] 58020, @message;
END CATCH;
COMMIT TRANSACTION;
GO
