-- Lists the history of a queue or, with NULL, of every queue: the rows that overlap the @minutes before @until (NULL:
-- now), by queue and time. At most about 100,000 rows are returned, the newest ones. A minute appears after its end if
-- its depth was sampled. Reads by NOLOCK, so it neither blocks nor is blocked. Result: queue, at (start, UTC), minutes
-- (1 to 10), the last sampled depth (for ten minutes, the maximum of each): ready, scheduled, waiting, claimed, dead,
-- cancelled, workers, oldest_ready_ms (NULL: none ready); and the workers' reports: done, failed (attempts), died (jobs
-- left dead), times (see heartbeat; NULL: nothing ran).
CREATE OR ALTER PROCEDURE [$(schema)].[list_history]
    @queue   nvarchar(129) = NULL,
    @minutes int           = 60,    -- 1 to 129,600 (90 days, the retention)
    @until   datetime2(3)  = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @since datetime2(3), @first datetime2(0), @end datetime2(0), @cut datetime2(0);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue IS NOT NULL AND @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @minutes IS NULL OR @minutes < 1 OR @minutes > 129600
    EXEC [$(schema)].[refuse] N'minutes', @minutes, N'1 to 129600 (90 days)';

SET @until = ISNULL(@until, SYSUTCDATETIME());
SET @since = DATEADD(MINUTE, -@minutes, @until);
-- Has the column's type, so that the seek can use it. One second wider, because the conversion rounds to seconds.
SET @first = DATEADD(SECOND, -601, @since);
SET @end = CASE WHEN @until < '9999-12-31' THEN DATEADD(SECOND, 1, @until) ELSE '9999-12-31T23:59:59' END;
-- With NULL, first finds where the newest 100,000 rows start, which sorts times instead of whole rows.
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
