-- Makes scheduled jobs ready whose time has come, up to @max. Any number of sessions may run it at once: each skips what another has locked.
-- A job of a group that has not the turn waits for it then. Also does what advance_groups could not do in producers' transactions.
-- With @worker_id, it does so only for the worker that has the duties of the queue (see duties), and keeps them for three more seconds.
-- Result: promoted, elected (the worker has the duties; 1 without @worker_id), schedules_due (there is something to do for due_schedules).
CREATE OR ALTER PROCEDURE [$(schema)].[promote]
    @queue     nvarchar(129),
    @max       int              = 1000,
    @worker_id uniqueidentifier = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3), @elected bit, @queue_id int, @first_ready bigint, @promoted int, @schedules_due bit = 0,
    @message nvarchar(2048);
DECLARE @due TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NOT NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;

EXEC [$(schema)].[tend] @queue_id, @worker_id, @now OUTPUT, @elected OUTPUT;
IF @worker_id IS NOT NULL AND @elected = 0
BEGIN
    SELECT 0 AS promoted, CAST(0 AS bit) AS elected, CAST(0 AS bit) AS schedules_due;
    RETURN;
END;

BEGIN TRANSACTION;
WITH due_jobs AS
(
    SELECT TOP (@max) job_id, state, group_key, in_turn
    FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at <= @now
    ORDER BY due_at
)
UPDATE due_jobs
SET state = CASE WHEN group_key IS NULL OR in_turn = 1 THEN 0 ELSE 6 END
OUTPUT inserted.job_id, inserted.state, inserted.group_key INTO @due (job_id, state, group_key)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @promoted = @@ROWCOUNT;
IF @promoted > 0
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended)
    SELECT @queue_id, d.group_key, 0 FROM @due AS d WHERE d.state = 6 GROUP BY d.group_key;
COMMIT TRANSACTION;

IF @promoted > 0
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @due WHERE state = 0);
    IF @first_ready IS NOT NULL
        EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;
END;
EXEC [$(schema)].[advance_groups] @queue_id, 0;
EXEC [$(schema)].[sweep] @queue_id;

IF EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (schedules_due))
           WHERE queue_id = @queue_id AND paused = 0
               AND (look_at <= @now OR looked_at > DATEADD(MINUTE, 1, @now)))  -- the latter: see due_schedules
    SET @schedules_due = 1;

SELECT @promoted AS promoted, CAST(1 AS bit) AS elected, @schedules_due AS schedules_due;
GO
