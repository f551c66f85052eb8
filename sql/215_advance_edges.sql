-- Closes the edges of the parents in edge_events: makes children ready whose last edge is closed, and cancels the
-- children of parents that were cancelled, were deleted or, as their edges say, have died. Then the children of these,
-- and so on. Called after the commit by procedures that end jobs or add edges, and by promote.
--
-- Only one session at a time does this, with up to 4,000 edges per transaction, for half a second. If another session
-- keeps the application lock for @wait_ms, or inside a caller's transaction, the call does nothing. The next promote does
-- the rest, within about a second. The call waits for no other lock: an edge that is locked or not committed stays open,
-- and so does one whose parent or child is locked, or whose child's batch or key is if the child is cancelled. Their
-- events stay for promote (@tried). The call never fails, because its caller's work is committed. promote passes @error
-- on to the worker.
CREATE OR ALTER PROCEDURE [$(schema)].[advance_edges]
    @wait_ms int            = 200,  -- how long to wait for the application lock
    @tried   bit            = 0,    -- 1: also events that were left before
    @error   nvarchar(2048) = NULL OUTPUT
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;
SET XACT_ABORT ON;  -- a client that abandons the call must not leave the lock behind
SET LOCK_TIMEOUT 1000;
SET DEADLOCK_PRIORITY LOW;
IF @@TRANCOUNT > 0
    RETURN;
DECLARE @begun_at datetime2(3) = SYSUTCDATETIME(), @now datetime2(3), @granted int, @more bit = 1, @left int,
    @taken int, @closed int, @queue_id int, @first_ready bigint;
DECLARE @noted TABLE (event_id bigint NOT NULL PRIMARY KEY CLUSTERED, job_id bigint NOT NULL, state tinyint NOT NULL,
    is_gone bit NOT NULL);
DECLARE @events TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NULL, is_gone bit NOT NULL,
    is_known bit NOT NULL);
DECLARE @edges TABLE (parent_id bigint NOT NULL, child_id bigint NOT NULL, state tinyint NOT NULL,
    cancels bit NOT NULL, PRIMARY KEY CLUSTERED (parent_id, child_id));
-- parent_id: of the edge that cancels the child
DECLARE @children TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, parent_id bigint NULL);
DECLARE @released TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, queue_id int NOT NULL, state tinyint NOT NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @queues TABLE (queue_id int NOT NULL PRIMARY KEY CLUSTERED);
-- The cancelled children.
DECLARE @members [$(schema)].[member_list];

BEGIN TRY
    WHILE @more = 1
    BEGIN
        SELECT @more = 0, @closed = 0, @left = 0;
        IF NOT EXISTS (SELECT 1 FROM [$(schema)].[edge_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
                       WHERE tried <= @tried)
            BREAK;
        BEGIN TRANSACTION;
        EXEC @granted = sys.sp_getapplock @Resource = N'$(schema).edges', @LockMode = N'Exclusive',
            @LockOwner = N'Transaction', @LockTimeout = @wait_ms;
        -- They are deleted at the end, so that unfinished sees them until their children are ready.
        IF @granted >= 0
            INSERT @noted (event_id, job_id, state, is_gone)
            SELECT TOP (1000) event_id, job_id, state, is_gone
            FROM [$(schema)].[edge_events] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)
            WHERE tried <= @tried
            ORDER BY event_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- The event of its deletion may know how a job ended that had no row when a child named it.
        IF EXISTS (SELECT 1 FROM @noted WHERE state = 0)
            INSERT @noted (event_id, job_id, state, is_gone)
            SELECT v.event_id, v.job_id, v.state, v.is_gone
            FROM [$(schema)].[edge_events] AS v WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)
            WHERE EXISTS (SELECT 1 FROM @noted AS n WHERE n.job_id = v.job_id AND n.state = 0)
                AND NOT EXISTS (SELECT 1 FROM @noted AS n WHERE n.event_id = v.event_id)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @taken = (SELECT COUNT(*) FROM @noted);
        IF @taken > 0
        BEGIN
            SET @now = SYSUTCDATETIME();
            -- Only an event of its deletion (is_gone), or of a child that found no row (state 0), tells that a job is
            -- gone, and how it ended: a job that was done and then deleted is done. Another event may be older than a
            -- requeue.
            INSERT @events (job_id, state, is_gone, is_known)
            SELECT n.job_id,
                CASE WHEN MAX(n.is_last) = 0 THEN MAX(n.state)
                     WHEN MAX(CASE WHEN n.is_last = 1 THEN n.state ELSE 0 END) IN (0, 3)
                         OR MAX(CASE WHEN n.is_last = 1 AND n.state = 3 THEN 1 ELSE 0 END) = 1 THEN 3
                     ELSE 5 END,
                MAX(n.is_last), MAX(n.is_last)
            FROM (SELECT job_id, state, CASE WHEN is_gone = 1 OR state = 0 THEN 1 ELSE 0 END AS is_last FROM @noted) AS n
            GROUP BY n.job_id;
            -- What the job is now counts. The next end of a requeued one will be noted; one that is locked is left.
            UPDATE v
            SET is_known = 1, is_gone = 0, state = CASE WHEN j.ended = 1 THEN j.state END
            FROM @events AS v
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = v.job_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            DELETE @events WHERE state IS NULL;

            -- Of cancelled children, the batch's count and the key are locked, too: other sessions keep these until their
            -- transactions end.
            INSERT @edges (parent_id, child_id, state, cancels)
            SELECT TOP (4000) e.parent_id, e.child_id, v.state,
                CASE WHEN v.state = 5 AND e.on_dead < 2 OR v.state = 4 AND e.on_dead = 1 THEN 1 ELSE 0 END
            FROM @events AS v
            INNER LOOP JOIN [$(schema)].[edges] AS e
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (edges_pk (parent_id, state)))
                ON e.parent_id = v.job_id AND e.state = 0
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
                ON j.job_id = e.child_id
            WHERE v.is_known = 1 AND (v.state <> 4 OR e.on_dead > 0)
                AND (v.state = 3 OR e.on_dead = 2 OR j.state <> 6 OR ISNULL(j.held, 0) = 0
                     OR (j.batch_id IS NULL
                         OR EXISTS (SELECT 1 FROM [$(schema)].[batch_counts] AS b
                             WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (batch_counts_pk (batch_id)))
                                    WHERE b.batch_id = j.batch_id))
                        AND (j.dedup_key IS NULL
                             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS k
                                 WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK,
                                       FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                                        WHERE k.queue_id = j.queue_id AND k.dedup_key = j.dedup_key
                                            AND k.dedup_key IS NOT NULL AND k.ended = 0)))
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @closed = @@ROWCOUNT;
            UPDATE e
            SET state = c.state
            FROM @edges AS c
            INNER LOOP JOIN [$(schema)].[edges] AS e WITH (ROWLOCK, FORCESEEK, INDEX (edges_pk))
                ON e.parent_id = c.parent_id AND e.state = 0 AND e.child_id = c.child_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            -- Requeued children do not wait any more.
            INSERT @children (job_id, parent_id)
            SELECT c.child_id, NULLIF(MIN(CASE WHEN c.cancels = 1 THEN c.parent_id ELSE 9223372036854775807 END),
                9223372036854775807)
            FROM @edges AS c
            GROUP BY c.child_id;
            UPDATE j
            SET state = 5, ended = 1, held = 0, finished_at = @now,
                error = CONCAT(N'cancelled: it waited for job ', c.parent_id, CASE v.state
                    WHEN 4 THEN N', which is dead' ELSE N', which was cancelled or deleted' END)
            OUTPUT inserted.job_id, 5, inserted.batch_id INTO @members (job_id, state, batch_id)
            FROM @children AS c
            INNER JOIN @events AS v ON v.job_id = c.parent_id
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = c.job_id
            WHERE j.state = 6 AND j.held = 1
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            UPDATE j
            SET state = CASE WHEN j.due_at > @now THEN 1 WHEN j.group_key IS NOT NULL THEN 6 ELSE 0 END, held = 0,
                due_at = CASE WHEN j.due_at > @now THEN j.due_at ELSE @now END
            OUTPUT inserted.job_id, inserted.queue_id, inserted.state, inserted.group_key
            INTO @released (job_id, queue_id, state, group_key)
            FROM @children AS c
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk)) ON j.job_id = c.job_id
            WHERE j.state = 6 AND j.held = 1
                AND NOT EXISTS (SELECT 1
                                FROM [$(schema)].[edges] AS e
                                    WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (edges_child (child_id, state)))
                                WHERE e.child_id = c.job_id AND e.state = 0)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
            SELECT r.queue_id, r.group_key, 0, MIN(r.job_id) FROM @released AS r WHERE r.state = 6
                GROUP BY r.queue_id, r.group_key;

            -- The children of cancelled children; and the edges of children that are gone.
            INSERT [$(schema)].[edge_events] WITH (ROWLOCK) (job_id, state, is_gone)
            SELECT m.job_id, 5, 0
            FROM @members AS m
            WHERE EXISTS (SELECT 1 FROM [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_pk (parent_id)))
                          WHERE e.parent_id = m.job_id)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            DELETE TOP (4000) e
            FROM @events AS v
            INNER LOOP JOIN [$(schema)].[edges] AS e
                WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (edges_child)) ON e.child_id = v.job_id
            WHERE v.is_gone = 1
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @closed = @closed + @@ROWCOUNT;

            -- What is left for the next call. NOLOCK, because an uncommitted edge needs the event, too.
            INSERT [$(schema)].[edge_events] WITH (ROWLOCK) (job_id, state, is_gone, tried)
            SELECT v.job_id, v.state, v.is_gone, CASE WHEN @closed >= 4000 THEN 0 ELSE 1 END
            FROM @events AS v
            WHERE EXISTS (SELECT 1 FROM [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_pk (parent_id, state)))
                          WHERE e.parent_id = v.job_id AND e.state = 0
                              AND (v.is_known = 0 OR v.state <> 4 OR e.on_dead > 0))
                OR v.is_gone = 1
                   AND EXISTS (SELECT 1 FROM [$(schema)].[edges] AS e WITH (NOLOCK, FORCESEEK (edges_child (child_id)))
                               WHERE e.child_id = v.job_id)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @left = @@ROWCOUNT;
            DELETE v
            FROM @noted AS n
            INNER LOOP JOIN [$(schema)].[edge_events] AS v WITH (ROWLOCK, FORCESEEK, INDEX (edge_events_pk))
                ON v.event_id = n.event_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            -- Without this condition, the loop would run until what is locked is unlocked.
            IF (@closed > 0 OR @left < @taken) AND DATEDIFF_BIG(MILLISECOND, @begun_at, SYSUTCDATETIME()) < 500
                SET @more = 1;

            -- None has a turn in a group, so their queues do not matter.
            IF EXISTS (SELECT 1 FROM @members WHERE batch_id IS NOT NULL)
                EXEC [$(schema)].[note_ends] 0, @members;
            INSERT @queues (queue_id) SELECT DISTINCT r.queue_id FROM @released AS r;
        END;
        COMMIT TRANSACTION;

        WHILE EXISTS (SELECT 1 FROM @queues)
        BEGIN
            SET @queue_id = (SELECT MIN(queue_id) FROM @queues);
            SET @first_ready = (SELECT MIN(job_id) FROM @released WHERE queue_id = @queue_id AND state = 0);
            IF @first_ready IS NOT NULL
                EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;
            IF EXISTS (SELECT 1 FROM @released WHERE queue_id = @queue_id AND state = 6)
                EXEC [$(schema)].[advance_groups] @queue_id;
            DELETE @queues WHERE queue_id = @queue_id;
        END;
        DELETE @noted;
        DELETE @events;
        DELETE @edges;
        DELETE @children;
        DELETE @released;
        DELETE @members;
    END;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        SET @error = CONCAT(N'advance_edges: ', ERROR_MESSAGE());
END CATCH;
GO
