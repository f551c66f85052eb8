-- For those who enqueue or end jobs of groups, when that is committed, and for promote: gives the turn to waiting jobs of the groups in which something
-- has happened (group_events), in the order of their ids.
--
-- One session of a queue at a time does so (an application lock until its transaction ends), for up to 1,000 events in one transaction. It waits
-- for nobody else: events and waiting jobs that are locked are not committed, and those who commit them call it again. (Operators, who lock waiting
-- jobs that are committed, take the application lock first, see lock_groups: else a group's next job could be passed over.) Inside of a caller's
-- transaction it does nothing: the next promote does it, within about a second. It never fails, because what it is called for has been done.
CREATE OR ALTER PROCEDURE [$(schema)].[advance_groups]
    @queue_id int
AS
SET NOCOUNT ON;
SET ROWCOUNT 0;
SET XACT_ABORT OFF;
IF @@TRANCOUNT > 0
    RETURN;
DECLARE @limit int, @granted bit, @found int = 1000, @first_ready bigint;
DECLARE @events TABLE (group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL, ended int NOT NULL);
-- in_turn: how many have the turn, without those that gave it away.
DECLARE @groups TABLE
(
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    is_new    bit NOT NULL,
    in_turn   int NOT NULL
);
DECLARE @next TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);
DECLARE @started TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL);

BEGIN TRY
    WHILE @found = 1000
    BEGIN
        SET @found = 0;
        -- Most calls find nothing where others are quicker: they need not wait for them.
        IF NOT EXISTS (SELECT 1 FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE queue_id = @queue_id)
            BREAK;
        BEGIN TRANSACTION;
        EXEC [$(schema)].[lock_groups] @queue_id, 5000, @granted OUTPUT;
        IF @granted = 1
        BEGIN
            SET @limit = (SELECT group_limit FROM [$(schema)].[queues] WHERE queue_id = @queue_id);
            DELETE TOP (1000) FROM [$(schema)].[group_events] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
            OUTPUT deleted.group_key, deleted.ended INTO @events (group_key, ended)
            WHERE queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @found = @@ROWCOUNT;

            INSERT @groups (group_key, is_new, in_turn)
            SELECT e.group_key, 1, -SUM(e.ended) FROM @events AS e GROUP BY e.group_key;
            UPDATE k
            SET is_new = 0, in_turn = g.in_turn + k.in_turn
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
                ON g.group_key = k.group_key
            WHERE g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            INSERT @next (job_id, group_key)
            SELECT w.job_id, k.group_key
            FROM @groups AS k
            CROSS APPLY (SELECT TOP (@limit) j.job_id
                         FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_waiting))
                         WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                         ORDER BY j.job_id) AS w
            WHERE k.in_turn < @limit
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            -- No more than there is room for.
            IF @limit > 1
                DELETE n
                FROM @next AS n
                INNER JOIN @groups AS k ON k.group_key = n.group_key
                WHERE (SELECT COUNT(*) FROM @next AS b WHERE b.group_key = n.group_key AND b.job_id < n.job_id) >= @limit - k.in_turn;

            UPDATE j
            SET state = 0, in_turn = 1, due_at = SYSUTCDATETIME()
            OUTPUT inserted.job_id, inserted.group_key INTO @started (job_id, group_key)
            FROM @next AS n
            INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
                ON j.job_id = n.job_id
            WHERE j.state = 6
            OPTION (MAXDOP 1, KEEPFIXED PLAN);

            UPDATE k
            SET in_turn = k.in_turn + (SELECT COUNT(*) FROM @started AS s WHERE s.group_key = k.group_key)
            FROM @groups AS k;
            DELETE g
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk)) ON g.group_key = k.group_key
            WHERE k.in_turn <= 0 AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            UPDATE g
            SET in_turn = k.in_turn
            FROM @groups AS k
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk)) ON g.group_key = k.group_key
            WHERE k.in_turn > 0 AND k.is_new = 0 AND g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            INSERT [$(schema)].[groups] (queue_id, group_key, in_turn)
            SELECT @queue_id, k.group_key, k.in_turn FROM @groups AS k WHERE k.in_turn > 0 AND k.is_new = 1;
        END;
        COMMIT TRANSACTION;

        SET @first_ready = (SELECT MIN(job_id) FROM @started);
        IF EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND job_id > @first_ready)
            EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;
        DELETE @events;
        DELETE @groups;
        DELETE @next;
        DELETE @started;
    END;
END TRY
BEGIN CATCH
    IF @@TRANCOUNT > 0
        ROLLBACK TRANSACTION;
END CATCH;
GO
