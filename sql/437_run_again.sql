-- Runs done jobs again: enqueues a new job for one done or archived job (@job_id) or for up to 1,000 (@jobs), with the
-- same payload, kind, priority, limits, needs, group, correlation id and headers, and with the header
-- readpast-run-again, the id of the done job. The new job belongs to no batch, and may start at any time. Archived jobs
-- have no max_attempts, so the queue's applies to theirs. If an unfinished job has the deduplication key, none is added.
-- Waits for locked jobs. Result: job_id (of the done job), new_id, duplicate (1: new_id is the unfinished job), without a
-- row for jobs that are not done. A second call runs the jobs once more.
CREATE OR ALTER PROCEDURE [$(schema)].[run_again]
    @queue    nvarchar(129),
    @job_id   bigint = NULL,
    @jobs     [$(schema)].[id_list] READONLY,
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT ON;
-- adopt: refuse
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @queue_id int, @id bigint, @found bit, @payload varbinary(max), @text nvarchar(max), @payload_utf16 bit,
    @priority smallint, @max_attempts int, @dedup_key nvarchar(256), @correlation_id uniqueidentifier,
    @kind varchar(64), @time_limit_ms int, @headers nvarchar(1500), @group_key nvarchar(128), @needs varchar(1000),
    @new_id bigint, @duplicate bit, @first_id bigint, @grouped bit = 0,
    @count int, @own bigint;
DECLARE @asked [$(schema)].[id_list];
DECLARE @again TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, new_id bigint NOT NULL, duplicate bit NOT NULL);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF (SELECT COUNT(*) FROM @jobs) > 1000
    THROW 58003, N'jobs must have at most 1000 rows', 1;
IF @job_id IS NULL
    INSERT @asked (job_id) SELECT job_id FROM @jobs;
ELSE
    INSERT @asked (job_id) VALUES (@job_id);

SET @id = (SELECT MIN(job_id) FROM @asked);
BEGIN TRANSACTION;
EXEC [$(schema)].[note_action] @audit_id, 'run_again', @queue, @own OUTPUT, @jobs = @asked;
WHILE @id IS NOT NULL
BEGIN
    SET @found = 0;
    SELECT @found = 1, @payload = j.payload, @payload_utf16 = j.payload_utf16, @priority = j.priority,
        @max_attempts = j.max_attempts, @dedup_key = j.dedup_key, @correlation_id = j.correlation_id, @kind = j.kind,
        @time_limit_ms = j.time_limit_ms, @headers = j.headers, @group_key = j.group_key, @needs = j.needs
    FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    WHERE j.job_id = @id AND j.queue_id = @queue_id AND j.state = 3
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @found = 0
        SELECT @found = 1, @payload = a.payload, @payload_utf16 = a.payload_utf16, @priority = a.priority,
            @max_attempts = NULL, @dedup_key = a.dedup_key, @correlation_id = a.correlation_id, @kind = a.kind,
            @time_limit_ms = a.time_limit_ms, @headers = a.headers, @group_key = a.group_key, @needs = a.needs
        FROM [$(schema)].[archive] AS a WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (archive_pk (job_id)))
        WHERE a.job_id = @id AND a.queue_id = @queue_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @found = 1
    BEGIN
        SET @text = CASE WHEN @payload_utf16 = 1 THEN CAST(@payload AS nvarchar(max)) END;
        IF @payload_utf16 = 1
            SET @payload = NULL;
        EXEC [$(schema)].[enqueue] @queue = @queue, @payload = @payload, @text = @text, @priority = @priority,
            @max_attempts = @max_attempts, @dedup_key = @dedup_key, @correlation_id = @correlation_id, @kind = @kind,
            @time_limit_ms = @time_limit_ms, @group_key = @group_key, @needs = @needs,
            @force = 1, @job_id = @new_id OUTPUT, @duplicate = @duplicate OUTPUT;
        -- enqueue refuses such names. The header of an earlier time, which is the first one, is replaced.
        IF @headers LIKE N'{"readpast-run-again":"%'
            SET @headers = SUBSTRING(@headers, CHARINDEX(N'"', @headers, 24) + 1, 1500);
        ELSE IF EXISTS (SELECT 1 FROM OPENJSON(@headers))
            SET @headers = N',' + SUBSTRING(@headers, 2, 1500);
        ELSE
            SET @headers = N'}';
        IF @duplicate = 0
            UPDATE [$(schema)].[jobs] WITH (ROWLOCK)
            SET plain = NULL, headers = CONCAT(N'{"readpast-run-again":"', @id, N'"', @headers)
            WHERE job_id = @new_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        INSERT @again (job_id, new_id, duplicate) VALUES (@id, @new_id, @duplicate);
        IF @duplicate = 0 AND (@first_id IS NULL OR @new_id < @first_id)
            SET @first_id = @new_id;
        IF @group_key IS NOT NULL
            SET @grouped = 1;
    END;
    SET @id = (SELECT MIN(job_id) FROM @asked WHERE job_id > @id);
END;
SET @count = (SELECT COUNT(*) FROM @again WHERE duplicate = 0);
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own, @count;
COMMIT TRANSACTION;

-- In a transaction, enqueue has left these to its caller.
IF @first_id IS NOT NULL
    EXEC [$(schema)].[lower_marks] @queue_id, @first_id;
IF @grouped = 1
    EXEC [$(schema)].[advance_groups] @queue_id;

SELECT job_id, new_id, duplicate FROM @again;
GO
