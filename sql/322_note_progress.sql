-- Stores reports of running jobs that this worker holds under this fence: checkpoints for the next attempt, and
-- progress. No result. First locks the jobs' rows until the end, in the same order as finish, so that only the holder
-- of a job writes its progress. UPDLOCK, because an S lock would be released at once.
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
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NOT NULL);

IF EXISTS (SELECT 1 FROM @notes WHERE fraction < 0 OR fraction > 1)
    THROW 58003, N'fraction must be 0 to 1', 1;
-- This limits the size of the results of the procedure checkpoints.
SET @job_id = (SELECT TOP (1) job_id FROM @notes WHERE DATALENGTH([checkpoint]) > 65535 ORDER BY job_id);
IF @job_id IS NOT NULL
BEGIN
    SET @message = CONCAT(N'the checkpoint of job ', @job_id, N' must have at most 65535 bytes');
    THROW 58003, @message, 1;
END;

BEGIN TRANSACTION;
INSERT @held (job_id, queue_id)
SELECT j.job_id, j.queue_id
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

UPDATE p
SET fence = n.fence, noted_at = @now, fraction = ISNULL(n.fraction, p.fraction), text = ISNULL(n.text, p.text),
    [checkpoint] = ISNULL(n.[checkpoint], p.[checkpoint])
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
INNER LOOP JOIN [$(schema)].[progress] AS p WITH (ROWLOCK, FORCESEEK, INDEX (progress_pk)) ON p.job_id = h.job_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);

INSERT [$(schema)].[progress] (job_id, queue_id, fence, noted_at, fraction, text, [checkpoint])
SELECT n.job_id, h.queue_id, n.fence, @now, n.fraction, n.text, n.[checkpoint]
FROM @held AS h
INNER LOOP JOIN @notes AS n ON n.job_id = h.job_id
WHERE NOT EXISTS (SELECT 1
    FROM [$(schema)].[progress] AS p WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (progress_pk (job_id)))
                  WHERE p.job_id = h.job_id)
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
