-- For claims of a queue with age_after_ms: a ready job counts as one priority higher for each age_after_ms that it has
-- waited. Of two jobs of different priorities, the one with the smaller due_at + priority * age_after_ms therefore comes
-- first, whenever they are compared, and no row is changed while it waits. Reads the first @max ready jobs of each
-- priority, by their ids, and claims the first @max of all of them. Result: as claim, with the rows in order.
--
-- Only one session of a queue at a time claims here (an application lock until the commit), because sessions that read
-- at the same time would choose the same jobs. After half a second of waiting, the call claims nothing. A job that
-- another session has locked is left out.
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
    @first bigint, @granted int,
    @resource nvarchar(255) = CONCAT(N'$(schema).ages.', @queue_id);
DECLARE @ready TABLE (priority smallint NOT NULL, job_id bigint NOT NULL, place bigint NOT NULL,
    PRIMARY KEY CLUSTERED (priority, job_id));
DECLARE @jobs TABLE (place int NOT NULL IDENTITY (1, 1) PRIMARY KEY CLUSTERED, job_id bigint NOT NULL);
DECLARE @marks TABLE (priority smallint NOT NULL PRIMARY KEY CLUSTERED, first_id bigint NULL, lowered bigint NULL);

BEGIN TRANSACTION;
EXEC @granted = sys.sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = N'Transaction',
    @LockTimeout = 500;
WHILE @granted >= 0
BEGIN
    EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
         @below_to OUTPUT, @below_from OUTPUT, @highest OUTPUT, @lowered OUTPUT;
    IF @priority IS NULL
        BREAK;
    INSERT @ready (priority, job_id, place)
    SELECT TOP (@max) priority, job_id, DATEDIFF_BIG(MILLISECOND, '20000101', due_at) + priority * @age_after_ms
    FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority AND job_id >= @mark
    ORDER BY job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @first = (SELECT MIN(job_id) FROM @ready WHERE priority = @priority);
    IF @lowered IS NULL OR @first - 64 > @mark
        INSERT @marks (priority, first_id, lowered) VALUES (@priority, @first, @lowered);
    IF @priority = 32767
        BREAK;
    SET @at_least = @priority + 1;
END;
-- GROUP BY: a job whose priority was changed during the read may have been found twice.
INSERT @jobs (job_id)
SELECT TOP (@max) r.job_id FROM @ready AS r GROUP BY r.job_id ORDER BY MIN(r.place), r.job_id;

UPDATE j
SET state = 2, fence = j.fence % 2147483647 + 1, attempt = j.attempt + 1, worker_id = @worker_id, claimed_at = @now
FROM @jobs AS c
INNER LOOP JOIN [$(schema)].[jobs] AS j
    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
    ON j.job_id = c.job_id
WHERE j.queue_id = @queue_id AND j.state = 0 AND j.alone = 0
OPTION (MAXDOP 1, KEEPFIXED PLAN);

COMMIT TRANSACTION;

-- As in claim. Each priority was read from its first ready job on.
IF @@TRANCOUNT = 0 AND EXISTS (SELECT 1 FROM @marks)
BEGIN
    UPDATE m
    SET job_id = c.first_id - 32
    FROM @marks AS c
    INNER LOOP JOIN [$(schema)].[marks] AS m
        WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (marks_pk)) ON m.priority = c.priority
    WHERE m.queue_id = @queue_id AND m.lowered = c.lowered AND m.job_id < c.first_id - 64
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    INSERT [$(schema)].[marks] (queue_id, priority, job_id, lowered)
    SELECT @queue_id, c.priority, 0, 0
    FROM @marks AS c
    WHERE c.lowered IS NULL
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (UPDLOCK, HOLDLOCK)
            WHERE queue_id = @queue_id AND priority = c.priority);
END;

SELECT j.job_id, j.fence, j.attempt, COALESCE(j.max_attempts, @max_attempts) AS max_attempts, j.priority,
       DATEDIFF_BIG(MILLISECOND, j.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, j.enqueued_at, @now) AS age_ms,
       j.kind, CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload_utf16 END AS payload_utf16,
       CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload
           ELSE CAST(DATALENGTH(j.payload) AS binary(8)) END AS payload, j.details
FROM @jobs AS c
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = c.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.claimed_at = @now
ORDER BY c.place
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
