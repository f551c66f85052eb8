-- The errors of the jobs of a queue that failed, for a program that puts together those that are alike.
-- @state: dead: of the newest @max of them, the newest first. scheduled: of the @max jobs that are due first, those that have an error: they wait for
-- another attempt, or were put off with a reason (a snooze).
-- Reads without locks (NOLOCK), so that it neither waits nor holds anybody up; a seek, and a row for each job.
-- Result: job_id, kind, finished_at (when its last run ended), error (its first 400 characters). Later versions add columns at the end.
CREATE OR ALTER PROCEDURE [$(schema)].[list_errors]
    @queue nvarchar(129),
    @state varchar(32) = 'dead',
    @max   int         = 10000
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK) WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;
IF @state IS NULL OR @state NOT IN ('dead', 'scheduled')
BEGIN
    SET @message = CONCAT(N'state is ''', @state, N'''; it must be dead or scheduled');
    THROW 58003, @message, 1;
END;
IF @max IS NULL OR @max < 1 OR @max > 100000
    THROW 58003, N'max must be 1 to 100000', 1;

-- Most collations count a character beyond the first 65,536 as two: its first half (0xD800 to 0xDBFF, the second byte first) must not be the end.
IF @state = 'dead'
    SELECT TOP (@max) job_id, kind, ISNULL(finished_at, enqueued_at) AS finished_at,
           SUBSTRING(error, 1, CASE WHEN SUBSTRING(CAST(error AS varbinary(8000)), 800, 1) BETWEEN 0xD8 AND 0xDB THEN 399 ELSE 400 END) AS error
    FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_finished (queue_id, state)))
    WHERE queue_id = @queue_id AND state = 4 AND ended = 1
    ORDER BY j.finished_at DESC, j.job_id DESC
    OPTION (MAXDOP 1);
ELSE
    SELECT job_id, kind, ISNULL(finished_at, enqueued_at) AS finished_at,
           SUBSTRING(error, 1, CASE WHEN SUBSTRING(CAST(error AS varbinary(8000)), 800, 1) BETWEEN 0xD8 AND 0xDB THEN 399 ELSE 400 END) AS error
    FROM (SELECT TOP (@max) job_id, kind, enqueued_at, finished_at, error
          FROM [$(schema)].[jobs] WITH (NOLOCK, FORCESEEK (jobs_scheduled (queue_id)))
          WHERE queue_id = @queue_id AND state = 1
          ORDER BY due_at, job_id) AS due
    WHERE error IS NOT NULL
    OPTION (MAXDOP 1);
GO
