-- For claims of a queue with delivery at_most_once. Deletes up to @room ready jobs of a priority, from @from_id on
-- (lifo: below @end_id, the newest first). Result: as claim. @is_over is 1 if jobs were deleted or the first payload
-- was withheld. The claim must then end, because a later error would lose the deleted jobs. A deleted job that does not
-- fit into the worker's memory would be lost, so jobs with short enough payloads are found and locked first. The locks
-- are not S locks: these would find jobs that another claim is deleting, and no jobs behind them. Expired jobs are left to
-- cancel_expired, which keeps them.
CREATE OR ALTER PROCEDURE [$(schema)].[claim_once]
    @queue_id     int,
    @is_lifo      bit,
    @priority     smallint,
    @from_id      bigint,
    @end_id       bigint,
    @room         int,
    @max_attempts int,
    @max_payload_bytes bigint,
    @is_over      bit OUTPUT
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @found int, @long_id bigint;
DECLARE @next TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, is_long bit NOT NULL);

SET @is_over = 0;
BEGIN TRANSACTION;
IF @is_lifo = 0
    INSERT @next (job_id, is_long)
    SELECT TOP (@room) job_id, CASE WHEN DATALENGTH(payload) > @max_payload_bytes THEN 1 ELSE 0 END
    FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        AND (start_by > @now OR start_by IS NULL)
    ORDER BY job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE
    INSERT @next (job_id, is_long)
    SELECT TOP (@room) job_id, CASE WHEN DATALENGTH(payload) > @max_payload_bytes THEN 1 ELSE 0 END
    FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
    WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
        AND job_id < @end_id AND (start_by > @now OR start_by IS NULL)
    ORDER BY job_id DESC
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @found = @@ROWCOUNT;
-- Finds the first job whose payload is too long. The claim ends before it.
SET @long_id = (SELECT CASE @is_lifo WHEN 1 THEN MAX(job_id) ELSE MIN(job_id) END FROM @next WHERE is_long = 1);
DELETE @next WHERE (@is_lifo = 0 AND job_id >= @long_id) OR (@is_lifo = 1 AND job_id <= @long_id);
IF @@ROWCOUNT < @found
BEGIN
    DELETE j
    OUTPUT deleted.job_id, 0 AS fence, deleted.attempt + 1 AS attempt,
           COALESCE(deleted.max_attempts, @max_attempts) AS max_attempts, deleted.priority,
           DATEDIFF_BIG(MILLISECOND, deleted.due_at, @now) AS waited_ms,
           DATEDIFF_BIG(MILLISECOND, deleted.enqueued_at, @now) AS age_ms, deleted.kind, deleted.payload_utf16,
           deleted.payload, deleted.details
    FROM @next AS n
    INNER LOOP JOIN [$(schema)].[jobs] AS j
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = n.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @is_over = 1;
END;
ELSE IF @found > 0
BEGIN
    SELECT job_id, 0 AS fence, attempt + 1 AS attempt, COALESCE(max_attempts, @max_attempts) AS max_attempts, priority,
           DATEDIFF_BIG(MILLISECOND, due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, enqueued_at, @now) AS age_ms,
           kind, CAST(NULL AS bit) AS payload_utf16, CAST(DATALENGTH(payload) AS binary(8)) AS payload,
           CAST(NULL AS nvarchar(4000)) AS details
    FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    WHERE job_id = @long_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @is_over = 1;
END;
COMMIT TRANSACTION;
GO
