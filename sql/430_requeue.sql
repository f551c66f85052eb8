-- Makes dead jobs ready again: one (@job_id) or up to @max, the oldest first. The attempt starts at 0 again, the fence goes on growing.
-- A job whose de-duplication key belongs to an unfinished job by now stays dead; of several dead jobs with one key, the newest comes back.
-- Result: requeued.
CREATE OR ALTER PROCEDURE [$(schema)].[requeue]
    @queue  nvarchar(128),
    @job_id bigint = NULL,
    @max    int    = 1000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;

WITH dead_jobs AS
(
    SELECT TOP (@max) j.state, j.attempt, j.alone, j.due_at, j.finished_at
    FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, INDEX (jobs_finished))
    WHERE j.queue_id = @queue_id AND j.state = 4 AND j.state >= 3 AND (@job_id IS NULL OR j.job_id = @job_id)
        AND (j.dedup_key IS NULL
             OR NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS u WITH (INDEX (jobs_dedup))
                            WHERE u.queue_id = @queue_id AND u.dedup_key = j.dedup_key AND u.dedup_key IS NOT NULL AND u.state < 3)
                AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS n WITH (INDEX (jobs_finished))
                                WHERE n.queue_id = @queue_id AND n.state = 4 AND n.state >= 3 AND n.dedup_key = j.dedup_key
                                    AND n.job_id > j.job_id))
    ORDER BY j.finished_at
)
UPDATE dead_jobs SET state = 0, attempt = 0, alone = 0, due_at = @now
OPTION (MAXDOP 1);

SELECT CAST(@@ROWCOUNT AS int) AS requeued;
GO
