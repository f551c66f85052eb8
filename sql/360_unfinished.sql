-- For draining workers: returns whether a queue has unfinished jobs (ready, scheduled, waiting or claimed). With
-- @due_within_ms, jobs that are due later do not count, and neither do jobs that wait behind them. Jobs that wait behind
-- a dead one (halt_groups), for a dead one or for jobs of other queues never count. Result: unfinished, ready, scheduled, claimed, paused, next_due_ms (NULL:
-- nothing scheduled; negative: overdue), waiting.
--
-- Costs a few seeks at any depth. Reads one state after the other by NOLOCK, so a job that changes its state meanwhile
-- can be missed. Rely on 0 only if it is returned twice in a row.
CREATE OR ALTER PROCEDURE [$(schema)].[unfinished]
    @queue         nvarchar(129),
    @due_within_ms bigint = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @queue_id int, @paused bit, @is_fair bit, @ready bit = 0, @scheduled bit = 0, @claimed bit = 0, @waiting bit = 0,
    @next_due_at datetime2(3), @next_due_ms bigint;

SELECT @queue_id = queue_id, @paused = paused, @is_fair = fair
FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name)))
    WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;

SELECT @ready = 1
WHERE EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
              WHERE queue_id = @queue_id AND state = 0 AND alone = 0)
   OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready_alone))
              WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- A claim can take the jobs that wait in the groups of a fair queue.
IF @is_fair = 1 AND @ready = 0
    SELECT TOP (1) @ready = 1
    FROM [$(schema)].[jobs] WITH (NOLOCK, FORCESEEK (jobs_waiting (queue_id, group_key)))
    WHERE queue_id = @queue_id AND group_key > N'' AND state = 6 AND ISNULL(held, 0) = 0
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- adopt: look_for_rows
SELECT @next_due_at = (SELECT TOP (1) j.due_at FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_scheduled))
                       WHERE j.queue_id = @queue_id AND j.state = 1
                       ORDER BY j.due_at)
OPTION (MAXDOP 1, KEEPFIXED PLAN);
SET @next_due_ms = DATEDIFF_BIG(MILLISECOND, SYSUTCDATETIME(), @next_due_at);
IF @next_due_ms IS NOT NULL AND (@due_within_ms IS NULL OR @next_due_ms <= @due_within_ms)
    SET @scheduled = 1;

SELECT TOP (1) @claimed = 1
FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_claimed))
WHERE queue_id = @queue_id AND state = 2
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT @waiting = 1
WHERE EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_waiting))
              WHERE queue_id = @queue_id AND state = 6)
    -- Jobs that wait behind a job that is due later wait at least as long, and those behind a dead one (halt_groups), or
    -- for one, until an operator comes. Without these, and jobs of other queues, a job waits only until its group gets
    -- the next turn, or until advance_edges has handled its last parent's event. It deletes an event after it has changed
    -- the children.
    AND (@ready = 1 OR @scheduled = 1 OR @claimed = 1
         OR EXISTS (SELECT 1
                    FROM [$(schema)].[edge_events] AS v WITH (NOLOCK)
                    INNER LOOP JOIN [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
                        ON e.parent_id = v.job_id
                    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                        ON j.job_id = e.child_id
                    WHERE j.queue_id = @queue_id AND j.held = 1)
         OR EXISTS (SELECT 1 FROM [$(schema)].[group_events] WITH (NOLOCK) WHERE queue_id = @queue_id)
         OR EXISTS (SELECT 1 FROM [$(schema)].[groups] WITH (NOLOCK) WHERE queue_id = @queue_id AND in_turn = 0))
OPTION (MAXDOP 1, KEEPFIXED PLAN);

SELECT CAST(CASE WHEN @ready = 1 OR @scheduled = 1 OR @claimed = 1 OR @waiting = 1 THEN 1 ELSE 0 END AS bit)
           AS unfinished, @ready AS ready, @scheduled AS scheduled, @claimed AS claimed, @paused AS paused,
       @next_due_ms AS next_due_ms, @waiting AS waiting;
GO
