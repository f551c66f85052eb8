-- Makes up to @max due jobs ready. Concurrent calls skip each other's locked rows. A job of a group that has no turn
-- then waits for its turn. Also calls advance_groups, which does nothing in producers' transactions, and sweep. With
-- @worker_id, works only if that worker is elected (see duties), and keeps it elected for three more seconds. Result:
-- promoted, elected (1 without @worker_id), schedules_due (1: due_schedules has rows), error (what failed in
-- advance_groups, cancel_expired or sweep and is retried by the next call; NULL: nothing), expired (how many jobs were
-- cancelled because they may no longer start).
CREATE OR ALTER PROCEDURE [$(schema)].[promote]
    @queue     nvarchar(129),
    @max       int              = 1000,
    @worker_id uniqueidentifier = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @elected bit, @queue_id int, @first_ready bigint, @promoted int,
    @schedules_due bit = 0, @error nvarchar(2048), @due_from datetime2(3), @first_due datetime2(3), @looks bit,
    @events_from bigint, @first_event bigint, @expired int = 0, @linked int = 0,
    @late bit = 0;
DECLARE @due TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NOT NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);

-- Before any job is cancelled because of its start_by.
IF ISNULL(CAST(SESSION_CONTEXT(N'readpast.home') AS nvarchar(150)), N'') <> CONCAT(DB_ID(), N' $(schema)')
    EXEC [$(schema)].[check_home];
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';

-- Calculates where the next call starts reading: at the first scheduled job, but at the latest two seconds ago, because
-- jobs that are committed soon may have been due since then. NOLOCK, because the start must not pass locked or
-- uncommitted jobs.
SELECT @due_from = due_from, @events_from = events_from,
       -- 1: the last check is more than a minute ago, or the clock was set back
       @looks = CASE WHEN looked_at > DATEADD(MINUTE, -1, @now) AND looked_at <= @now AND due_from <= @now THEN 0
           ELSE 1 END
FROM [$(schema)].[duties] WITH (NOLOCK) WHERE queue_id = @queue_id;
IF @looks = 1
BEGIN
    SET @due_from = '00010101';
    SET @first_event = (SELECT TOP (1) event_id FROM [$(schema)].[group_events] WITH (NOLOCK)
                        WHERE queue_id = @queue_id AND event_id < @events_from
                        ORDER BY event_id);
END;
SELECT @first_due = (SELECT TOP (1) due_at FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_scheduled))
                     WHERE queue_id = @queue_id AND state = 1 AND due_at >= @due_from
                     ORDER BY due_at)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @due_from = CASE WHEN @first_due < DATEADD(SECOND, -2, @now) THEN @first_due ELSE DATEADD(SECOND, -2, @now) END;

EXEC [$(schema)].[tend] @queue_id, @worker_id, @now OUTPUT, @elected OUTPUT, @due_from, @first_event, @looks;
IF @worker_id IS NOT NULL AND @elected = 0
BEGIN
    SELECT 0 AS promoted, CAST(0 AS bit) AS elected, CAST(0 AS bit) AS schedules_due, @error AS error,
        @expired AS expired;
    RETURN;
END;

BEGIN TRANSACTION;
WITH due_jobs AS
(
    SELECT TOP (@max) job_id, state, group_key, in_turn
    FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_scheduled))
    WHERE queue_id = @queue_id AND state = 1 AND due_at >= @due_from AND due_at <= @now
    ORDER BY due_at
)
UPDATE due_jobs
SET state = CASE WHEN group_key IS NULL OR in_turn = 1 THEN 0 ELSE 6 END
OUTPUT inserted.job_id, inserted.state, inserted.group_key INTO @due (job_id, state, group_key)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @promoted = @@ROWCOUNT;
IF @promoted > 0
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
    SELECT @queue_id, d.group_key, 0, MIN(d.job_id) FROM @due AS d WHERE d.state = 6 GROUP BY d.group_key;
COMMIT TRANSACTION;

IF @promoted > 0
BEGIN
    SET @first_ready = (SELECT MIN(job_id) FROM @due WHERE state = 0);
    IF @first_ready IS NOT NULL
        EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;
END;
-- A waiting job may have been locked when it could have got a turn. Its lock was then released without adding an event.
IF @looks = 1
BEGIN TRY
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
    SELECT TOP (1000) @queue_id, g.group_key, 0, g.from_id
    FROM [$(schema)].[groups] AS g WITH (NOLOCK)
    WHERE g.queue_id = @queue_id AND g.in_turn = 0
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK) WHERE queue_id = @queue_id AND fair = 1)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
END TRY
BEGIN CATCH
    -- 601: rows moved during a read without locks. The next check follows in a minute.
    IF @@TRANCOUNT > 0 OR ERROR_NUMBER() <> 601
        THROW;
END CATCH;
EXEC [$(schema)].[advance_groups] @queue_id, 0, @error OUTPUT;
EXEC [$(schema)].[advance_edges] 200, 1, @error OUTPUT;
-- A failed cancellation must not stop the rest. Waits at most a second for a lock: the next call finds what could not be
-- locked.
SELECT TOP (1) @late = 1
FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_start_by))
WHERE queue_id = @queue_id AND start_by <= @now AND start_by IS NOT NULL AND ended = 0
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] AS q WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
                    WHERE q.queue_id = @queue_id AND q.paused >= 4)  -- a copy that is not confirmed
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @late = 1 AND @@LOCK_TIMEOUT NOT BETWEEN 0 AND 1000
    SET LOCK_TIMEOUT 1000;
IF @late = 1 AND @@TRANCOUNT = 0
BEGIN TRY
    EXEC [$(schema)].[cancel_expired] @queue_id, 0, @expired OUTPUT;
    EXEC [$(schema)].[cancel_expired] @queue_id, 1, @linked OUTPUT;
    SET @expired = @expired + @linked;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222, 58013)
        SET @error = CONCAT(N'cancel_expired: ', ERROR_MESSAGE());
END CATCH;
-- A failed sweep must not stop schedules, and the next call retries it. Only an abandoned sweep is postponed.
BEGIN TRY
    EXEC [$(schema)].[sweep] @queue_id;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        THROW;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        SET @error = CONCAT(N'sweep: ', ERROR_MESSAGE());
    UPDATE [$(schema)].[duties] WITH (ROWLOCK) SET sweep_ms = 0 WHERE queue_id = @queue_id;
END CATCH;

IF EXISTS (SELECT 1 FROM [$(schema)].[schedules] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (schedules_due))
           WHERE queue_id = @queue_id AND paused = 0
               AND (look_at <= @now OR looked_at > DATEADD(MINUTE, 1, @now)))  -- the last condition: see due_schedules
    SET @schedules_due = 1;

IF @error IS NOT NULL
    EXEC [$(schema)].[mend_text] @error OUTPUT;
SELECT @promoted AS promoted, CAST(1 AS bit) AS elected, @schedules_due AS schedules_due, @error AS error,
    @expired AS expired;
GO
