-- Enqueues the job of a schedule now, even if the schedule is paused. The schedule's times do not change. Result:
-- job_id, duplicate (1: an unfinished job has the same key, and none was added).
CREATE OR ALTER PROCEDURE [$(schema)].[run_schedule_now]
    @queue    nvarchar(129),
    @name     nvarchar(129),
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @payload varbinary(max), @text nvarchar(max),
    @priority smallint, @max_attempts int, @time_limit_ms int, @kind varchar(64), @dedup_key nvarchar(256),
    @correlation_id uniqueidentifier, @headers nvarchar(1300), @group_key nvarchar(128), @needs varchar(1000),
    @start_within_ms bigint, @job_id bigint, @duplicate bit, @message nvarchar(2048), @own bigint, @count int,
    @members nvarchar(1000) = CONCAT(N',"schedule":"', STRING_ESCAPE(@name, 'json'), N'"');

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT @payload = CASE WHEN payload_utf16 = 0 THEN payload END,
    @text = CASE WHEN payload_utf16 = 1 THEN CAST(payload AS nvarchar(max)) END,
    @priority = priority, @max_attempts = max_attempts, @time_limit_ms = time_limit_ms, @kind = kind,
    @correlation_id = correlation_id, @headers = headers, @group_key = group_key, @needs = needs,
    @start_within_ms = start_within_ms,
    @dedup_key = ISNULL(dedup_key, CONCAT(name, N'@', CONVERT(varchar(23), @now, 126), N'Z'))
FROM [$(schema)].[schedules]
WHERE queue_id = @queue_id AND name = @name;
IF @@ROWCOUNT = 0
BEGIN
    SET @message = CONCAT(N'there is no schedule ''', @name, N''' in queue ''', @queue,
        N'''; set it with [$(schema)].[set_schedule]');
    EXEC [$(schema)].[raise] 58003, @message;
END;

EXEC [$(schema)].[note_action] @audit_id, 'run_schedule', @queue, @own OUTPUT, @members;
EXEC [$(schema)].[enqueue] @queue = @queue, @payload = @payload, @text = @text, @priority = @priority,
    @max_attempts = @max_attempts, @dedup_key = @dedup_key, @correlation_id = @correlation_id, @kind = @kind,
    @time_limit_ms = @time_limit_ms, @headers = @headers, @group_key = @group_key, @needs = @needs,
    @start_within_ms = @start_within_ms, @force = 1,
    @job_id = @job_id OUTPUT, @duplicate = @duplicate OUTPUT;
SET @count = 1 - @duplicate;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @count;

SELECT @job_id AS job_id, @duplicate AS duplicate;
GO
