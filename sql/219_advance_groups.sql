-- For those who enqueue or end jobs of groups, when that is committed, and for promote: gives the turn to waiting jobs
-- of the groups in which something has happened (group_events), in the order of their ids.
--
-- One session of a queue at a time does so (an application lock until its transaction ends), for up to 1,000 turns in
-- one transaction. It waits for nobody else: events and waiting jobs that are locked are not committed, and those who
-- commit them call it again. (Operators, who lock waiting jobs that are committed, take the application lock first, see
-- lock_groups: else a group's next job could be passed over. A session that only looks whether a job is one of those it
-- changes holds it for a moment: then the turn waits for the next call.) Inside of a caller's transaction it does
-- nothing: the next promote does it, within about a second. So it does where another session has had the application
-- lock for @wait_ms. It never fails, because what it is called for has been done; @error is for promote, which tells
-- the worker.
CREATE OR ALTER PROCEDURE [$(schema)].[advance_groups]
    @queue_id int,
    @wait_ms  int            = 200,  -- for the application lock
    @error    nvarchar(2048) = NULL OUTPUT
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;
SET XACT_ABORT ON;  -- a client that gives the call up must not leave the lock behind
SET LOCK_TIMEOUT 1000;
IF @@TRANCOUNT > 0
    RETURN;
DECLARE @limit int, @most int, @granted bit, @is_full bit = 1, @first_ready bigint, @events_from bigint,
    @last_event bigint, @next_event bigint;
DECLARE @events TABLE (event_id bigint NOT NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    ended int NOT NULL, job_id bigint NULL);
-- in_turn: how many have the turn, without those that gave it away. from_id: no job waits below (NULL: that is not
-- known); at last, NULL: none waits.
DECLARE @groups TABLE
(
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    is_new    bit NOT NULL,
    in_turn   int NOT NULL,
    from_id   bigint NULL
);
DECLARE @next TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @started TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @counts TABLE (group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    started int NOT NULL);

BEGIN TRY
    WHILE @is_full = 1
    BEGIN
        SET @is_full = 0;
        SET @events_from = ISNULL((SELECT events_from FROM [$(schema)].[duties] WITH (NOLOCK)
            WHERE queue_id = @queue_id), 0);
        -- Most calls find nothing where others are quicker: they need not wait for them.
        IF NOT EXISTS (SELECT 1 FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
                       WHERE queue_id = @queue_id AND event_id >= @events_from)
            BREAK;
        BEGIN TRANSACTION;
        EXEC [$(schema)].[lock_groups] @queue_id, @wait_ms, @granted OUTPUT;
        SET @limit = (SELECT group_limit FROM [$(schema)].[queues] WHERE queue_id = @queue_id);
        SET @most = 1000 / @limit;
        -- Anew: promote may have lowered it while this call waited.
        SET @events_from = ISNULL((SELECT events_from FROM [$(schema)].[duties] WITH (NOLOCK)
            WHERE queue_id = @queue_id), 0);
        IF @granted = 1
            DELETE TOP (@most) FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
            OUTPUT deleted.event_id, deleted.group_key, deleted.ended,
                deleted.job_id INTO @events (event_id, group_key, ended, job_id)
            WHERE queue_id = @queue_id AND event_id >= @events_from
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @is_full = CASE WHEN @granted = 1 AND @@ROWCOUNT = @most THEN 1 ELSE 0 END;

        IF EXISTS (SELECT 1 FROM @events)
        BEGIN
            INSERT @groups (group_key, is_new, in_turn, from_id)
            SELECT e.group_key, 1, -SUM(e.ended),
                NULLIF(MIN(ISNULL(e.job_id, 9223372036854775807)), 9223372036854775807) FROM @events AS e
                GROUP BY e.group_key;
            UPDATE k
            SET is_new = 0, in_turn = g.in_turn + k.in_turn,
                from_id = CASE WHEN k.from_id < g.from_id THEN k.from_id ELSE g.from_id END
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g
                WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
                ON g.group_key = k.group_key
            WHERE g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            INSERT @next (job_id, group_key)
            SELECT w.job_id, k.group_key
            FROM @groups AS k
            CROSS APPLY (SELECT TOP (CASE WHEN k.in_turn < @limit THEN @limit - k.in_turn ELSE 0 END) j.job_id
                         FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                             AND j.job_id >= ISNULL(k.from_id, 0)
                         ORDER BY j.job_id) AS w
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            UPDATE j
            SET state = 0, in_turn = 1, due_at = SYSUTCDATETIME()
            OUTPUT inserted.job_id, inserted.group_key INTO @started (job_id, group_key)
            FROM @next AS n
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
                ON j.job_id = n.job_id
            WHERE j.state = 6
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            -- Those that could not be had: for the next call.
            INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
            SELECT @queue_id, n.group_key, 0, MIN(ISNULL(k.from_id, 0))
            FROM @next AS n
            INNER JOIN @groups AS k ON k.group_key = n.group_key
            WHERE NOT EXISTS (SELECT 1 FROM @started AS s WHERE s.job_id = n.job_id)
            GROUP BY n.group_key;
            IF @@ROWCOUNT > 0
                SET @is_full = 0;  -- or it would find the same again until they are free

            -- Where the next look begins. NOLOCK: what is locked or not committed must not be passed.
            UPDATE k
            SET from_id = CASE WHEN w.job_id <= n.job_id OR n.job_id IS NULL THEN w.job_id ELSE n.job_id END
            FROM @groups AS k
            OUTER APPLY (SELECT TOP (1) j.job_id
                         FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                             AND j.job_id >= ISNULL(k.from_id, 0)
                         ORDER BY j.job_id) AS w
            OUTER APPLY (SELECT TOP (1) j.job_id
                         FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                             AND j.job_id >= ISNULL(k.from_id, 0)
                         ORDER BY j.job_id) AS n
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            INSERT @counts (group_key, started)
            SELECT s.group_key, COUNT(*) FROM @started AS s GROUP BY s.group_key;
            UPDATE k
            SET in_turn = k.in_turn + c.started
            FROM @counts AS c
            INNER JOIN @groups AS k ON k.group_key = c.group_key;
            DELETE g
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk))
                ON g.group_key = k.group_key
            WHERE k.in_turn <= 0 AND k.from_id IS NULL AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            -- A row without turns tells of a job that waits and could not be had: not committed, it has an event of its
            -- own, which is committed with it. So no event is written for it here, again and again; once a minute
            -- promote does.
            UPDATE g
            SET in_turn = CASE WHEN k.in_turn > 0 THEN k.in_turn ELSE 0 END,
                from_id = ISNULL(k.from_id, 9223372036854775807)
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk))
                ON g.group_key = k.group_key
            WHERE (k.in_turn > 0 OR k.from_id IS NOT NULL) AND k.is_new = 0 AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            INSERT [$(schema)].[groups] (queue_id, group_key, in_turn, from_id)
            SELECT @queue_id, k.group_key, CASE WHEN k.in_turn > 0 THEN k.in_turn ELSE 0 END,
                ISNULL(k.from_id, 9223372036854775807)
            FROM @groups AS k
            WHERE (k.in_turn > 0 OR k.from_id IS NOT NULL) AND k.is_new = 1;
        END;
        COMMIT TRANSACTION;

        -- Whatever the marks are: a claim that has read them before the commit would raise them over these jobs.
        SET @first_ready = (SELECT MIN(job_id) FROM @started);
        IF @first_ready IS NOT NULL
            EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;

        -- Seldom: every acknowledgement of a group would change the queue's row otherwise, to save reading a page of
        -- ghosts. A few numbers are left below, for those who have drawn theirs and not inserted yet; what comes later
        -- still is found by promote.
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
        DELETE @events;
        DELETE @groups;
        DELETE @next;
        DELETE @started;
        DELETE @counts;
    END;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
    IF ERROR_NUMBER() NOT IN (1205, 1222)
        SET @error = CONCAT(N'advance_groups: ', ERROR_MESSAGE());
END CATCH;
GO
