-- Gives turns to waiting jobs of the groups in group_events, in the order of the jobs' ids. Called after the commit by
-- procedures that enqueue or finish jobs of groups, and by promote.
--
-- Only one session of a queue at a time does this, with up to 1,000 turns per transaction. If another session keeps the
-- application lock for @wait_ms, or inside a caller's transaction, the call does nothing, and the next promote gives
-- the turns within about a second. The call waits for no other lock but briefly for claims (claim_runs): locked events
-- and jobs are not committed, and their sessions call this procedure again. Operators' calls lock committed waiting
-- jobs, and a group's next job could then be skipped, so they take the application lock first (lock_groups). A mere
-- check for such jobs locks them only briefly, and they get their turn with the next call. The call never fails,
-- because its caller's work is committed. promote passes @error on to the worker.
CREATE OR ALTER PROCEDURE [$(schema)].[advance_groups]
    @queue_id int,
    -- how long to wait for the application lock; NULL: a fifth of a second, or not at all in a fair queue, whose claims
    -- do this first
    @wait_ms  int            = NULL,
    @error    nvarchar(2048) = NULL OUTPUT,
    @once     bit            = 0     -- 1: handles a thousand events at most
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;
SET XACT_ABORT ON;  -- a client that abandons the call must not leave the lock behind
SET LOCK_TIMEOUT 1000;
IF @@TRANCOUNT > 0
    RETURN;
DECLARE @limit int, @locked int, @most int, @read int, @new int, @found int, @granted bit, @is_full bit = 1,
    @first_ready bigint, @events_from bigint, @last_event bigint, @next_event bigint;
DECLARE @events TABLE (event_id bigint NOT NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    ended int NOT NULL, job_id bigint NULL);
-- in_turn: how many jobs have a turn, without turns that were passed on. from_id: no job below this id waits (NULL:
-- unknown). At the end, NULL means that no job waits.
DECLARE @groups TABLE
(
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    is_new    bit NOT NULL,
    in_turn   int NOT NULL,
    from_id   bigint NULL
);
DECLARE @next TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @started TABLE (group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL, job_id bigint NOT NULL,
    PRIMARY KEY CLUSTERED (group_key, job_id));

BEGIN TRY
    WHILE @is_full = 1
    BEGIN
        SET @is_full = 0;
        SET @events_from = ISNULL((SELECT events_from FROM [$(schema)].[duties] WITH (NOLOCK)
            WHERE queue_id = @queue_id), 0);
        -- Most calls find nothing because another session was faster; they need not wait for the lock.
        IF NOT EXISTS (SELECT 1 FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
                       WHERE queue_id = @queue_id AND event_id >= @events_from)
            BREAK;
        IF @wait_ms IS NULL
            SET @wait_ms = ISNULL((SELECT CASE fair WHEN 1 THEN 0 END FROM [$(schema)].[queues] WHERE queue_id = @queue_id), 200);
        BEGIN TRANSACTION;
        EXEC [$(schema)].[lock_groups] @queue_id, @wait_ms, @granted OUTPUT;
        -- No turns in a fair queue: the rows of groups tell claim_fair which groups have waiting jobs.
        SET @limit = ISNULL((SELECT CASE fair WHEN 1 THEN 0 ELSE group_limit END FROM [$(schema)].[queues]
            WHERE queue_id = @queue_id), 0);
        SET @most = CASE WHEN @limit > 0 THEN 1000 / @limit ELSE 1000 END;
        -- Reads @events_from again, because promote may have lowered it during the wait.
        SET @events_from = ISNULL((SELECT events_from FROM [$(schema)].[duties] WITH (NOLOCK)
            WHERE queue_id = @queue_id), 0);
        IF @granted = 1
            DELETE TOP (@most) FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
            OUTPUT deleted.event_id, deleted.group_key, deleted.ended, deleted.job_id
            INTO @events (event_id, group_key, ended, job_id)
            WHERE queue_id = @queue_id AND event_id >= @events_from
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @read = CASE WHEN @granted = 1 THEN @@ROWCOUNT ELSE 0 END;
        SET @is_full = CASE WHEN @read = @most AND @once = 0 THEN 1 ELSE 0 END;

        IF @read > 0
        BEGIN
            INSERT @groups (group_key, is_new, in_turn, from_id)
            SELECT e.group_key, 1, -SUM(e.ended),
                NULLIF(MIN(ISNULL(e.job_id, 9223372036854775807)), 9223372036854775807)
            FROM @events AS e GROUP BY e.group_key;
            SET @new = @@ROWCOUNT;
            -- Locks the groups, in order, so that no claim adds turns (claim_runs) until they are written below.
            SELECT @locked = g.in_turn
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g
                WITH (ROWLOCK, UPDLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
                ON g.group_key = k.group_key
            WHERE g.queue_id = @queue_id
            ORDER BY k.group_key  -- keeps the order of the join
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            UPDATE k
            SET is_new = 0, in_turn = g.in_turn + k.in_turn,
                from_id = CASE WHEN k.from_id < g.from_id THEN k.from_id ELSE g.from_id END
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g
                WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
                ON g.group_key = k.group_key
            WHERE g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @new = @new - @@ROWCOUNT;

            INSERT @next (job_id, group_key)
            SELECT w.job_id, k.group_key
            FROM @groups AS k
            CROSS APPLY (SELECT TOP (CASE WHEN @limit > 0 AND k.in_turn < @limit THEN @limit - k.in_turn ELSE 0 END) j.job_id
                         FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                             AND ISNULL(j.held, 0) = 0
                             AND j.job_id >= ISNULL(k.from_id, 0)
                         ORDER BY j.job_id) AS w
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @found = @@ROWCOUNT;

            UPDATE j
            SET state = 0, in_turn = 1, due_at = SYSUTCDATETIME()
            OUTPUT inserted.group_key, inserted.job_id INTO @started (group_key, job_id)
            FROM @next AS n
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
                ON j.job_id = n.job_id
            WHERE j.state = 6 AND ISNULL(j.held, 0) = 0
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            IF @@ROWCOUNT < @found
            BEGIN
                -- Locked jobs are left to the next call.
                INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
                SELECT @queue_id, n.group_key, 0, MIN(ISNULL(k.from_id, 0))
                FROM @next AS n
                INNER JOIN @groups AS k ON k.group_key = n.group_key
                WHERE NOT EXISTS (SELECT 1 FROM @started AS s WHERE s.group_key = n.group_key AND s.job_id = n.job_id)
                GROUP BY n.group_key;
                SET @is_full = 0;  -- otherwise the loop would run until they are unlocked
            END;

            -- Where the next search starts. NOLOCK, so that it does not start beyond a locked or uncommitted job. A
            -- group that had no free turn was not searched, and keeps its start.
            UPDATE k
            SET in_turn = k.in_turn + s.jobs,
                from_id = CASE WHEN w.job_id <= n.job_id OR n.job_id IS NULL THEN w.job_id ELSE n.job_id END
            FROM @groups AS k
            CROSS APPLY (SELECT COUNT(*) AS jobs FROM @started AS t WHERE t.group_key = k.group_key) AS s
            OUTER APPLY (SELECT TOP (1) j.job_id
                         FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                             AND ISNULL(j.held, 0) = 0
                             AND j.job_id >= ISNULL(k.from_id, 0)
                         ORDER BY j.job_id) AS w
            OUTER APPLY (SELECT TOP (1) j.job_id
                         FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                             AND ISNULL(j.held, 0) = 0
                             AND j.job_id >= ISNULL(k.from_id, 0)
                         ORDER BY j.job_id) AS n
            WHERE @limit = 0 OR k.in_turn < @limit
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            DELETE g
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk))
                ON g.group_key = k.group_key
            WHERE k.in_turn <= 0 AND k.from_id IS NULL AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            -- A row without turns means that a waiting job was locked or uncommitted. An uncommitted job commits its
            -- own event. For locked jobs, promote checks these rows once a minute, so that not every call must add an
            -- event here.
            UPDATE g
            SET in_turn = CASE WHEN k.in_turn > 0 THEN k.in_turn ELSE 0 END,
                from_id = ISNULL(k.from_id, 9223372036854775807)
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk))
                ON g.group_key = k.group_key
            WHERE (k.in_turn > 0 OR k.from_id IS NOT NULL) AND k.is_new = 0 AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            IF @new > 0
                INSERT [$(schema)].[groups] (queue_id, group_key, in_turn, from_id)
                SELECT @queue_id, k.group_key, CASE WHEN k.in_turn > 0 THEN k.in_turn ELSE 0 END,
                    ISNULL(k.from_id, 9223372036854775807)
                FROM @groups AS k
                WHERE (k.in_turn > 0 OR k.from_id IS NOT NULL) AND k.is_new = 1;
        END;
        COMMIT TRANSACTION;

        -- Lowers the marks every time, because a claim that read them before the commit would raise them past these
        -- jobs.
        SET @first_ready = (SELECT MIN(job_id) FROM @started);
        IF @first_ready IS NOT NULL
            EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;

        -- Raises the start only every 64 events: reading a page of ghosts costs less than changing the row with every
        -- call. The last 8 numbers are left out for sessions that have drawn a number but not inserted it yet. promote
        -- finds rows that are inserted even later.
        SET @last_event = (SELECT MAX(event_id) FROM @events);
        IF @last_event > @events_from + 64
        BEGIN
            SET @next_event = (SELECT TOP (1) event_id FROM [$(schema)].[group_events] WITH (NOLOCK)
                               WHERE queue_id = @queue_id AND event_id >= @events_from
                               ORDER BY event_id);
            SET @next_event = CASE WHEN @next_event < @last_event THEN @next_event ELSE @last_event END - 8;
            UPDATE [$(schema)].[duties] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
            SET events_from = @next_event
            WHERE queue_id = @queue_id AND events_from < @next_event
                AND events_from >= @events_from;  -- promote may have lowered it meanwhile
        END;
        IF @is_full = 0
            BREAK;
        DELETE @events;
        DELETE @groups;
        DELETE @next;
        DELETE @started;
    END;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        SET @error = CONCAT(N'advance_groups: ', ERROR_MESSAGE());
END CATCH;
GO
