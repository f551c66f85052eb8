-- For the elected worker: returns up to @max schedules to check now, the longest due first, without locked schedules.
-- Result: name, revision, cron, time_zone, make_up, jitter_ms, next_at, error, now. If the clock was set back since the
-- last check, the next time may be far away. The schedule is then returned, and its next time is calculated from now.
-- A clock set back by less than a minute is ignored, because a time would otherwise fire twice. In a copied database
-- that is not confirmed (check_home), no schedule is due.
CREATE OR ALTER PROCEDURE [$(schema)].[due_schedules]
    @queue nvarchar(129),
    @max   int = 100
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @held bit, @is_copy int = 0;

-- The first call of a connection to this database.
IF ISNULL(CAST(SESSION_CONTEXT(N'readpast.home') AS nvarchar(150)), N'') <> CONCAT(DB_ID(), N' $(schema)')
    EXEC @is_copy = [$(schema)].[check_home];
SELECT @queue_id = queue_id, @held = CASE WHEN paused >= 4 OR @is_copy = 1 THEN 1 ELSE 0 END
FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT TOP (@max) s.name, s.revision, s.cron, s.time_zone, s.make_up, s.jitter_ms,
       CASE WHEN s.looked_at > DATEADD(MINUTE, 1, @now) AND s.next_at > @now THEN @now ELSE s.next_at END AS next_at,
       s.error, @now AS now
FROM [$(schema)].[schedules] AS s WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (schedules_due))
WHERE s.queue_id = @queue_id AND s.paused = 0 AND @held = 0
    AND (s.look_at <= @now OR s.looked_at > DATEADD(MINUTE, 1, @now))
ORDER BY s.look_at
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
