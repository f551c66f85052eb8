-- Stores reports of running jobs that this worker holds under this fence: checkpoints for the next attempt, progress,
-- and the end of the log. The log of a running job is replaced by the next report. That of an attempt that has ended
-- (keeps_log), or whose worker was lost, goes to logs. No result. First locks the jobs' rows until the end, in the same
-- order as finish, so that only the holder of a job writes its progress. UPDLOCK, because an S lock would be released
-- at once.
CREATE OR ALTER PROCEDURE [$(schema)].[note_progress]
    @worker_id uniqueidentifier,
    @notes     [$(schema)].[progress_list] READONLY
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @job_id bigint, @last_id bigint = -9223372036854775808,
    @text nvarchar(max), @message nvarchar(2048),
    -- A pattern of half a surrogate pair (mend_text).
    @first nvarchar(3) = CONCAT(CAST(0x00D8 AS nvarchar(1)), N'-', CAST(0xFFDB AS nvarchar(1))),
    @second nvarchar(3) = CONCAT(CAST(0x00DC AS nvarchar(1)), N'-', CAST(0xFFDF AS nvarchar(1)));
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NOT NULL, attempt int NOT NULL);
DECLARE @logged TABLE (job_id bigint NOT NULL, fence int NOT NULL, PRIMARY KEY CLUSTERED (job_id, fence));

IF EXISTS (SELECT 1 FROM @notes WHERE fraction < 0 OR fraction > 1)
    THROW 58003, N'fraction must be 0 to 1', 1;
-- This limits the size of the results of the procedure checkpoints.
SET @job_id = (SELECT TOP (1) job_id FROM @notes WHERE DATALENGTH([checkpoint]) > 65535 ORDER BY job_id);
IF @job_id IS NOT NULL
BEGIN
    SET @message = CONCAT(N'the checkpoint of job ', @job_id, N' must have at most 65535 bytes');
    THROW 58003, @message, 1;
END;
SET @job_id = (SELECT TOP (1) job_id FROM @notes
               WHERE DATALENGTH(log) > 131072 OR (log IS NOT NULL AND ISNULL(log_end, -1) < 0) ORDER BY job_id);
IF @job_id IS NOT NULL
BEGIN
    SET @message = CONCAT(N'the log of job ', @job_id, N' must have at most 65536 characters and a log_end');
    THROW 58003, @message, 1;
END;

BEGIN TRANSACTION;
INSERT @held (job_id, queue_id, attempt)
SELECT j.job_id, j.queue_id, j.attempt
FROM @notes AS n
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = n.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.fence = n.fence
ORDER BY n.job_id  -- keeps the order of the join
OPTION (MAXDOP 1, KEEPFIXED PLAN);

UPDATE j
SET checkpointed = 1, plain = NULL
FROM @notes AS n
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = n.job_id
WHERE n.[checkpoint] IS NOT NULL AND j.checkpointed IS NULL AND j.state = 2 AND j.worker_id = @worker_id
    AND j.fence = n.fence
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- The log of an earlier attempt whose worker was lost.
INSERT [$(schema)].[logs] WITH (ROWLOCK) (job_id, fence, queue_id, attempt, noted_at, log_end, log)
OUTPUT inserted.job_id, inserted.fence INTO @logged (job_id, fence)
SELECT p.job_id, p.fence, p.queue_id,
       ISNULL((SELECT a.attempt FROM [$(schema)].[attempts] AS a
                   WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (attempts_pk (job_id, fence)))
               WHERE a.job_id = p.job_id AND a.fence = p.fence), h.attempt - 1), p.noted_at, p.log_end, p.log
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id)))
    ON p.job_id = h.job_id
WHERE p.fence < n.fence AND p.log IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[logs] AS l
                        WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (logs_pk (job_id, fence)))
                    WHERE l.job_id = p.job_id AND l.fence = p.fence)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- Only where it must: each write of a checkpoint or a log goes to the transaction log in full.
UPDATE p
SET [checkpoint] = n.[checkpoint]
FROM @held AS h
INNER JOIN @notes AS n ON n.job_id = h.job_id
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk)) ON p.job_id = h.job_id
WHERE n.[checkpoint] IS NOT NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- Before the fence changes.
UPDATE p
SET log_end = CASE WHEN n.keeps_log = 1 THEN NULL ELSE n.log_end END,
    log = CASE WHEN n.keeps_log = 1 THEN NULL ELSE n.log END
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk)) ON p.job_id = h.job_id
WHERE n.log IS NOT NULL OR (p.fence < n.fence AND p.log IS NOT NULL)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

UPDATE p
SET fence = n.fence, noted_at = @now, fraction = ISNULL(n.fraction, p.fraction), text = ISNULL(n.text, p.text)
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk)) ON p.job_id = h.job_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

INSERT [$(schema)].[progress] (job_id, queue_id, fence, noted_at, fraction, text, [checkpoint], log_end, log)
SELECT n.job_id, h.queue_id, n.fence, @now, n.fraction, n.text, n.[checkpoint],
       CASE WHEN n.keeps_log = 1 THEN NULL ELSE n.log_end END, CASE WHEN n.keeps_log = 1 THEN NULL ELSE n.log END
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
WHERE (n.fraction IS NOT NULL OR n.text IS NOT NULL OR n.[checkpoint] IS NOT NULL OR ISNULL(n.keeps_log, 0) = 0)
    AND NOT EXISTS (SELECT 1
    FROM [$(schema)].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id)))
                    WHERE p.job_id = h.job_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF EXISTS (SELECT 1 FROM @notes WHERE keeps_log = 1 AND log IS NOT NULL)
BEGIN
    -- A repeated call finds its row.
    UPDATE l
    SET noted_at = @now, log_end = n.log_end, log = n.log
    FROM @held AS h
    INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
    INNER LOOP JOIN [$(schema)].[logs] AS l WITH (ROWLOCK, FORCESEEK, INDEX (logs_pk))
        ON l.job_id = n.job_id AND l.fence = n.fence
    WHERE n.keeps_log = 1 AND n.log IS NOT NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    INSERT [$(schema)].[logs] WITH (ROWLOCK) (job_id, fence, queue_id, attempt, noted_at, log_end, log)
    OUTPUT inserted.job_id, inserted.fence INTO @logged (job_id, fence)
    SELECT n.job_id, n.fence, h.queue_id, h.attempt, @now, n.log_end, n.log
    FROM @held AS h
    INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
    WHERE n.keeps_log = 1 AND n.log IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[logs] AS l
                            WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (logs_pk (job_id, fence)))
                        WHERE l.job_id = n.job_id AND l.fence = n.fence)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END;
-- A job cannot have more logs than claims, and the fence counts claims.
IF EXISTS (SELECT 1 FROM @logged WHERE fence > 20)
    DELETE l
    FROM @logged AS g
    INNER LOOP JOIN [$(schema)].[logs] AS l WITH (ROWLOCK, FORCESEEK, INDEX (logs_pk)) ON l.job_id = g.job_id
    WHERE g.fence > 20
        AND 20 <= (SELECT COUNT(*)
            FROM [$(schema)].[logs] AS n WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (logs_pk (job_id, fence)))
                   WHERE n.job_id = l.job_id AND n.fence > l.fence)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- A program may have cut its text within a character.
WHILE 1 = 1
BEGIN
    SET @job_id = NULL;
    SELECT TOP (1) @job_id = h.job_id, @text = n.text
    FROM @held AS h
    INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
    WHERE h.job_id > @last_id
        AND (PATINDEX(CONCAT(N'%[', @first, N'][^', @second, N']%'),
            (n.text + N'.') COLLATE Latin1_General_100_BIN2) > 0
             OR PATINDEX(CONCAT(N'%[^', @first, N'][', @second, N']%'),
                 (N'.' + n.text) COLLATE Latin1_General_100_BIN2) > 0)
    ORDER BY h.job_id;
    IF @job_id IS NULL
        BREAK;
    SET @last_id = @job_id;
    EXEC [$(schema)].[mend_text] @text OUTPUT;
    UPDATE [$(schema)].[progress] WITH (ROWLOCK) SET text = @text WHERE job_id = @job_id;
END;
COMMIT TRANSACTION;
GO
