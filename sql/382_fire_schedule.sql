-- For the worker that has the duties: enqueues the job of a schedule for one of its times and moves the schedule on to
-- the next, in one transaction, if nobody has changed the schedule since it was read (@revision). So each time is fired
-- once, however many workers believe that they have the duties, and however often a call is repeated. Without @fire_at
-- the schedule is only moved on.
--
-- A schedule that is locked counts as changed: the worker looks again a moment later. So it is where the clock was set
-- back since the worker looked (@looked_at).
-- Result: revision (NULL: nothing has happened), job_id (NULL: none was asked for), duplicate (an unfinished job has
-- the key; none was added).
CREATE OR ALTER PROCEDURE [$(schema)].[fire_schedule]
    @queue     nvarchar(129),
    @name      nvarchar(129),
    @revision  int,
    @fire_at   datetime2(3) = NULL,  -- the time that is fired
    @due_at    datetime2(3) = NULL,  -- when its job may start; NULL: at once
    @next_at   datetime2(3),
    @looked_at datetime2(3) = NULL  -- what due_schedules returned as now; NULL: now
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- An enqueue waits for an uncommitted one of the same key, and the duties must not: it is tried again ten seconds later
-- (fail_schedule).
SET LOCK_TIMEOUT 1000;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @payload varbinary(max), @text nvarchar(max),
    @payload_utf16 bit, @priority smallint, @max_attempts int, @time_limit_ms int,
    @kind varchar(64), @dedup_key nvarchar(256), @correlation_id uniqueidentifier, @headers nvarchar(1300),
    @group_key nvarchar(128), @job_id bigint, @duplicate bit;

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

BEGIN TRANSACTION;
UPDATE [$(schema)].[schedules] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET next_at = @next_at, look_at = @next_at, looked_at = ISNULL(@looked_at, @now), last_at = ISNULL(@fire_at, last_at),
    error = NULL, revision = revision + 1
WHERE queue_id = @queue_id AND name = @name AND revision = @revision AND paused = 0
    AND (@looked_at IS NULL OR @looked_at <= DATEADD(MINUTE, 1, @now));
IF @@ROWCOUNT = 0
    SET @revision = NULL;
ELSE
BEGIN
    SET @revision = @revision + 1;
    IF @fire_at IS NOT NULL
    BEGIN
        SELECT @payload = CASE WHEN payload_utf16 = 0 THEN payload END,
            @text = CASE WHEN payload_utf16 = 1 THEN CAST(payload AS nvarchar(max)) END,
            @priority = priority, @max_attempts = max_attempts, @time_limit_ms = time_limit_ms, @kind = kind,
            @correlation_id = correlation_id, @headers = headers, @group_key = group_key,
            @dedup_key = ISNULL(dedup_key, CONCAT(name, N'@', CONVERT(varchar(19), @fire_at, 126), N'Z'))
        FROM [$(schema)].[schedules]
        WHERE queue_id = @queue_id AND name = @name;
        EXEC [$(schema)].[enqueue] @queue = @queue, @payload = @payload, @text = @text, @priority = @priority,
            @due_at = @due_at, @max_attempts = @max_attempts, @dedup_key = @dedup_key,
            @correlation_id = @correlation_id, @kind = @kind, @time_limit_ms = @time_limit_ms,
            @headers = @headers, @group_key = @group_key, @job_id = @job_id OUTPUT, @duplicate = @duplicate OUTPUT;
    END;
END;
COMMIT TRANSACTION;

-- Only now: see lower_marks.
IF @duplicate = 0
    EXEC [$(schema)].[lower_marks] @queue_id, @job_id;
IF @group_key IS NOT NULL
    EXEC [$(schema)].[advance_groups] @queue_id;

SELECT @revision AS revision, @job_id AS job_id, @duplicate AS duplicate;
GO
