-- Registers a worker for a queue and starts its lease. A repeated call with the same id renews the lease. With
-- @take_over = 1, other workers of the queue with this name and login are marked lost, and their jobs are returned at
-- once. This is for a process that is the only one of its name. (The login must match, because any worker can choose
-- the name.) Result: completion, delivery, max_attempts, paused, holds (of the schema: 1 pause_all, 2 a copy, 3 both),
-- taken_over (returned jobs of lost workers, ready or dead), has_sink, workers_lost (workers marked lost: those of this
-- name and those with an expired lease), jobs_dead (the dead jobs among taken_over), and the wishes for the worker as
-- heartbeat returns them. A new registration has the wishes for its name (worker_wish); that of a process that was
-- registered before keeps the wishes of then (@replaces).
CREATE OR ALTER PROCEDURE [$(schema)].[register_worker]
    @queue     nvarchar(129),
    @worker_id uniqueidentifier,
    @name      nvarchar(128),
    @lease_ms  int,       -- 1,000 to 86,400,000 (a day)
    @take_over bit = 0,
    -- for list_workers: what the worker has for jobs, such as {"threads": 8, "memory": 8589934592, "gpu": 1}
    @resources varchar(1000) = NULL,
    -- the worker_id under which the same process was registered before
    @replaces  uniqueidentifier = NULL
AS
SET NOCOUNT, XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @jobs_ready int = 0, @jobs_dead int = 0,
    @namesakes int = 0, @run_out int = 0,
    @login nvarchar(128) = ISNULL(ORIGINAL_LOGIN(), USER_NAME());  -- in Azure SQL Database ORIGINAL_LOGIN is NULL

-- The first call of a connection to this database.
IF ISNULL(CAST(SESSION_CONTEXT(N'readpast.home') AS nvarchar(150)), N'') <> CONCAT(DB_ID(), N' $(schema)')
BEGIN
    EXEC [$(schema)].[check_home];
    SET @now = SYSUTCDATETIME();  -- after the hold's since: a worker that registers in a copy was not copied
END;
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @worker_id IS NULL OR @name IS NULL OR @lease_ms IS NULL OR @lease_ms < 1000 OR @lease_ms > 86400000
    THROW 58003, N'worker_id and name must be given, and lease_ms must be 1000 to 86400000 (a day)', 1;
EXEC [$(schema)].[check_text] N'the name of a worker', @name;

UPDATE [$(schema)].[workers] WITH (ROWLOCK)
SET lease_until = DATEADD(MILLISECOND, @lease_ms, @now), lease_ms = @lease_ms, unserved = 0,
    resources = @resources
WHERE worker_id = @worker_id AND queue_id = @queue_id AND lost_at IS NULL;
IF @@ROWCOUNT = 0
BEGIN
    -- Fails with a duplicate key if the id is a lost worker's: a new registration needs a new id.
    INSERT [$(schema)].[workers] WITH (ROWLOCK)
        (worker_id, queue_id, name, login, lease_ms, registered_at, lease_until, resources)
    VALUES
        (@worker_id, @queue_id, @name, @login, @lease_ms, @now, DATEADD(MILLISECOND, @lease_ms, @now), @resources);
    -- Only now: worker_wish writes the wishes for a name before it looks for the name's workers.
    IF @replaces IS NOT NULL
        UPDATE w
        SET quiet = p.quiet, stops = p.stops, threads = p.threads, debug_until = p.debug_until, wished_at = p.wished_at
        FROM [$(schema)].[workers] AS p WITH (NOLOCK, FORCESEEK (workers_pk (worker_id)))
        INNER LOOP JOIN [$(schema)].[workers] AS w WITH (ROWLOCK, FORCESEEK, INDEX (workers_pk))
            ON w.worker_id = @worker_id
        WHERE p.worker_id = @replaces AND p.queue_id = @queue_id AND p.name = @name
        OPTION (MAXDOP 1);
    IF @replaces IS NULL OR @@ROWCOUNT = 0  -- or the row is gone, after a day
        UPDATE w
        SET quiet = n.quiet, threads = n.threads, debug_until = n.debug_until
        FROM [$(schema)].[name_wishes] AS n WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK)
        INNER LOOP JOIN [$(schema)].[workers] AS w WITH (ROWLOCK, FORCESEEK, INDEX (workers_pk))
            ON w.worker_id = @worker_id
        WHERE n.queue_id = @queue_id AND n.name = @name
        OPTION (MAXDOP 1);
END;

-- As in enqueue: the queue may have been deleted.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
    WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id
        FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
BEGIN
    DELETE [$(schema)].[workers] WITH (ROWLOCK) WHERE worker_id = @worker_id;
    EXEC [$(schema)].[unknown_queue] @queue;
END;

IF @take_over = 1
BEGIN
    UPDATE [$(schema)].[workers] WITH (ROWLOCK)
    SET lost_at = @now
    WHERE queue_id = @queue_id AND name = @name AND login = @login AND worker_id <> @worker_id AND lost_at IS NULL;
    SET @namesakes = @@ROWCOUNT;

    EXEC [$(schema)].[reap] @queue = @queue, @report = 0, @jobs_ready = @jobs_ready OUTPUT,
        @jobs_dead = @jobs_dead OUTPUT, @workers_lost = @run_out OUTPUT;
END;

-- Reads the clock again, because after a wait or clock jump a new lease could already have expired.
WHILE SYSUTCDATETIME() > DATEADD(MILLISECOND, @lease_ms / 2, @now)
BEGIN
    SET @now = SYSUTCDATETIME();
    UPDATE [$(schema)].[workers] WITH (ROWLOCK)
    SET lease_until = DATEADD(MILLISECOND, @lease_ms, @now)
    WHERE worker_id = @worker_id AND lost_at IS NULL;
END;

SELECT completion, delivery, max_attempts, CAST(paused AS bit) AS paused, paused / 2 AS holds,
       @jobs_ready + @jobs_dead AS taken_over,
       CAST(CASE WHEN sink IS NULL THEN 0 ELSE 1 END AS bit) AS has_sink,
       @namesakes + @run_out AS workers_lost, @jobs_dead AS jobs_dead, w.quiet, w.stops, w.threads,
       CASE WHEN w.debug_until > SYSUTCDATETIME() THEN 1 ELSE 0 END AS debugs
FROM [$(schema)].[queues] AS q
LEFT JOIN [$(schema)].[workers] AS w WITH (NOLOCK, FORCESEEK (workers_pk (worker_id))) ON w.worker_id = @worker_id
WHERE q.queue_id = @queue_id;
GO
