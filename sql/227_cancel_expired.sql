-- Cancels up to 1,000 jobs that may no longer start (start_by), the longest expired first, with an error that begins
-- with "expired". Claimed jobs are left to their workers, which start none of them late.
--
-- Jobs without a deduplication key, a group and a batch (@linked = 0) take no lock that another session could keep
-- waiting for, so claim cancels these. The others (@linked = 1) are for promote. Sessions skip each other's rows. Each row
-- is locked before its index entries, as by purge. An enqueue cancels the job that has its key (@job_id), if it has
-- neither a group nor a batch, and waits for its row.
CREATE OR ALTER PROCEDURE [$(schema)].[cancel_expired]
    @queue_id int,
    @linked   bit,
    @expired  int OUTPUT,    -- how many jobs were cancelled
    @job_id   bigint = NULL  -- only this job
AS
SET NOCOUNT, XACT_ABORT ON;
SET @expired = 0;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @granted bit, @grouped bit = 0;
-- IGNORE_DUP_KEY: a job that moves within an index during the read may be found twice.
DECLARE @late TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON));
DECLARE @members [$(schema)].[member_list];

IF @linked = 1
    SELECT TOP (1) @grouped = 1
    FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_start_by))
    WHERE queue_id = @queue_id AND start_by <= @now AND start_by IS NOT NULL AND ended = 0 AND state <> 2
        AND group_key IS NOT NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

BEGIN TRANSACTION;
IF @grouped = 1
    EXEC [$(schema)].[lock_groups] @queue_id, NULL, @granted OUTPUT;
IF @job_id IS NOT NULL
    INSERT @late (job_id)
    SELECT job_id FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, FORCESEEK, INDEX (jobs_pk)) WHERE job_id = @job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
ELSE
    INSERT @late (job_id)
    SELECT TOP (1000) j.job_id
    FROM [$(schema)].[jobs] AS f WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_start_by))
    INNER LOOP JOIN [$(schema)].[jobs] AS j
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = f.job_id
    WHERE f.queue_id = @queue_id AND f.start_by <= @now AND f.start_by IS NOT NULL AND f.ended = 0 AND f.state <> 2
        AND CASE WHEN f.dedup_key IS NULL AND f.group_key IS NULL AND f.batch_id IS NULL THEN 0 ELSE 1 END = @linked
        AND (f.group_key IS NULL OR @grouped = 1)
    ORDER BY f.start_by
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

UPDATE j
SET state = 5, ended = 1, held = CASE WHEN j.held = 1 THEN 0 ELSE j.held END, finished_at = @now,
    -- The error of a failed attempt is in the table attempts, too.
    error = CONCAT(N'expired: no attempt may start after ', CONVERT(nvarchar(23), j.start_by, 126), N'Z')
OUTPUT inserted.job_id, 5, inserted.in_turn, inserted.batch_id, inserted.group_key
INTO @members (job_id, state, in_turn, batch_id, group_key)
FROM @late AS l
INNER LOOP JOIN [$(schema)].[jobs] AS j
    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = l.job_id
WHERE j.queue_id = @queue_id AND j.start_by <= @now AND j.ended = 0 AND j.state <> 2
    AND (j.group_key IS NULL OR @grouped = 1) AND (j.batch_id IS NULL OR @linked = 1)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @expired = @@ROWCOUNT;
IF @linked = 1
    EXEC [$(schema)].[note_ends] @queue_id, @members;
EXEC [$(schema)].[note_edges] @members;
COMMIT TRANSACTION;
IF @grouped = 1
    EXEC [$(schema)].[advance_groups] @queue_id;
GO
