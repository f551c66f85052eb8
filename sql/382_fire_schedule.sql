-- For the elected worker: enqueues the job of a schedule for one of its times and advances the schedule, in one
-- transaction, if the schedule has not changed since it was read (@revision). Each time thus fires once, despite
-- repeated calls and several workers that consider themselves elected. Without @fire_at, the schedule is only advanced.
-- A locked schedule counts as changed. So does a schedule that was read (@looked_at) before the clock was set back.
-- Result: revision (NULL: nothing happened), job_id (NULL: no job was requested), duplicate (1: an unfinished job has
-- the key, and none was added).
CREATE OR ALTER PROCEDURE [$(schema)].[fire_schedule]
    @queue     nvarchar(129),
    @name      nvarchar(129),
    @revision  int,
    @fire_at   datetime2(3) = NULL,  -- the time to fire
    @due_at    datetime2(3) = NULL,  -- when the job is due; NULL: at once
    @next_at   datetime2(3),
    @looked_at datetime2(3) = NULL  -- the column "now" of due_schedules; NULL: the current time
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- An enqueue waits for an uncommitted enqueue of the same key, but a duty must not. fail_schedule schedules a retry.
SET LOCK_TIMEOUT 1000;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @payload varbinary(max), @text nvarchar(max),
    @payload_utf16 bit, @priority smallint, @max_attempts int, @time_limit_ms int,
    @kind varchar(64), @dedup_key nvarchar(256), @correlation_id uniqueidentifier, @headers nvarchar(1300),
    @group_key nvarchar(128), @needs varchar(1000), @start_by datetime2(3), @job_id bigint, @duplicate bit;

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
            @correlation_id = correlation_id, @headers = headers, @group_key = group_key, @needs = needs,
            -- counted from a missed time itself, which is made up for
            @start_by = DATEADD(MILLISECOND, start_within_ms % 1000, DATEADD(SECOND, start_within_ms / 1000,
                CASE WHEN @due_at > @now THEN @due_at WHEN @fire_at < DATEADD(MINUTE, -1, @now) THEN @fire_at
                    ELSE @now END)),
            @dedup_key = ISNULL(dedup_key, CONCAT(name, N'@', CONVERT(varchar(19), @fire_at, 126), N'Z'))
        FROM [$(schema)].[schedules]
        WHERE queue_id = @queue_id AND name = @name;
        EXEC [$(schema)].[enqueue] @queue = @queue, @payload = @payload, @text = @text, @priority = @priority,
            @due_at = @due_at, @max_attempts = @max_attempts, @dedup_key = @dedup_key,
            @correlation_id = @correlation_id, @kind = @kind, @time_limit_ms = @time_limit_ms,
            @headers = @headers, @group_key = @group_key, @needs = @needs, @start_by = @start_by,
            @job_id = @job_id OUTPUT, @duplicate = @duplicate OUTPUT;
        UPDATE [$(schema)].[schedules] WITH (ROWLOCK) SET last_job_id = @job_id
        WHERE queue_id = @queue_id AND name = @name;
    END;
END;
COMMIT TRANSACTION;

-- Done after the commit, see lower_marks.
IF @duplicate = 0
    EXEC [$(schema)].[lower_marks] @queue_id, @job_id;
IF @group_key IS NOT NULL
    EXEC [$(schema)].[advance_groups] @queue_id;

SELECT @revision AS revision, @job_id AS job_id, @duplicate AS duplicate;
GO
