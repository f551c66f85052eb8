-- Marks up to @max workers of a queue as lost if their lease has expired, and returns up to @max jobs of lost workers
-- to the queue. A job with attempts left becomes ready or, in a group, waits for its turn again; any other job becomes
-- dead or goes to the dead queue (as in finish), which also counts in jobs_dead. A job whose cancellation was requested
-- is cancelled. Results: workers_lost, jobs_ready, jobs_dead; then worker_id and name of each worker marked lost.
--
-- The attempt counts, because otherwise a job that kills its process would run for ever. It is unknown which of the
-- worker's jobs has killed it. Before its last attempt, a job of a lost worker must therefore run alone: only a worker
-- that holds no other job can claim it. If that worker is lost, too, the job becomes dead. If a job was lost on its
-- last attempt while its worker held other jobs, it gets that attempt again, alone. If the queue was not served for a
-- while, SQL Server was away, and the workers get new leases (tend). This is called on a timer and is not part of
-- claim, because a condition on expired leases would ruin the plan of claim.
CREATE OR ALTER PROCEDURE [$(schema)].[reap]
    @queue        nvarchar(129),
    @max          int = 1000,
    @report       bit = 1,
    @jobs_ready   int = NULL OUTPUT,
    @jobs_dead    int = NULL OUTPUT,
    @workers_lost int = NULL OUTPUT
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3), @elected bit, @queue_id int, @max_attempts int, @first_ready bigint,
    @first_id bigint, @dead_queue nvarchar(128), @moved int = 0, @first_moved bigint;
DECLARE @held TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, worker_id uniqueidentifier NOT NULL,
    name nvarchar(128) NOT NULL, group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @kept TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, worker_id uniqueidentifier NOT NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @lost TABLE (worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED, name nvarchar(128) NOT NULL);
DECLARE @given_back TABLE (job_id bigint NOT NULL PRIMARY KEY CLUSTERED, state tinyint NOT NULL, fence int NOT NULL,
    attempt int NOT NULL, in_turn bit NULL, batch_id bigint NULL,
    group_key nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL);
DECLARE @members [$(schema)].[member_list], @ended [$(schema)].[member_list];
DECLARE @failed [$(schema)].[attempt_list];

SELECT @queue_id = queue_id, @max_attempts = max_attempts, @dead_queue = dead_queue
    FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @max IS NULL OR @max < 1 OR @max > 1000
    EXEC [$(schema)].[refuse] N'max', @max, N'1 to 1000';

EXEC [$(schema)].[tend] @queue_id, NULL, @now OUTPUT, @elected OUTPUT;

-- A lease that ends later than two of its lengths from now was given before the clock was set back. It now ends one
-- length from now. (Two lengths, because a renewal may be newer than @now.)
UPDATE [$(schema)].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET lease_until = DATEADD(MILLISECOND, lease_ms, @now)
WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until > DATEADD(MILLISECOND, 2 * lease_ms, @now);

-- From here on, the worker's heartbeat is rejected. READPAST, because a worker whose row is locked is renewing its
-- lease.
UPDATE TOP (@max) [$(schema)].[workers] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
SET lost_at = @now
OUTPUT inserted.worker_id, inserted.name INTO @lost (worker_id, name)
WHERE queue_id = @queue_id AND lost_at IS NULL AND lease_until < @now;
SET @workers_lost = @@ROWCOUNT;

-- The jobs are found in the index and updated by key, so that each row is locked before its index entries, as finish
-- does. Only rows that could be locked count for @max. Otherwise locked rows whose entries are not locked would be
-- found each time.
BEGIN TRANSACTION;
INSERT @held (job_id, worker_id, name, group_key)
SELECT TOP (@max) h.job_id, w.worker_id, w.name, h.group_key
FROM [$(schema)].[workers] AS w WITH (READPAST, READCOMMITTEDLOCK)
CROSS APPLY (SELECT TOP (@max) j.job_id, j.group_key
             FROM [$(schema)].[jobs] AS c
                 WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
             INNER LOOP JOIN [$(schema)].[jobs] AS j
                 WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
                 ON j.job_id = c.job_id
             WHERE c.queue_id = @queue_id AND c.worker_id = w.worker_id AND c.state = 2 AND j.state = 2
                 AND j.worker_id = c.worker_id
             ORDER BY c.job_id DESC) AS h
WHERE w.queue_id = @queue_id AND w.lost_at IS NOT NULL
OPTION (MAXDOP 1, KEEPFIXED PLAN);
-- Of a run (claim_runs), the later jobs are returned first. Otherwise a worker that does not know that it is lost could
-- still finish a later job, and an earlier one would start after it. A later job that stays is locked, or one of more
-- than @max. NOLOCK, to find it nevertheless.
IF EXISTS (SELECT 1 FROM @held WHERE group_key IS NOT NULL)
BEGIN
    SET @first_id = (SELECT MIN(job_id) FROM @held);
    INSERT @kept (job_id, worker_id)
    SELECT c.job_id, c.worker_id
    FROM (SELECT h.worker_id FROM @held AS h GROUP BY h.worker_id) AS w
    INNER LOOP JOIN [$(schema)].[jobs] AS c WITH (NOLOCK, FORCESEEK (jobs_claimed (queue_id, worker_id)))
        ON c.worker_id = w.worker_id
    WHERE c.queue_id = @queue_id AND c.state = 2 AND c.job_id > @first_id
        AND NOT EXISTS (SELECT 1 FROM @held AS o WHERE o.job_id = c.job_id)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        UPDATE k
        SET group_key = j.group_key
        FROM @kept AS k
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id))) ON j.job_id = k.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        DELETE h
        FROM @held AS h
        WHERE EXISTS (SELECT 1 FROM @kept AS k
                      WHERE k.worker_id = h.worker_id AND k.group_key = h.group_key AND k.job_id > h.job_id);
    END;
END;

IF @dead_queue IS NOT NULL
BEGIN
    INSERT @failed (job_id, fence, attempt, worker_id, worker, error)
    SELECT j.job_id, j.fence, j.attempt, h.worker_id, h.name,
           CONCAT(N'worker ', h.name, N' was lost while it held the job (attempt ', j.attempt, N')')
    FROM @held AS h
    INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
        ON j.job_id = h.job_id
    WHERE j.state = 2 AND j.worker_id = h.worker_id AND j.cancelling IS NULL AND j.alone = 1
        AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @@ROWCOUNT > 0
    BEGIN
        EXEC [$(schema)].[move_jobs] @queue_id, @dead_queue, @failed, @alone = 1;
        SELECT @moved = COUNT(*), @first_moved = MIN(f.job_id)
        FROM @failed AS f
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = f.job_id
        WHERE j.queue_id <> @queue_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- move_jobs has written why the others stay. The statement below does not change the moved ones.
        UPDATE f
        SET error = j.error
        FROM @failed AS f
        INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            ON j.job_id = f.job_id
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    END;
END;

UPDATE j
SET state       = CASE WHEN j.cancelling = 1 THEN 5
                       WHEN j.alone = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts) THEN 4
                       WHEN j.group_key IS NOT NULL THEN 6
                       ELSE 0 END,
    in_turn     = NULL,
    ended       = CASE WHEN j.cancelling = 1
    OR (j.alone = 1 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)) THEN 1 ELSE 0 END,
    attempt     = CASE WHEN j.alone = 0 AND j.attempt >= COALESCE(j.max_attempts, @max_attempts)
                       THEN COALESCE(j.max_attempts, @max_attempts) - 1 ELSE j.attempt END,
    alone       = CASE WHEN j.attempt >= COALESCE(j.max_attempts, @max_attempts) - 1 THEN 1 ELSE j.alone END,
    finished_at = @now,
    run_us      = NULL,  -- unknown, and those of an earlier attempt are not of this one
    cpu_us      = NULL,
    peak_bytes  = NULL,
    error       = CASE WHEN j.cancelling = 1 THEN j.error
                      ELSE COALESCE((SELECT f.error FROM @failed AS f WHERE f.job_id = j.job_id),
                          CONCAT(N'worker ', h.name, N' was lost while it held the job (attempt ', j.attempt, N')'))
                  END,
    cancelling  = NULL
OUTPUT inserted.job_id, inserted.state, inserted.fence, deleted.attempt, deleted.in_turn, inserted.batch_id,
    inserted.group_key
INTO @given_back (job_id, state, fence, attempt, in_turn, batch_id, group_key)
FROM @held AS h
INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, UPDLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK, INDEX (jobs_pk))
    ON j.job_id = h.job_id
WHERE j.state = 2 AND j.worker_id = h.worker_id
OPTION (MAXDOP 1, KEEPFIXED PLAN);
IF @@ROWCOUNT > 0
BEGIN
    DELETE @failed;
    INSERT @failed (job_id, fence, attempt, worker_id, worker, error)
    SELECT g.job_id, g.fence, g.attempt, h.worker_id, h.name,
           CONCAT(N'worker ', h.name, N' was lost while it held the job (attempt ', g.attempt, N')')
    FROM @given_back AS g
    INNER JOIN @held AS h ON h.job_id = g.job_id
    OPTION (MAXDOP 1, KEEPFIXED PLAN);
    EXEC [$(schema)].[note_attempts] @queue_id, @failed;
    INSERT @members (job_id, state, in_turn, batch_id, group_key)
    -- adopt: all_members
    SELECT g.job_id, g.state, g.in_turn, g.batch_id, g.group_key
    FROM @given_back AS g
    WHERE g.state >= 3 AND (g.batch_id IS NOT NULL OR g.group_key IS NOT NULL);
    -- adopt: end
    IF @@ROWCOUNT > 0
        EXEC [$(schema)].[note_ends] @queue_id, @members;
    INSERT @ended (job_id, state) SELECT g.job_id, g.state FROM @given_back AS g WHERE g.state >= 3 AND g.state < 6;
    EXEC [$(schema)].[note_edges] @ended;
END;
COMMIT TRANSACTION;
IF @first_moved IS NOT NULL OR EXISTS (SELECT 1 FROM @members WHERE group_key IS NOT NULL)
    EXEC [$(schema)].[advance_groups] @queue_id;
IF @first_moved IS NOT NULL
    EXEC [$(schema)].[wake_moved] @dead_queue, @first_moved;
SET @jobs_ready = (SELECT COUNT(*) FROM @given_back WHERE state IN (0, 6));
SET @jobs_dead = (SELECT COUNT(*) FROM @given_back WHERE state = 4) + @moved;

SET @first_ready = (SELECT MIN(job_id) FROM @given_back WHERE state = 0);
IF @first_ready IS NOT NULL
    EXEC [$(schema)].[lower_marks] @queue_id, @first_ready;

-- Deletes workers that were lost a day ago. A claim takes less than a day, but the clock may have jumped. The worker
-- therefore must have no jobs: NOLOCK sees uncommitted claims without waiting, and READCOMMITTEDLOCK waits for a
-- release that may be rolled back. The worker's report must be in history already (note_history).
DELETE w
FROM [$(schema)].[workers] AS w WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
WHERE w.queue_id = @queue_id AND w.lost_at < DATEADD(DAY, -1, @now)
    AND ISNULL(w.done, 0) = ISNULL(w.noted_done, 0) AND ISNULL(w.failed, 0) = ISNULL(w.noted_failed, 0)
    AND ISNULL(w.dead, 0) = ISNULL(w.noted_dead, 0) AND ISNULL(w.times, '') = ISNULL(w.noted_times, '')
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, INDEX (jobs_claimed))
                    WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = w.worker_id)
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (ROWLOCK, READCOMMITTEDLOCK, INDEX (jobs_claimed))
                    WHERE j.queue_id = @queue_id AND j.state = 2 AND j.worker_id = w.worker_id)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

-- adopt: forget_refused_rows
-- Deletes messages that are a day old. A heartbeat comes within a day, unless the clock has jumped, so the message of a
-- job that is still running stays.
DELETE c
FROM [$(schema)].[cancellations] AS c WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
WHERE c.asked_at < DATEADD(DAY, -1, @now)
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[jobs] AS j WITH (NOLOCK, FORCESEEK (jobs_pk (job_id)))
                    WHERE j.job_id = c.job_id AND j.state = 2 AND j.fence = c.fence)
OPTION (MAXDOP 1, KEEPFIXED PLAN);

IF @report = 1
BEGIN
    SELECT @workers_lost AS workers_lost, @jobs_ready AS jobs_ready, @jobs_dead AS jobs_dead;
    SELECT worker_id, name FROM @lost;
END;
GO
