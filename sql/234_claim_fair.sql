-- For claims of a fair queue: claims up to @max jobs that wait in groups, so that each group with waiting jobs gets as
-- many as any other, or in proportion to its weight (group_weights). Result: as claim with runs (head_id is NULL). The
-- worker starts one job of each group after the other, each group's in the order of job_id. (It sorts them itself: here,
-- each job would be written once more.)
--
-- Groups with waiting jobs take part in rounds, in the order of their keys. In a round, a group gets as many jobs as its
-- weight says, in the order of their ids, and nothing if it has none: the others then come round sooner. group_rounds
-- keeps where a round stands from one claim to the next. If all groups together get less than @max in a round, the call
-- takes several rounds at once.
--
-- It costs less to take several jobs of one group. With 100 groups or more, claims of 100 jobs or more therefore take
-- several jobs per unit of weight, the quantum. It doubles, up to 64, while rounds take less than half a second. As soon
-- as a round takes longer than two seconds, it is 1. Smaller claims take one job per unit of weight, so in a round with
-- claims of different sizes, groups get different numbers. (This is deficit round robin, without a deficit to carry over,
-- because all jobs count the same: Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round Robin", 1995.)
--
-- Only one session of a queue at a time claims here: it shares the application lock of advance_groups, which adds groups
-- with new jobs. After half a second of waiting, the call claims nothing. Jobs that others have locked are skipped. The
-- call goes through at most 20,000 groups, and the next one goes on.
CREATE OR ALTER PROCEDURE [$(schema)].[claim_fair]
    @queue_id     int,
    @worker_id    uniqueidentifier,
    @max          int,
    @max_attempts int,
    @max_payload_bytes bigint
AS
SET NOCOUNT, XACT_ABORT ON;
DECLARE @now datetime2(3), @room int = @max, @width int, @granted bit = 0, @any bit = 0, @rounds int = 1,
    @from_key nvarchar(128) = N'', @taken int = 0, @first_key nvarchar(128), @first_taken int, @read int,
    @found int, @claimed int, @last_key nvarchar(128),
    @is_idle bit = 0, @is_over bit = 0, @steps int = 0, @wraps int = 0,
    @weights bigint, @began_at datetime2(3), @quantum int = 1, @round_ms bigint,
    @seen int = 0, @last_seen int = 0;
-- Groups in the order of the round. quota: how many jobs the group may still get. before: how many those before it may.
DECLARE @keys TABLE (group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY CLUSTERED,
    quota int NOT NULL, before int NOT NULL, from_id bigint NULL);
DECLARE @next TABLE (group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL, job_id bigint NOT NULL,
    PRIMARY KEY CLUSTERED (group_key, job_id));
DECLARE @jobs TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED);

-- Claims would otherwise keep advance_groups waiting, and never see a new group.
EXEC [$(schema)].[advance_groups] @queue_id, 500, @once = 1;
-- Without groups, the claim need not wait for the lock. NOLOCK, because another claim may be changing the only one.
SELECT TOP (1) @any = 1
FROM [$(schema)].[groups] WITH (NOLOCK)
WHERE queue_id = @queue_id AND from_id < 9223372036854775807
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @any = 0
    RETURN;

BEGIN TRANSACTION;
EXEC [$(schema)].[lock_groups] @queue_id, 500, @granted OUTPUT;
SET @now = SYSUTCDATETIME();
IF @granted = 1
BEGIN
    SELECT @from_key = group_key, @taken = taken, @began_at = began_at, @quantum = quantum, @seen = seen,
        @last_seen = last_seen
    FROM [$(schema)].[group_rounds] WHERE queue_id = @queue_id;
    SET @round_ms = DATEDIFF_BIG(MILLISECOND, @began_at, @now);
    IF @round_ms NOT BETWEEN 0 AND 2000
        SET @quantum = 1;
    IF @from_key = N'' AND @taken = 0
        SELECT @is_idle = 1, @began_at = @now;
    -- Each group has a weight of 1 or more.
    SET @weights = @last_seen;
    IF @last_seen < @max
        SELECT @weights = SUM(k.weight)
        FROM (SELECT TOP (@max) ISNULL(w.weight, 1) AS weight
              FROM [$(schema)].[groups] AS g WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
              LEFT LOOP JOIN [$(schema)].[group_weights] AS w
                  WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (group_weights_pk (queue_id, group_key)))
                  ON w.queue_id = @queue_id AND w.group_key = g.group_key
              WHERE g.queue_id = @queue_id AND g.from_id < 9223372036854775807
              ORDER BY g.group_key) AS k
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @rounds = CASE WHEN @weights < @max THEN @max / @weights WHEN @max < 100 THEN 1 ELSE @quantum END;
    -- As many groups as are needed if all have enough jobs, and the one within which the round stands.
    SET @width = @max / @rounds + 2;
END;
WHILE @granted = 1 AND @room > 0 AND @is_over = 0 AND @steps < 20
BEGIN
    SELECT @first_key = @from_key, @first_taken = @taken;
    -- UPDLOCK and READPAST, because a claim of runs may still be under way after the queue has become fair.
    INSERT @keys (group_key, quota, before, from_id)
    SELECT k.group_key, k.quota, SUM(k.quota) OVER (ORDER BY k.group_key) - k.quota, k.from_id
    FROM (SELECT TOP (@width) g.group_key, g.from_id,
              CASE WHEN ISNULL(w.weight, 1) * @rounds - CASE WHEN g.group_key = @from_key THEN @taken ELSE 0 END < @room
                  THEN ISNULL(w.weight, 1) * @rounds - CASE WHEN g.group_key = @from_key THEN @taken ELSE 0 END
                  ELSE @room END AS quota
          FROM [$(schema)].[groups] AS g WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK)
          LEFT LOOP JOIN [$(schema)].[group_weights] AS w
              WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (group_weights_pk (queue_id, group_key)))
              ON w.queue_id = @queue_id AND w.group_key = g.group_key
          WHERE g.queue_id = @queue_id AND g.group_key >= @from_key AND g.from_id < 9223372036854775807
              AND (g.group_key > @from_key OR ISNULL(w.weight, 1) * @rounds > @taken)
          ORDER BY g.group_key) AS k
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @read = @@ROWCOUNT;
    -- After the first step, most groups have fewer jobs than they may get, so more of them are read.
    DELETE @keys WHERE before >= CASE @steps WHEN 0 THEN @room ELSE 1000 + 20 * @room END;
    IF @@ROWCOUNT > 0
        SET @read = @width;

    INSERT @next (group_key, job_id)
    SELECT TOP (@room) k.group_key, w.job_id
    FROM @keys AS k
    CROSS APPLY (SELECT TOP (k.quota) j.job_id
                 FROM [$(schema)].[jobs] AS j
                     WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                 WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                     AND ISNULL(j.held, 0) = 0 AND j.job_id >= k.from_id
                 ORDER BY j.job_id) AS w
    ORDER BY k.group_key, w.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @found = @@ROWCOUNT;

    -- A job that must run alone becomes ready instead, for an idle worker.
    UPDATE j
    SET state = CASE j.alone WHEN 1 THEN 0 ELSE 2 END,
        fence = CASE j.alone WHEN 1 THEN j.fence ELSE j.fence % 2147483647 + 1 END,
        attempt = CASE j.alone WHEN 1 THEN j.attempt ELSE j.attempt + 1 END,
        worker_id = CASE j.alone WHEN 1 THEN j.worker_id ELSE @worker_id END,
        claimed_at = CASE j.alone WHEN 1 THEN j.claimed_at ELSE @now END
    OUTPUT inserted.job_id INTO @jobs (job_id)
    FROM @next AS n
    INNER LOOP JOIN [$(schema)].[jobs] AS j
        WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
        ON j.job_id = n.job_id
    WHERE j.queue_id = @queue_id AND j.state = 6 AND ISNULL(j.held, 0) = 0
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    SET @claimed = @@ROWCOUNT;
    IF @claimed > 0
        SET @is_idle = 0;

    -- Where the round goes on: within the last group that got jobs, behind the groups read, or at its beginning. It is
    -- over when a whole round has brought nothing.
    IF @found = @room
    BEGIN
        SELECT TOP (1) @last_key = n.group_key FROM @next AS n ORDER BY n.group_key DESC, n.job_id DESC;
        SET @taken = (SELECT COUNT(*) FROM @next AS n WHERE n.group_key = @last_key)
            -- BIN2, because two variables would be compared in the database's collation.
            + CASE WHEN @last_key COLLATE Latin1_General_100_BIN2 = @from_key COLLATE Latin1_General_100_BIN2 THEN @taken
                ELSE 0 END;
        SET @from_key = @last_key;
        DELETE @keys WHERE group_key > @last_key;
    END;
    -- A group within which the round stood was counted when it was first served.
    SET @seen = @seen + (SELECT COUNT(*) FROM @keys AS k WHERE k.group_key <> @first_key OR @first_taken = 0);
    IF @found < @room AND @read = @width
        SELECT @from_key = MAX(k.group_key), @taken = 2147483647 FROM @keys AS k;
    ELSE IF @found < @room
    BEGIN
        SET @is_over = @is_idle;
        IF @is_idle = 0
        BEGIN
            SET @round_ms = DATEDIFF_BIG(MILLISECOND, @began_at, SYSUTCDATETIME());
            SET @quantum = CASE WHEN @weights < @max OR @seen < 100 THEN 1
                WHEN @max >= 100 AND @round_ms < 500 AND @quantum < 64 THEN 2 * @quantum ELSE @quantum END;
            -- Most groups have nothing that can be claimed.
            SET @wraps = @wraps + 1;
            IF @wraps > 2
                SET @rounds = CASE WHEN 2 * @rounds < @max THEN 2 * @rounds ELSE @max END;
        END;
        SELECT @from_key = N'', @taken = 0, @is_idle = 1, @began_at = SYSUTCDATETIME(), @last_seen = @seen;
        SET @seen = 0;
    END;
    SELECT @room = @room - @claimed, @width = 1000;

    -- Where the next search in each group starts. NOLOCK, so that it does not start beyond a locked or uncommitted job.
    UPDATE k
    SET from_id = w.job_id
    FROM @keys AS k
    OUTER APPLY (SELECT TOP (1) j.job_id
                 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_waiting (queue_id, group_key, job_id)))
                 WHERE j.queue_id = @queue_id AND j.group_key = k.group_key AND j.state = 6
                     AND ISNULL(j.held, 0) = 0 AND j.job_id >= k.from_id
                 ORDER BY j.job_id) AS w
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    -- No waiting job is left, not even an uncommitted one: an event brings the group back with its next job.
    IF EXISTS (SELECT 1 FROM @keys WHERE from_id IS NULL)
        DELETE g
        FROM @keys AS k
        INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk)) ON g.group_key = k.group_key
        WHERE k.from_id IS NULL AND g.queue_id = @queue_id AND g.in_turn = 0
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    UPDATE g
    SET from_id = ISNULL(k.from_id, 9223372036854775807)
    FROM @keys AS k
    INNER LOOP JOIN [$(schema)].[groups] AS g WITH (ROWLOCK, FORCESEEK, INDEX (groups_pk)) ON g.group_key = k.group_key
    WHERE g.queue_id = @queue_id AND g.from_id <> ISNULL(k.from_id, 9223372036854775807)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @room = 0 OR @is_over = 1
        BREAK;
    DELETE @keys;
    DELETE @next;
    SET @steps = @steps + 1;
END;
IF @granted = 1
BEGIN
    UPDATE [$(schema)].[group_rounds] WITH (ROWLOCK)
    SET group_key = @from_key, taken = @taken, began_at = ISNULL(@began_at, @now), quantum = @quantum,
        seen = @seen, last_seen = @last_seen
    WHERE queue_id = @queue_id;
    IF @@ROWCOUNT = 0
        INSERT [$(schema)].[group_rounds] WITH (ROWLOCK) (queue_id, group_key, taken, began_at, quantum, seen, last_seen)
            VALUES (@queue_id, @from_key, @taken, ISNULL(@began_at, @now), @quantum, @seen, @last_seen);
END;
COMMIT TRANSACTION;

SELECT j.job_id, j.fence, j.attempt, COALESCE(j.max_attempts, @max_attempts) AS max_attempts, j.priority,
       DATEDIFF_BIG(MILLISECOND, j.due_at, @now) AS waited_ms, DATEDIFF_BIG(MILLISECOND, j.enqueued_at, @now) AS age_ms,
       j.kind, CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload_utf16 END AS payload_utf16,
       CASE WHEN DATALENGTH(j.payload) <= @max_payload_bytes THEN j.payload
           ELSE CAST(DATALENGTH(j.payload) AS binary(8)) END AS payload,
       CASE WHEN j.dedup_key IS NOT NULL OR j.correlation_id IS NOT NULL OR j.time_limit_ms IS NOT NULL
           OR j.checkpointed = 1 OR j.headers IS NOT NULL OR j.batch_id IS NOT NULL OR j.needs IS NOT NULL
           OR j.start_by IS NOT NULL OR j.held IS NOT NULL THEN j.details END AS details,
       CAST(NULL AS bigint) AS head_id, j.group_key
FROM @jobs AS c
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
    ON j.job_id = c.job_id
WHERE j.state = 2 AND j.worker_id = @worker_id AND j.claimed_at = @now
OPTION (MAXDOP 1, KEEPFIXED PLAN);
GO
