-- Shows what became of a queue or, with NULL, of each: the rows of history that lie, if only in part, in the @minutes
-- before @until (NULL: now), by queue and time; of more than 100,000 the newest. A minute is there when it has passed,
-- if somebody sampled the depth in it. Reads without locks (NOLOCK): it neither waits nor makes anybody wait.
-- Result: queue, at (the beginning, UTC), minutes (1 to 10), the depth as it was last sampled in this time (with ten
-- minutes, the greatest of each): ready, scheduled, waiting, claimed, dead, cancelled, workers, oldest_ready_ms (NULL:
-- nothing was ready); and what the workers have reported: done, failed (attempts), died (jobs that were dead after
-- one), times (how long jobs waited and ran, see heartbeat; NULL: none has run).
CREATE OR ALTER PROCEDURE [$(schema)].[list_history]
    @queue   nvarchar(129) = NULL,
    @minutes int           = 60,    -- 1 to 129,600: 90 days, which is as long as it is kept
    @until   datetime2(3)  = NULL
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @since datetime2(3), @first datetime2(0), @end datetime2(0), @cut datetime2(0);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue IS NOT NULL AND @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @minutes IS NULL OR @minutes < 1 OR @minutes > 129600
    THROW 58003, N'minutes must be 1 to 129600 (90 days)', 1;

SET @until = ISNULL(@until, SYSUTCDATETIME());
SET @since = DATEADD(MINUTE, -@minutes, @until);
-- Bounds of the column's own type, for the seek; a second too wide, because a time is rounded on its way to seconds.
SET @first = DATEADD(SECOND, -601, @since);
SET @end = CASE WHEN @until < '9999-12-31' THEN DATEADD(SECOND, 1, @until) ELSE '9999-12-31T23:59:59' END;
-- Of many queues, where to begin: only the times are sorted, not the rows.
IF @queue_id IS NULL
    SELECT @cut = MIN(n.at)
    FROM (SELECT TOP (100000) h.at
          FROM [$(schema)].[queues] AS q WITH (NOLOCK)
          INNER LOOP JOIN [$(schema)].[history] AS h WITH (NOLOCK, FORCESEEK (history_pk (queue_id, at)))
              ON h.queue_id = q.queue_id
          WHERE h.at > @first AND h.at < @end
          ORDER BY h.at DESC) AS n
    OPTION (MAXDOP 1);
IF @cut > @first
    SET @first = DATEADD(SECOND, -1, @cut);
SELECT q.name AS queue, h.at, CAST(h.minutes AS int) AS minutes, h.ready, h.scheduled, h.waiting, h.claimed, h.dead,
       h.cancelled, h.workers, h.oldest_ready_ms, h.done, h.failed, h.died, h.times
FROM [$(schema)].[queues] AS q WITH (NOLOCK, INDEX (queues_name))
INNER LOOP JOIN [$(schema)].[history] AS h WITH (NOLOCK, FORCESEEK (history_pk (queue_id, at)))
    ON h.queue_id = q.queue_id
WHERE (@queue_id IS NULL OR q.queue_id = @queue_id)
    AND h.at > @first AND h.at < @end
    AND DATEADD(MINUTE, h.minutes, h.at) > @since AND h.at < @until
ORDER BY q.name, h.at
OPTION (MAXDOP 1);
GO
