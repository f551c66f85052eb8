-- For claims of a queue with age_after_ms: a ready job counts as one priority higher for each age_after_ms that it has
-- waited. Of two jobs, the one with the smaller due_at + priority * age_after_ms therefore comes first, whenever they
-- are compared, and no row is changed while it waits. Reads the first @max ready jobs of each priority, by their ids,
-- and claims the first @max of all of them. Jobs that another session has locked since then are left out. Result: as
-- claim.
CREATE OR ALTER PROCEDURE [$(schema)].[claim_aged]
    @queue_id     int,
    @worker_id    uniqueidentifier,
    @max          int,
    @max_attempts int,
    @max_payload_bytes bigint,
    @age_after_ms bigint
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @at_least smallint = -32768, @priority smallint, @mark bigint,
    @gap_from bigint, @below_to bigint, @below_from bigint, @highest bigint, @lowered bigint,
    @first bigint;
-- IGNORE_DUP_KEY: a job whose priority changes during the read may be found twice.
DECLARE @ready TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON),
    priority smallint NOT NULL, place bigint NOT NULL);
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

WHILE 1 = 1
BEGIN
    EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
         @below_to OUTPUT, @below_from OUTPUT, @highest OUTPUT, @lowered OUTPUT;
    IF @priority IS NULL
        BREAK;
    INSERT @ready (job_id, priority, place)
    SELECT TOP (@max) job_id, priority, DATEDIFF_BIG(MILLISECOND, '20000101', due_at) + priority * @age_after_ms
    FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority AND job_id >= @mark
    ORDER BY job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    -- As in claim. All that is ready in this priority was read from its first job on.
    SET @first = (SELECT MIN(job_id) FROM @ready WHERE priority = @priority);
    IF @lowered IS NULL AND @@TRANCOUNT = 0
        INSERT [$(schema)].[marks] (queue_id, priority, job_id, lowered)
        SELECT @queue_id, @priority, 0, 0
        WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (UPDLOCK, HOLDLOCK)
            WHERE queue_id = @queue_id AND priority = @priority);
    ELSE IF @first - 64 > @mark AND @@TRANCOUNT = 0
        UPDATE [$(schema)].[marks] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        SET job_id = @first - 32
        WHERE queue_id = @queue_id AND priority = @priority AND lowered = @lowered AND job_id < @first - 64
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @priority = 32767
        BREAK;
    SET @at_least = @priority + 1;
END;
INSERT @jobs (job_id) SELECT TOP (@max) job_id FROM @ready ORDER BY place, job_id;

UPDATE j
SET state = 2, fence = j.fence % 2147483647 + 1, attempt = j.attempt + 1, worker_id = @worker_id, claimed_at = @now
FROM @jobs AS c
INNER LOOP JOIN [$(schema)].[jobs] AS j
    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
    ON j.job_id = c.job_id
WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT j.job_id, j.fence, j.attempt, COALESCE(j.max_attempts, @max_attempts) AS max_attempts, j.priority,
       DATEDIFF_BIG(MILLISECOND, j.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, j.enqueued_at, @now) AS age_ms,
       j.kind, CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload_utf16 END AS payload_utf16,
       CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload
           ELSE CAST(DATALENGTH(j.payload) AS binary(8)) END AS payload, j.details
FROM @jobs AS c
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = c.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.claimed_at = @now
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
