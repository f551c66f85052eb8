-- Creates a schedule, or replaces an existing one except its pause. If cron and time zone are unchanged, the next time
-- stays the same, so a program may call this at each start. Result: created.
--
-- T-SQL cannot read a cron expression, so the elected worker checks @cron and @time_zone within about a second. If they
-- are wrong, nothing fires, the worker logs the error, and list_schedules returns it. (Admin::set_schedule checks them
-- first.) @cron has five fields (minute, hour, day of month, month, day of week) or six (second first).
CREATE OR ALTER PROCEDURE [$(schema)].[set_schedule]
    @queue           nvarchar(129),
    @name            nvarchar(129),
    @cron            varchar(257),
    @time_zone       varchar(65)      = 'UTC',  -- an IANA name such as Europe/Berlin
    @payload         varbinary(max)   = NULL,   -- the job, as for enqueue
    @text            nvarchar(max)    = NULL,
    @priority        smallint         = 0,
    @max_attempts    int              = NULL,
    @dedup_key       nvarchar(257)    = NULL,   -- NULL: each job's key is made of the name and the time
    @correlation_id  uniqueidentifier = NULL,
    @kind            nvarchar(65)     = NULL,
    @time_limit_ms   bigint           = NULL,
    @make_up         int              = 1,      -- how many of the last missed times to make up for
    @jitter_ms       int              = 0,      -- the longest random delay of each job, up to a day
    @headers         nvarchar(1301)   = NULL,
    @group_key       nvarchar(129)    = NULL,
    @needs           nvarchar(1001)   = NULL,
    @start_within_ms bigint          = NULL,
    @audit_id        bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT ON;
-- adopt: refuse
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @delivery varchar(13), @created bit = 0, @own bigint,
    @members nvarchar(max);

SELECT @queue_id = queue_id, @delivery = delivery FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
    WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @name IS NULL OR LEN(@name) = 0 OR DATALENGTH(@name) > 256 OR DATALENGTH(@name) <> DATALENGTH(LTRIM(RTRIM(@name)))
    THROW 58003, N'name must have 1 to 128 characters, with no leading or trailing spaces', 1;
EXEC [$(schema)].[check_text] N'the name of a schedule', @name, 1;  -- it becomes part of keys
IF @cron IS NULL OR LEN(@cron) = 0 OR DATALENGTH(@cron) > 256
    THROW 58003, N'cron must have 1 to 256 characters', 1;
IF @time_zone IS NULL OR LEN(@time_zone) = 0 OR DATALENGTH(@time_zone) > 64
    THROW 58003, N'time_zone must have 1 to 64 characters', 1;
IF @make_up IS NULL OR @make_up < 0 OR @make_up > 1000
    EXEC [$(schema)].[refuse] N'make_up', @make_up, N'0 (missed times are skipped) to 1000';
IF @jitter_ms IS NULL OR @jitter_ms < 0 OR @jitter_ms > 86400000
    EXEC [$(schema)].[refuse] N'jitter_ms', @jitter_ms, N'0 to 86400000 (a day)';
-- The same checks as in enqueue, which would otherwise fail later.
IF (@payload IS NULL AND @text IS NULL) OR (@payload IS NOT NULL AND @text IS NOT NULL)
    THROW 58003, N'a job needs either a payload or a text', 1;
EXEC [$(schema)].[check_job] @max_attempts, @dedup_key, @kind, @time_limit_ms, @headers, @group_key, @needs;
IF @start_within_ms IS NOT NULL
    EXEC [$(schema)].[latest_start] NULL, @start_within_ms, @now;
IF @group_key IS NOT NULL AND @delivery = 'at_most_once'
    THROW 58003,
        N'a queue with delivery at_most_once cannot have groups or batches, because its claims delete the jobs', 1;

BEGIN TRANSACTION;
-- Programs may set their schedules at each start, so an unchanged schedule adds no entry. UNION treats NULLs as equal,
-- and also binary values that differ only in trailing zeros, hence DATALENGTH.
IF (SELECT COUNT(*)
    FROM (SELECT cron, time_zone, make_up, jitter_ms, priority, max_attempts, time_limit_ms, kind, dedup_key,
              correlation_id, headers, group_key, needs, start_within_ms, payload,
              DATALENGTH(payload) AS length, payload_utf16
          FROM [$(schema)].[schedules] WITH (ROWLOCK) WHERE queue_id = @queue_id AND name = @name
          UNION
          SELECT @cron, @time_zone, @make_up, @jitter_ms, ISNULL(@priority, 0), @max_attempts, @time_limit_ms,
              @kind, @dedup_key, @correlation_id, @headers, @group_key, @needs, @start_within_ms,
              ISNULL(@payload, CAST(@text AS varbinary(max))), DATALENGTH(ISNULL(@payload, CAST(@text AS varbinary(max)))),
              CAST(CASE WHEN @text IS NULL THEN 0 ELSE 1 END AS bit)) AS s) > 1
    OR NOT EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (ROWLOCK) WHERE queue_id = @queue_id AND name = @name)
BEGIN
    SET @members = CONCAT(N',"schedule":"', STRING_ESCAPE(@name, 'json'), N'","cron":"', STRING_ESCAPE(@cron, 'json'),
        N'","time_zone":"', STRING_ESCAPE(@time_zone, 'json'), N'"');
    EXEC [$(schema)].[note_action] @audit_id, 'set_schedule', @queue, @own OUTPUT, @members;
END;
-- HOLDLOCK, so that sessions that set the same new schedule wait here instead of failing with a duplicate key.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (ROWLOCK, UPDLOCK, HOLDLOCK)
    WHERE queue_id = @queue_id AND name = @name)
BEGIN
    INSERT [$(schema)].[schedules]
        (queue_id, name, cron, time_zone, make_up, jitter_ms, priority, max_attempts, time_limit_ms, kind, dedup_key,
         correlation_id, headers, group_key, needs, start_within_ms, payload_utf16, payload, next_at, look_at, looked_at)
    VALUES
        (@queue_id, @name, @cron, @time_zone, @make_up, @jitter_ms, ISNULL(@priority, 0), @max_attempts, @time_limit_ms,
         @kind, @dedup_key, @correlation_id, @headers, @group_key, @needs, @start_within_ms,
         CASE WHEN @text IS NULL THEN 0 ELSE 1 END,
         ISNULL(@payload, CAST(@text AS varbinary(max))), @now, @now, @now);
    SET @created = 1;
END;
ELSE
    UPDATE [$(schema)].[schedules] WITH (ROWLOCK)
    SET next_at = CASE WHEN cron = @cron AND time_zone = @time_zone THEN next_at ELSE @now END, look_at = @now,
        looked_at = CASE WHEN cron = @cron AND time_zone = @time_zone THEN looked_at ELSE @now END,
        cron = @cron, time_zone = @time_zone, make_up = @make_up, jitter_ms = @jitter_ms,
        priority = ISNULL(@priority, 0), max_attempts = @max_attempts, time_limit_ms = @time_limit_ms, kind = @kind,
        dedup_key = @dedup_key, correlation_id = @correlation_id, headers = @headers, group_key = @group_key,
        needs = @needs, start_within_ms = @start_within_ms, payload_utf16 = CASE WHEN @text IS NULL THEN 0 ELSE 1 END,
        payload = ISNULL(@payload, CAST(@text AS varbinary(max))), revision = revision + 1
    WHERE queue_id = @queue_id AND name = @name;
-- As in enqueue: the queue may have been deleted.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
    WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id
        FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
COMMIT TRANSACTION;

SELECT @created AS created;
GO
