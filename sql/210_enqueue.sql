-- Enqueues one job, for any language and for triggers: no result set, the id comes back in @job_id.
-- Takes part in the caller's transaction. When an unfinished job of the queue has the same @dedup_key, nothing is added:
-- @duplicate is 1 and @job_id is that job's.
CREATE OR ALTER PROCEDURE [$(schema)].[enqueue]
    @queue          nvarchar(128),
    @payload        varbinary(max)   = NULL,  -- bytes; JSON as UTF-8
    @text           nvarchar(max)    = NULL,  -- or text, for producers in T-SQL
    @priority       smallint         = 0,     -- smaller runs first
    @delay_ms       bigint           = NULL,  -- start this long from now, by SQL Server's clock
    @due_at         datetime2(3)     = NULL,  -- or at this time, UTC
    @max_attempts   int              = NULL,  -- NULL: the queue's
    @dedup_key      nvarchar(256)    = NULL,
    @correlation_id uniqueidentifier = NULL,
    @job_id         bigint           = NULL OUTPUT,
    @duplicate      bit              = NULL OUTPUT
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @lifo bit, @due datetime2(3), @message nvarchar(2048);

SELECT @queue_id = queue_id, @lifo = CASE WHEN claim_order = 'lifo' THEN 1 ELSE 0 END
FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF (@payload IS NULL AND @text IS NULL) OR (@payload IS NOT NULL AND @text IS NOT NULL)
    THROW 58003, N'a job needs either a payload or a text', 1;
IF @delay_ms < 0 OR @delay_ms > 315360000000 OR (@delay_ms IS NOT NULL AND @due_at IS NOT NULL)
    THROW 58003, N'delay_ms must be between 0 and 315360000000 (ten years), and not stand beside due_at', 1;
IF @max_attempts < 1
    THROW 58003, N'max_attempts must be 1 or more', 1;

-- DATEADD counts in int: whole seconds and the rest.
SET @due = COALESCE(@due_at, DATEADD(MILLISECOND, @delay_ms % 1000, DATEADD(SECOND, @delay_ms / 1000, @now)), @now);
SET @job_id = NULL;
SET @duplicate = 0;

BEGIN TRANSACTION;
-- HOLDLOCK keeps the absence of the key until the commit, so that of two sessions with one key the second finds the first's job.
IF @dedup_key IS NOT NULL
    SELECT @job_id = job_id, @duplicate = 1
    FROM [$(schema)].[jobs] WITH (UPDLOCK, HOLDLOCK, ROWLOCK, INDEX (jobs_dedup))
    WHERE queue_id = @queue_id AND dedup_key = @dedup_key AND dedup_key IS NOT NULL AND state < 3;

IF @job_id IS NULL
BEGIN
    INSERT [$(schema)].[jobs]
        (queue_id, state, lifo, priority, max_attempts, enqueued_at, due_at, dedup_key, correlation_id, payload_utf16, payload)
    VALUES
        (@queue_id, CASE WHEN @due > @now THEN 1 ELSE 0 END, @lifo, ISNULL(@priority, 0), @max_attempts, @now, @due, @dedup_key,
         @correlation_id, CASE WHEN @text IS NULL THEN 0 ELSE 1 END, ISNULL(@payload, CAST(@text AS varbinary(max))));
    SET @job_id = CAST(SCOPE_IDENTITY() AS bigint);
END;
COMMIT TRANSACTION;
GO
