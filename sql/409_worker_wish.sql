-- Asks something of running workers, by worker_id or name. The worker's next heartbeat returns it. Each parameter that
-- is given replaces what was asked before; the others stay:
--   @quiet = 1: claim no more jobs, and finish those that it has; 0: claim again
--   @stop = 1: stop in order, as by a signal. It cannot be taken back.
--   @threads: run this many jobs at once; 0: as many as configured. Has no effect on workers that share their threads.
--   @debug_s: write debug messages to the log for this many seconds; 0: no longer
--
-- A worker that loses its lease and registers again keeps what was asked, one that starts again does not. With @by_name
-- = 1, @worker is a name, and what is asked (except @stop) also holds for workers of this name that start later, until
-- it is taken back in the same way. list_workers shows what was asked, and whether it was delivered. Result: worker_id,
-- queue and name of each worker that was asked. Cannot run in a transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[worker_wish]
    @worker   nvarchar(129),          -- a worker_id, or the name of one or several workers
    @queue    nvarchar(129) = NULL,   -- NULL: its workers of all queues
    @quiet    bit           = NULL,
    @stop     bit           = NULL,
    @threads  int           = NULL,   -- 0 to 1,024
    @debug_s  int           = NULL,   -- 0 to 86,400 (a day)
    @by_name  bit           = 0,
    @audit_id bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, XACT_ABORT, CONCAT_NULL_YIELDS_NULL ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET IMPLICIT_TRANSACTIONS OFF;  -- as in pause
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @id uniqueidentifier, @next uniqueidentifier,
    @named int = 0, @debug_until datetime2(3), @message nvarchar(2048), @own bigint, @members nvarchar(2000);
DECLARE @found TABLE (worker_id uniqueidentifier NOT NULL PRIMARY KEY CLUSTERED);

IF @@TRANCOUNT > 0
    THROW 58003, N'worker_wish would block heartbeats inside a transaction; COMMIT or ROLLBACK it first', 1;
SELECT @queue_id = queue_id FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name))) WHERE name = @queue;
IF @queue IS NOT NULL AND @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @worker IS NULL OR DATALENGTH(@worker) = 0 OR DATALENGTH(@worker) > 256
    THROW 58003, N'worker must be the id or the name of a worker, 1 to 128 characters', 1;
IF @threads NOT BETWEEN 0 AND 1024
    EXEC [$(schema)].[refuse] N'threads', @threads, N'0 (as configured) to 1024';
IF @debug_s NOT BETWEEN 0 AND 86400
    EXEC [$(schema)].[refuse] N'debug_s', @debug_s, N'0 to 86400 (a day)';
IF @stop = 0
    THROW 58003, N'stop must be 1 or NULL: a worker that was asked to stop cannot go on', 1;
IF @by_name = 1 AND @stop = 1
    THROW 58003, N'stop cannot be combined with by_name: workers that start later are not stopped', 1;
IF @quiet IS NULL AND @stop IS NULL AND @threads IS NULL AND @debug_s IS NULL
    THROW 58003, N'one of quiet, stop, threads and debug_s must be given', 1;
-- The conversion would ignore what follows an id.
IF LEN(@worker) = 36 AND @by_name = 0
    SET @id = TRY_CONVERT(uniqueidentifier, @worker);
SET @debug_until = CASE WHEN @debug_s > 0 THEN DATEADD(SECOND, @debug_s, @now) END;

SET @members = CONCAT(N',"worker":"', STRING_ESCAPE(@worker, 'json'), N'"',
    N',"quiet":' + CAST(@quiet AS varchar(20)), N',"stop":' + CAST(@stop AS varchar(20)),
    N',"threads":' + CAST(@threads AS varchar(20)), N',"debug_s":' + CAST(@debug_s AS varchar(20)),
    CASE WHEN @by_name = 1 THEN N',"by_name":1' END);
EXEC [$(schema)].[note_action] @audit_id, 'ask_worker', @queue, @own OUTPUT, @members;

-- First for the name, then for its workers: see register_worker.
IF @by_name = 1
BEGIN
    UPDATE n
    SET quiet = ISNULL(@quiet, n.quiet),
        threads = CASE WHEN @threads IS NULL THEN n.threads ELSE NULLIF(@threads, 0) END,
        debug_until = CASE WHEN @debug_s IS NULL THEN n.debug_until ELSE @debug_until END
    FROM [$(schema)].[queues] AS q WITH (NOLOCK)
    INNER LOOP JOIN [$(schema)].[name_wishes] AS n WITH (ROWLOCK, FORCESEEK, INDEX (name_wishes_pk))
        ON n.queue_id = q.queue_id AND n.name = @worker
    WHERE @queue_id IS NULL OR q.queue_id = @queue_id
    OPTION (MAXDOP 1);
    SET @named = @@ROWCOUNT;

    INSERT [$(schema)].[name_wishes] WITH (ROWLOCK) (queue_id, name, quiet, threads, debug_until)
    SELECT DISTINCT w.queue_id, w.name, ISNULL(@quiet, 0), NULLIF(@threads, 0), @debug_until
    FROM [$(schema)].[workers] AS w WITH (NOLOCK)
    WHERE w.name = @worker AND (@queue_id IS NULL OR w.queue_id = @queue_id)
        AND (@quiet = 1 OR @threads > 0 OR @debug_s > 0)
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[name_wishes] AS n WITH (ROWLOCK, UPDLOCK, HOLDLOCK)
                        WHERE n.queue_id = w.queue_id AND n.name = w.name)
    OPTION (MAXDOP 1);
    SET @named = @named + @@ROWCOUNT;

    -- What asks nothing, and, as in enqueue, what was written for a queue that was deleted.
    DELETE n
    FROM [$(schema)].[name_wishes] AS n WITH (ROWLOCK, READCOMMITTEDLOCK)
    WHERE n.name = @worker
        AND ((n.quiet = 0 AND n.threads IS NULL AND (n.debug_until IS NULL OR n.debug_until <= @now))
             OR NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] AS q WITH (ROWLOCK, READCOMMITTEDLOCK)
                            WHERE q.queue_id = n.queue_id))
    OPTION (MAXDOP 1);
END;

INSERT @found (worker_id)
SELECT w.worker_id
FROM [$(schema)].[workers] AS w WITH (NOLOCK)
WHERE (w.lost_at IS NULL OR @by_name = 1) AND (w.name = @worker OR w.worker_id = @id)
    AND (@queue_id IS NULL OR w.queue_id = @queue_id)
OPTION (MAXDOP 1);

-- One by one, because a locked row must not keep the heartbeats of the others waiting. Also those that are lost: the
-- process of one may register anew and keep its wishes (@replaces).
SET @next = (SELECT MIN(worker_id) FROM @found);
WHILE @next IS NOT NULL
BEGIN
    UPDATE [$(schema)].[workers] WITH (ROWLOCK)
    SET quiet = ISNULL(@quiet, quiet), stops = CASE WHEN @stop = 1 THEN 1 ELSE stops END, wished_at = SYSUTCDATETIME(),
        threads = CASE WHEN @threads IS NULL THEN threads ELSE NULLIF(@threads, 0) END,
        debug_until = CASE WHEN @debug_s IS NULL THEN debug_until ELSE @debug_until END
    WHERE worker_id = @next AND (lost_at IS NULL OR @by_name = 1);
    IF @@ROWCOUNT = 0
        DELETE @found WHERE worker_id = @next;
    SET @next = (SELECT MIN(worker_id) FROM @found WHERE worker_id > @next);
END;

IF @named = 0 AND NOT EXISTS (SELECT 1 FROM @found)
BEGIN
    SET @message = CONCAT(N'no running worker', CASE WHEN @queue IS NULL THEN N'' ELSE N' of ' + @queue END,
        N' has the name or the id ', @worker);
    IF @own IS NOT NULL
        EXEC [$(schema)].[end_audit] @own, NULL, @message;
    EXEC [$(schema)].[raise] 58003, @message;
END;

IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;

SELECT w.worker_id, q.name AS queue, w.name
FROM @found AS f
INNER LOOP JOIN [$(schema)].[workers] AS w WITH (NOLOCK, FORCESEEK (workers_pk (worker_id)))
    ON w.worker_id = f.worker_id
INNER JOIN [$(schema)].[queues] AS q WITH (NOLOCK) ON q.queue_id = w.queue_id
WHERE w.lost_at IS NULL
ORDER BY q.name, w.name, w.worker_id
OPTION (MAXDOP 1);
GO
