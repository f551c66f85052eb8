-- For claim, while groups of the queue have turns: claims up to @max ready jobs as claim does and, behind each that has
-- the only turn of its group, a run of the jobs that wait there, up to @run jobs in all. A worker must start the jobs
-- of a run in the order of job_id, each after the one before it is done, and finish them in this order. Result: as
-- claim, with two columns more: head_id, by which the jobs of a run belong together (NULL: no run), and group_key, so
-- that a job with nothing else needs no details.
--
-- Each job of a run has a turn, which groups counts. The next turn therefore comes when all of them have finished or
-- were released, in whatever order and by however many calls.
--
-- The first step claims @at_once ready jobs, as many as the worker runs at once, and lets their runs fill the rest of
-- @max. If they are too short for that, the next step claims as many ready jobs as would have filled it. A job that was
-- tried before has no run: if it kills its worker, the jobs behind it lose no attempt. Each step is committed, so after
-- an error there may be claimed jobs that were not returned (recover).
--
-- A run has no gap, because the order of the group would be lost. It ends before a job that cannot be claimed: one that
-- must run alone, is too long, or is locked or uncommitted. Such a job still waits when the run has been claimed; NOLOCK
-- shows it, and the jobs behind it are given back. NOLOCK would miss a job whose cancellation or purge may yet be rolled
-- back, so operators' calls exclude runs (lock_groups). The group's row is locked from the check of its only turn until
-- the commit. READPAST, so that a claim does not wait for advance_groups.
CREATE OR ALTER PROCEDURE [$(schema)].[claim_runs]
    @queue_id     int,
    @worker_id    uniqueidentifier,
    @max          int,
    @max_attempts int,
    @max_payload_bytes bigint,
    @at_once      int,
    @run          int,
    @lowered      bigint OUTPUT
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @room int = @max, @step int, @at_least smallint = -32768,
    @priority smallint, @mark bigint, @gap_from bigint, @below_to bigint, @below_from bigint, @mark_highest bigint,
    @mark_lowered bigint, @from_id bigint, @claimed int, @heads int, @share int, @behind int, @steps int = 0,
    @resource nvarchar(255) = CONCAT(N'$(schema).runs.', @queue_id), @granted int;
-- The claimed jobs. head_id: NULL for a job without a run. step: when its run was claimed. priority: from which it was
-- claimed; it may be changed before the rows are read.
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, head_id bigint NULL, step int NOT NULL,
    priority smallint NULL);
-- The ready jobs of a step. group_key: NULL for a job that has no run. from_id: where its group's waiting jobs begin.
-- to_id: the last job that its run may have.
DECLARE @ready TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL, from_id bigint NULL, to_id bigint NULL);
-- The runs of a step. gap_id: the first job that a run has passed over.
DECLARE @counts TABLE (head_id bigint NOT NULL PRIMARY KEY CLUSTERED, jobs int NOT NULL, last_id bigint NOT NULL,
    gap_id bigint NULL);

WHILE @room > 0
BEGIN
    EXEC [$(schema)].[next_priority] @queue_id, @at_least, @priority OUTPUT, @mark OUTPUT, @gap_from OUTPUT,
         @below_to OUTPUT, @below_from OUTPUT, @mark_highest OUTPUT, @mark_lowered OUTPUT;
    IF @priority IS NULL
        BREAK;
    IF @mark_lowered IS NULL AND @@TRANCOUNT = 0
    BEGIN
        -- As in claim.
        INSERT [$(schema)].[marks] (queue_id, priority, job_id, lowered)
        SELECT @queue_id, @priority, 0, 0
        WHERE NOT EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (UPDLOCK, HOLDLOCK)
            WHERE queue_id = @queue_id AND priority = @priority);
        SET @mark_lowered = 0;
    END;
    SELECT @from_id = @mark, @step = @at_once;
    WHILE @room > 0
    BEGIN
        IF @step > @room
            SET @step = @room;
        BEGIN TRANSACTION;
        WITH next_jobs AS
        (
            SELECT TOP (@step) job_id, state, fence, attempt, worker_id, claimed_at, group_key, in_turn, payload
            FROM [$(schema)].[jobs] WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, INDEX (jobs_ready))
            WHERE queue_id = @queue_id AND state = 0 AND alone = 0 AND priority = @priority AND job_id >= @from_id
            ORDER BY job_id
        )
        UPDATE next_jobs
        SET state = 2, fence = fence % 2147483647 + 1, attempt = attempt + 1, worker_id = @worker_id, claimed_at = @now
        OUTPUT inserted.job_id,
            CASE WHEN inserted.attempt = 1 AND inserted.in_turn = 1 AND DATALENGTH(inserted.payload) <= @max_payload_bytes
                THEN inserted.group_key END
        INTO @ready (job_id, group_key)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        SET @claimed = @@ROWCOUNT;
        SET @room = @room - @claimed;
        IF @claimed > 0
            SET @lowered = @mark_lowered;
        SET @from_id = (SELECT MAX(job_id) + 1 FROM @ready);
        SET @steps = @steps + 1;
        INSERT @jobs (job_id, step, priority) SELECT job_id, 0, @priority FROM @ready;
        -- No run where nothing waits, or others have turns. Checked again below, under a lock.
        DELETE r
        FROM @ready AS r
        WHERE NOT EXISTS (SELECT 1
                          FROM [$(schema)].[groups] AS g WITH (NOLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
                          WHERE g.queue_id = @queue_id AND g.group_key = r.group_key AND g.in_turn = 1
                              AND g.from_id < 9223372036854775807)
        OPTION (MAXDOP 1, KEEPFIXED PLAN);

        SELECT @granted = -1, @behind = 0, @heads = 0;
        IF @room > 0 AND EXISTS (SELECT 1 FROM @ready)
            EXEC @granted = sys.sp_getapplock @Resource = @resource, @LockMode = N'Shared',
                @LockOwner = N'Transaction', @LockTimeout = 0;
        IF @granted >= 0
        BEGIN
            UPDATE r
            SET from_id = g.from_id
            FROM @ready AS r
            INNER LOOP JOIN [$(schema)].[groups] AS g
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (groups_pk (queue_id, group_key)))
                ON g.group_key = r.group_key
            WHERE g.queue_id = @queue_id AND g.in_turn = 1
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @heads = @@ROWCOUNT;
        END;
        IF @heads > 0
        BEGIN
            SET @share = CASE WHEN @room < @heads THEN 1 WHEN @room / @heads < @run - 1 THEN @room / @heads
                ELSE @run - 1 END;
            -- Where each run ends at the latest. If its first job is locked or uncommitted, it does not begin: all others
            -- would be given back.
            UPDATE r
            SET to_id = w.last_id
            FROM @ready AS r
            CROSS APPLY (SELECT MIN(n.job_id) AS first_id, MAX(n.job_id) AS last_id
                         FROM (SELECT TOP (@share) j.job_id
                               FROM [$(schema)].[jobs] AS j
                                   WITH (NOLOCK, FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                               WHERE j.queue_id = @queue_id AND j.group_key = r.group_key AND j.state = 6
                                   AND ISNULL(j.held, 0) = 0 AND j.job_id >= r.from_id
                               ORDER BY j.job_id) AS n) AS w
            WHERE r.from_id IS NOT NULL
                AND w.first_id = (SELECT TOP (1) j.job_id
                                  FROM [$(schema)].[jobs] AS j
                                      WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK,
                                            FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                                  WHERE j.queue_id = @queue_id AND j.group_key = r.group_key AND j.state = 6
                                      AND ISNULL(j.held, 0) = 0 AND j.job_id >= r.from_id
                                  ORDER BY j.job_id)
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            UPDATE TOP (@room) j
            SET state = 2, in_turn = 1, fence = j.fence % 2147483647 + 1, attempt = j.attempt + 1,
                worker_id = @worker_id, claimed_at = @now, due_at = @now
            OUTPUT inserted.job_id, r.job_id, @steps INTO @jobs (job_id, head_id, step)
            FROM @ready AS r
            INNER LOOP JOIN [$(schema)].[jobs] AS j
                WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_waiting))
                ON j.group_key = r.group_key
            WHERE j.queue_id = @queue_id AND j.state = 6 AND ISNULL(j.held, 0) = 0 AND j.job_id >= r.from_id
                AND j.job_id <= r.to_id AND j.alone = 0 AND DATALENGTH(j.payload) <= @max_payload_bytes
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @behind = @@ROWCOUNT;
        END;
        IF @behind > 0
        BEGIN
            INSERT @counts (head_id, jobs, last_id, gap_id)
            SELECT c.head_id, c.jobs, c.last_id, w.job_id
            FROM (SELECT n.head_id, COUNT(*) AS jobs, MAX(n.job_id) AS last_id
                  FROM @jobs AS n WHERE n.step = @steps GROUP BY n.head_id) AS c
            INNER LOOP JOIN @ready AS r ON r.job_id = c.head_id
            OUTER APPLY (SELECT TOP (1) j.job_id
                         FROM [$(schema)].[jobs] AS j
                             WITH (NOLOCK, FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                         WHERE j.queue_id = @queue_id AND j.group_key = r.group_key AND j.state = 6
                             AND ISNULL(j.held, 0) = 0 AND j.job_id >= r.from_id AND j.job_id < c.last_id
                         ORDER BY j.job_id) AS w
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            IF EXISTS (SELECT 1 FROM @counts WHERE gap_id IS NOT NULL)
            BEGIN
                UPDATE j
                SET state = 6, in_turn = NULL, attempt = j.attempt - 1
                FROM @jobs AS c
                INNER LOOP JOIN [$(schema)].[jobs] AS j
                    WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
                    ON j.job_id = c.job_id
                WHERE c.step = @steps
                    AND EXISTS (SELECT 1 FROM @counts AS g WHERE g.head_id = c.head_id AND g.gap_id < c.job_id)
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
                DELETE c
                FROM @jobs AS c
                WHERE c.step = @steps
                    AND EXISTS (SELECT 1 FROM @counts AS g WHERE g.head_id = c.head_id AND g.gap_id < c.job_id);
                DELETE @counts;
                INSERT @counts (head_id, jobs, last_id)
                SELECT c.head_id, COUNT(*), MAX(c.job_id) FROM @jobs AS c WHERE c.step = @steps GROUP BY c.head_id;
                SET @behind = ISNULL((SELECT SUM(jobs) FROM @counts), 0);
            END;

            UPDATE g
            SET in_turn = g.in_turn + c.jobs, from_id = c.last_id + 1
            FROM @counts AS c
            INNER LOOP JOIN @ready AS r ON r.job_id = c.head_id
            INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk))
                ON g.group_key = r.group_key
            WHERE g.queue_id = @queue_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            UPDATE j
            SET head_id = c.head_id
            FROM @counts AS c
            INNER LOOP JOIN @jobs AS j ON j.job_id = c.head_id
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
            SET @room = @room - @behind;
        END;
        COMMIT TRANSACTION;
        IF @room = 0
            BREAK;
        DELETE @ready;
        DELETE @counts;
        IF @claimed < @step
            BREAK;
        SET @step = @room * @claimed / (@claimed + @behind) + 1;
    END;
    IF @priority = 32767
        BREAK;
    SET @at_least = @priority + 1;
END;

SELECT j.job_id, j.fence, j.attempt, COALESCE(j.max_attempts, @max_attempts) AS max_attempts,
       COALESCE(c.priority, j.priority) AS priority, DATEDIFF_BIG(MILLISECOND, j.due_at, @now) AS waited_ms,
       DATEDIFF_BIG(MILLISECOND, j.enqueued_at, @now) AS age_ms,
       j.kind, CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload_utf16 END AS payload_utf16,
       CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload
           ELSE CAST(DATALENGTH(j.payload) AS binary(8)) END AS payload,
       CASE WHEN j.dedup_key IS NOT NULL OR j.correlation_id IS NOT NULL OR j.time_limit_ms IS NOT NULL
           OR j.checkpointed = 1 OR j.headers IS NOT NULL OR j.batch_id IS NOT NULL OR j.needs IS NOT NULL
           OR j.start_by IS NOT NULL OR j.held IS NOT NULL THEN j.details END AS details,
       c.head_id, j.group_key
FROM @jobs AS c
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = c.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
