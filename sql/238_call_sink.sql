-- Calls the sink of a queue with the jobs of @jobs that are done and still this worker's, inside of finish's
-- transaction and before its own changes: while the sink runs, the jobs' rows are locked U, which no claim, enqueue or
-- look of an operator waits for.
--
-- When the sink fails, everything is rolled back, a caller's transaction too, and the error is 58020. Its text begins
-- with the number of the sink's own error and a colon, so that the worker can tell a deadlock, after which it repeats
-- the call, from a result that the sink refuses.
CREATE OR ALTER PROCEDURE [$(schema)].[call_sink]
    @sink      nvarchar(517),
    @queue_id  int,
    @worker_id uniqueidentifier,
    @jobs      [$(schema)].[finish_list] READONLY
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @open int, @message nvarchar(2048);
DECLARE @done [$(schema)].[sink_list];

INSERT @done (job_id, kind, correlation_id, fence, output)
SELECT j.job_id, j.kind, j.correlation_id, j.fence, f.output
FROM @jobs AS f
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = f.job_id
WHERE f.outcome = 0 AND j.state = 2 AND j.queue_id = @queue_id AND j.worker_id = @worker_id AND j.fence = f.fence
ORDER BY f.job_id  -- so that the join keeps to it
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT = 0
    RETURN 0;

-- One level more, so that a COMMIT of the sink's ends nothing: it is noticed below, and all of it is rolled back.
BEGIN TRANSACTION;
SET @open = @@TRANCOUNT;
BEGIN TRY
    EXEC @sink @done;
    IF @@TRANCOUNT <> @open
        THROW 58003, N'it has ended a transaction or left one open; it must leave the one in which it is called as it is', 1;
    IF XACT_STATE() <> 1
        THROW 58003, N'it has caught an error after which the transaction cannot be committed; it must raise it again',
            1;
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
