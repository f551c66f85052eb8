-- For claim and promote: cancels up to 1,000 jobs that may no longer start (start_by), the longest expired first, with
-- an error that begins with "expired". Claimed jobs are left to their workers, which start none of them late.
--
-- First reads the ids, and then locks the rows, each before its index entries, as purge does. Both steps skip locked
-- jobs. Jobs of groups need the operators' lock (lock_groups), which claims do not wait for, so only promote cancels
-- them.
CREATE OR ALTER PROCEDURE [$(schema)].[cancel_expired]
    @queue_id int,
    @grouped  bit,        -- 1: also jobs of groups
    @expired  int OUTPUT  -- how many jobs were cancelled
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @granted bit;
-- IGNORE_DUP_KEY: a job that moves within an index during the read may be found twice.
DECLARE @late TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED WITH (IGNORE_DUP_KEY = ON), grouped bit NOT NULL);
DECLARE @members [$(schema)].[member_list];

INSERT @late (job_id, grouped)
SELECT TOP (1000) j.job_id, CASE WHEN j.group_key IS NULL THEN 0 ELSE 1 END
FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_start_by))
WHERE j.queue_id = @queue_id AND j.start_by <= @now AND j.start_by IS NOT NULL AND j.ended = 0 AND j.state <> 2
    AND (j.group_key IS NULL OR @grouped = 1)
ORDER BY j.start_by
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @expired = 0;
IF @@ROWCOUNT = 0
    RETURN 0;

BEGIN TRANSACTION;
IF EXISTS (SELECT 1 FROM @late WHERE grouped = 1)
    EXEC [$(schema)].[lock_groups] @queue_id, NULL, @granted OUTPUT;
UPDATE j
SET state = 5, ended = 1, finished_at = @now,
    -- The error of a failed attempt is in the table attempts, too.
    error = CONCAT(N'expired: no attempt may start after ', CONVERT(nvarchar(23), j.start_by, 126), N'Z')
OUTPUT inserted.job_id, 5, inserted.in_turn, inserted.batch_id, inserted.group_key
INTO @members (job_id, state, in_turn, batch_id, group_key)
FROM @late AS l
INNER LOOP JOIN [$(schema)].[jobs] AS j
    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = l.job_id
WHERE j.queue_id = @queue_id AND j.start_by <= @now AND j.ended = 0 AND j.state <> 2
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @expired = @@ROWCOUNT;
EXEC [$(schema)].[note_ends] @queue_id, @members;
COMMIT TRANSACTION;
IF EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
    EXEC [$(schema)].[advance_groups] @queue_id;
GO
