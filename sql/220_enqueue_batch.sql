-- Enqueues many jobs in the caller's transaction, with ascending ids in the order of their ordinals. Jobs with a time
-- limit, headers, needs, a group, a batch or a latest start also have a row in @details. Groups, batches, @part_of and
-- @part work as for enqueue. Jobs that wait for others (edges) have a row in @edges for each of these. Result (none with @report = 0, for triggers): ordinal, job_id, duplicate, refused. A
-- duplicate has the job_id of the unfinished or earlier job with its key. If the part exists, the result is empty.
--
-- A full queue (max_depth) refuses all of the jobs with error 58023, as enqueue does; if there is room for some, all are
-- added. With @in_part = 1, the first ones are added as far as there is room, and the others are refused: job_id is
-- NULL, and refused has the error's text. Jobs whose keys are there already need no room, but are refused if they come
-- after a refused one.
--
-- Jobs without a key are added by one INSERT. Jobs with a key are added one by one in the order of the keys, so that
-- two calls with common keys cannot deadlock (INSERT ... SELECT ... ORDER BY guarantees no order). If another session
-- inserts a key between lookup and insert, the rejected insert keeps its lock on the entry, so this call rolls its own
-- transaction back and starts again.
CREATE OR ALTER PROCEDURE [$(schema)].[enqueue_batch]
    @queue   nvarchar(129),
    @jobs    [$(schema)].[enqueue_list] READONLY,
    @report  bit = 1,
    @details [$(schema)].[detail_list] READONLY,
    @part_of bigint = NULL,  -- the batch that the call adds a part to
    @part    bigint = NULL,  -- the part's number, chosen by the caller
    @in_part bit = 0,        -- 1: the first jobs only, if there is no room for all; needs @report, and no @part
    @force   bit = 0,        -- 1: also if the queue is full
    @edges   [$(schema)].[edge_list] READONLY,  -- what the jobs wait for
    @on_bad  varchar(10) = 'error',  -- or status, as for enqueue: refuses all jobs and returns no result set (see @in_part)
    @refused nvarchar(2048) = NULL OUTPUT
AS
SET NOCOUNT ON;
-- The caller's XACT_ABORT decides what a full queue does to the caller's transaction.
DECLARE @dooms bit = CASE WHEN @@OPTIONS & 16384 = 0 THEN 0 ELSE 1 END;
-- adopt: refuse
SET ROWCOUNT 0;  -- a caller's ROWCOUNT would forbid NEXT VALUE FOR
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;  -- the caller's level may be another, see enqueue
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @delivery varchar(13), @has_details bit = 0,
    @has_members bit = 0, @has_edges bit = 0, @may_expire bit = 0, @has_keys bit = 0, @is_own bit = 0, @is_gone bit = 0, @again bit = 1,
    @keys int = 0, @place int, @ordinal int, @batch_id bigint, @job_id bigint, @tries int = 0, @first_id bigint, @wrong bigint,
    @texts nvarchar(max), @late bit = 0, @expired int,
    @looked int,  -- the last key whose job was found expired
    @max_depth int, @asked int, @room int, @full nvarchar(2048),
    @number int, @broken int,
    @refused_from int;  -- the first ordinal that is refused; NULL: none
DECLARE @numbered TABLE
(
    ordinal       int    NOT NULL PRIMARY KEY CLUSTERED,
    own_id        bigint NOT NULL,
    found_id      bigint NULL,  -- the job that already has this key
    time_limit_ms int    NULL,
    headers       nvarchar(1300) COLLATE Latin1_General_100_BIN2 NULL,
    batch_id      bigint         NULL,
    group_key     nvarchar(128)  COLLATE Latin1_General_100_BIN2 NULL,
    needs         varchar(1000)  COLLATE Latin1_General_100_BIN2 NULL,
    start_by      datetime2(3)   NULL,
    held          bit            NULL   -- 1: it waits for other jobs
);
-- Jobs with a key, in the order of the keys.
DECLARE @keyed TABLE
(
    place     int NOT NULL PRIMARY KEY CLUSTERED,
    ordinal   int NOT NULL,
    dedup_key nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL
);
DECLARE @batches TABLE (batch_id bigint NOT NULL PRIMARY KEY CLUSTERED);
DECLARE @added TABLE (parent_id bigint NOT NULL, child_id bigint NOT NULL, on_dead tinyint NOT NULL,
    PRIMARY KEY CLUSTERED (parent_id, child_id));
DECLARE @parents [$(schema)].[id_list];

SET @refused = NULL;
IF @on_bad IS NULL OR @on_bad NOT IN ('error', 'status')
    EXEC [$(schema)].[refuse] N'on_bad', @on_bad, N'error or status';
SELECT @queue_id = queue_id, @delivery = delivery, @max_depth = max_depth
FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @queue;
-- As in enqueue.
IF @on_bad = 'status'
    SET XACT_ABORT OFF;
BEGIN TRY
    IF @queue_id IS NULL
        EXEC [$(schema)].[unknown_queue] @queue;
    -- One scan for all rules. Of several that are broken, the highest number is reported. An empty list breaks none.
    SELECT @broken = MAX(CASE
            WHEN (payload IS NULL AND text IS NULL) OR (payload IS NOT NULL AND text IS NOT NULL) THEN 4
            WHEN delay_ms < 0 OR delay_ms > 315360000000 OR (delay_ms IS NOT NULL AND due_at IS NOT NULL) THEN 3
            WHEN max_attempts < 1 THEN 2
            WHEN kind = '' OR kind LIKE '%[^!-~]%' THEN 1
            ELSE 0 END),
        @has_keys = ISNULL(MAX(CASE WHEN dedup_key IS NULL THEN 0 ELSE 1 END), 0)
    FROM @jobs;
    IF @broken = 4
        THROW 58003, N'a job needs either a payload or a text', 1;
    IF @broken = 3
        THROW 58003, N'delay_ms must be 0 to 315360000000 (ten years), and cannot be combined with due_at', 1;
    IF @broken = 2
    BEGIN
        SELECT TOP (1) @wrong = max_attempts FROM @jobs WHERE max_attempts < 1;
        EXEC [$(schema)].[refuse] N'max_attempts', @wrong, N'1 or more';
    END;
    IF @broken = 1
        THROW 58003, N'kind must have 1 to 64 printable ASCII characters, no spaces', 1;
    IF @has_keys = 1 AND EXISTS (SELECT 1 FROM @jobs
        WHERE dedup_key = N'' OR DATALENGTH(dedup_key) <> DATALENGTH(LTRIM(RTRIM(dedup_key))))
        THROW 58003, N'dedup_key must have 1 to 256 characters, with no leading or trailing spaces', 1;
    IF @has_keys = 1
    BEGIN
        SET @texts = (SELECT STRING_AGG(CAST(dedup_key AS nvarchar(max)), N'.') FROM @jobs);
        EXEC [$(schema)].[check_text] N'dedup_key', @texts, 1;
    END;
    IF EXISTS (SELECT 1 FROM @details)
    BEGIN
        SET @has_details = 1;
        SELECT TOP (1) @wrong = time_limit_ms FROM @details WHERE time_limit_ms < 1 OR time_limit_ms > 2147483647;
        IF @wrong IS NOT NULL
            EXEC [$(schema)].[refuse] N'time_limit_ms', @wrong, N'1 to 2147483647 (24 days)';
        IF EXISTS (SELECT 1 FROM @details WHERE DATALENGTH(headers) > 2600 OR ISJSON(headers) = 0 OR headers NOT LIKE N'{%')
            THROW 58003, N'headers must be a JSON object of up to 1300 characters, which begins with {', 1;
        IF EXISTS (SELECT 1 FROM @details AS d CROSS APPLY OPENJSON(d.headers) AS h WHERE h.[key] LIKE N'readpast-%')
            THROW 58003, N'headers must not have names that begin with readpast-', 1;
        IF EXISTS (SELECT 1 FROM @details
            WHERE DATALENGTH(group_key) = 0 OR DATALENGTH(group_key) > 256
            OR DATALENGTH(group_key) <> DATALENGTH(LTRIM(RTRIM(group_key))))
            THROW 58003, N'group_key must have 1 to 128 characters, with no leading or trailing spaces', 1;
        SET @texts = (SELECT STRING_AGG(CAST(group_key AS nvarchar(max)), N'.') FROM @details);
        EXEC [$(schema)].[check_text] N'group_key', @texts, 1;
        SET @texts = (SELECT STRING_AGG(CAST(headers AS nvarchar(max)), N'.') FROM @details);
        EXEC [$(schema)].[check_text] N'headers', @texts;
        IF EXISTS (SELECT 1 FROM @details WHERE needs IS NOT NULL)
            EXEC [$(schema)].[check_needs] @details = @details;
        IF EXISTS (SELECT 1 FROM @details WHERE start_by IS NOT NULL OR start_within_ms IS NOT NULL)
            SET @may_expire = 1;
        SELECT TOP (1) @wrong = d.ordinal FROM @details AS d
            WHERE NOT EXISTS (SELECT 1 FROM @jobs AS n WHERE n.ordinal = d.ordinal);
        IF @wrong IS NOT NULL
            EXEC [$(schema)].[refuse] N'ordinal in details', @wrong, N'the ordinal of a job';
        IF @may_expire = 1
        BEGIN
            IF EXISTS (SELECT 1 FROM @details WHERE start_by IS NOT NULL AND start_within_ms IS NOT NULL)
                THROW 58003, N'start_by and start_within_ms cannot be combined', 1;
            SELECT TOP (1) @wrong = start_within_ms FROM @details
                WHERE start_within_ms < 1 OR start_within_ms > 315360000000;
            IF @wrong IS NOT NULL
                EXEC [$(schema)].[refuse] N'start_within_ms', @wrong, N'1 to 315360000000 (ten years)';
        END;
        IF EXISTS (SELECT 1 FROM @details WHERE batch_id IS NOT NULL OR group_key IS NOT NULL)
            SET @has_members = 1;
    END;
    IF @part_of IS NOT NULL OR @part IS NOT NULL
    BEGIN
        IF @part_of IS NULL OR @part IS NULL OR EXISTS (SELECT 1 FROM @details WHERE batch_id <> @part_of)
            THROW 58003, N'part_of and part must be given together, and batch_id must be NULL or part_of', 1;
        SET @has_members = 1;
    END;
    IF EXISTS (SELECT 1 FROM @edges)
    BEGIN
        SET @has_edges = 1;
        IF (SELECT COUNT(*) FROM @edges) > 10000
            THROW 58003, N'edges must have at most 10000 rows', 1;
        IF EXISTS (SELECT 1 FROM @edges
            WHERE (parent_id IS NULL AND parent_ordinal IS NULL) OR (parent_id IS NOT NULL AND parent_ordinal IS NOT NULL))
            THROW 58003, N'an edge needs either a parent_id or a parent_ordinal', 1;
        IF EXISTS (SELECT 1 FROM @edges WHERE on_dead NOT IN ('hold', 'cancel', 'run'))
            THROW 58003, N'on_dead must be hold, cancel or run', 1;
        SELECT TOP (1) @wrong = e.ordinal FROM @edges AS e
            WHERE NOT EXISTS (SELECT 1 FROM @jobs AS n WHERE n.ordinal = e.ordinal);
        IF @wrong IS NOT NULL
            EXEC [$(schema)].[refuse] N'ordinal in edges', @wrong, N'the ordinal of a job';
        SELECT TOP (1) @wrong = e.parent_ordinal FROM @edges AS e
            WHERE e.parent_ordinal >= e.ordinal
                OR e.parent_ordinal IS NOT NULL
                   AND NOT EXISTS (SELECT 1 FROM @jobs AS n WHERE n.ordinal = e.parent_ordinal);
        IF @wrong IS NOT NULL
            EXEC [$(schema)].[refuse] N'parent_ordinal in edges', @wrong, N'the ordinal of an earlier job';
    END;
    IF @has_members = 1 AND @delivery = 'at_most_once'
        THROW 58003,
            N'a queue with delivery at_most_once cannot have groups or batches, because its claims delete the jobs', 1;
    IF @has_edges = 1 AND @delivery = 'at_most_once'
        THROW 58003,
            N'jobs of a queue with delivery at_most_once cannot wait for others, because its claims delete the jobs', 1;
END TRY
BEGIN CATCH
    SET @number = ERROR_NUMBER();
    IF @on_bad = 'error' OR @number NOT BETWEEN 58000 AND 58999 OR XACT_STATE() = -1
    BEGIN
        SET XACT_ABORT ON;
        THROW;
    END;
    SET @refused = ERROR_MESSAGE();
    RETURN @number;
END CATCH;
SET XACT_ABORT ON;

IF @max_depth IS NOT NULL AND ISNULL(@force, 0) = 0
BEGIN
    IF @in_part IS NULL OR @report = 0 OR @part IS NOT NULL
        SET @in_part = 0;
    SET @asked = (SELECT COUNT(*) FROM @jobs);
    EXEC [$(schema)].[room] @queue_id, @queue, @max_depth, @asked, @room OUTPUT, @full OUTPUT;
    -- READCOMMITTEDLOCK: as in enqueue. TOP keeps one seek for each key.
    IF @room < @asked AND (@in_part = 1 OR @room = 0)
        AND NOT EXISTS (SELECT 1 FROM [$(schema)].[batch_additions]
            WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (batch_additions_part (batch_id, part)))
                        WHERE batch_id = @part_of AND part = @part AND part IS NOT NULL)
        SELECT @refused_from = MIN(r.ordinal)
        FROM (SELECT n.ordinal, ROW_NUMBER() OVER (ORDER BY n.ordinal) AS place
              FROM @jobs AS n
              OUTER APPLY (SELECT TOP (1) j.job_id
                           FROM [$(schema)].[jobs] AS j
                               WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
                           WHERE j.queue_id = @queue_id AND j.dedup_key = n.dedup_key AND j.dedup_key IS NOT NULL
                               AND j.ended = 0) AS u
              WHERE u.job_id IS NULL) AS r
        WHERE r.place > @room
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
    IF @refused_from IS NOT NULL AND @in_part = 0
    BEGIN
        SET @refused = @full;
        IF @on_bad = 'status'
            RETURN 58023;
        EXEC [$(schema)].[raise] 58023, @full, @dooms;
    END;
END;

INSERT @numbered (ordinal, own_id)
SELECT n.ordinal, NEXT VALUE FOR [$(schema)].[job_ids] OVER (ORDER BY n.ordinal)
FROM @jobs AS n
WHERE @refused_from IS NULL OR n.ordinal < @refused_from;
SELECT TOP (1) @first_id = own_id FROM @numbered ORDER BY ordinal;
IF @has_details = 1
    UPDATE i
    SET time_limit_ms = d.time_limit_ms, headers = d.headers, batch_id = d.batch_id, group_key = d.group_key,
        needs = d.needs
    FROM @details AS d
    INNER JOIN @numbered AS i ON i.ordinal = d.ordinal;
IF @may_expire = 1
    UPDATE i
    SET start_by = COALESCE(d.start_by,
        DATEADD(MILLISECOND, d.start_within_ms % 1000, DATEADD(SECOND, d.start_within_ms / 1000,
            COALESCE(CASE WHEN n.due_at >= '99891201' THEN '99891201' WHEN n.due_at > @now THEN n.due_at END,
                DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now))))
    FROM @details AS d
    INNER JOIN @numbered AS i ON i.ordinal = d.ordinal
    INNER JOIN @jobs AS n ON n.ordinal = d.ordinal;
IF @part IS NOT NULL
    UPDATE @numbered SET batch_id = @part_of;
IF @has_edges = 1
BEGIN
    UPDATE i SET held = 1 FROM @numbered AS i WHERE EXISTS (SELECT 1 FROM @edges AS e WHERE e.ordinal = i.ordinal);
    -- A job that does not exist yet would count as done.
    SELECT TOP (1) @wrong = e.parent_id
    FROM @edges AS e
    INNER JOIN @numbered AS i ON i.ordinal = e.ordinal
    WHERE e.parent_id < 1 OR e.parent_id >= i.own_id;
    IF @wrong IS NOT NULL
        EXEC [$(schema)].[refuse] N'parent_id in edges', @wrong, N'the id of a job';
END;

IF @has_keys = 1
BEGIN
    INSERT @keyed (place, ordinal, dedup_key)
    SELECT ROW_NUMBER() OVER (ORDER BY n.dedup_key, n.ordinal), n.ordinal, n.dedup_key FROM @jobs AS n
        WHERE n.dedup_key IS NOT NULL AND (@refused_from IS NULL OR n.ordinal < @refused_from);
    SET @keys = (SELECT COUNT(*) FROM @keyed);
END;
IF @has_members = 1
    INSERT @batches (batch_id) SELECT DISTINCT i.batch_id FROM @numbered AS i WHERE i.batch_id IS NOT NULL;
IF (@has_keys = 1 OR @has_members = 1 OR @has_edges = 1) AND @@TRANCOUNT = 0
    SET @is_own = 1;

WHILE @again = 1
BEGIN
    SET @again = 0;
    SET @place = 1;
    SET @looked = 0;
    IF @is_own = 1
        BEGIN TRANSACTION;
    IF @has_members = 1
    BEGIN
        EXEC [$(schema)].[link_queue] @queue_id;
        -- Batches are locked before jobs, in the order of their ids.
        IF @part IS NOT NULL
            EXEC [$(schema)].[lock_batch] @part_of;
        SET @batch_id = (SELECT TOP (1) batch_id FROM @batches ORDER BY batch_id);
        WHILE @batch_id IS NOT NULL
        BEGIN
            EXEC [$(schema)].[lock_batch] @batch_id;
            SET @batch_id = (SELECT TOP (1) batch_id FROM @batches WHERE batch_id > @batch_id ORDER BY batch_id);
        END;
    END;
    IF @part IS NOT NULL
    BEGIN
        -- READCOMMITTEDLOCK: waits for a session that is adding this part, as in enqueue.
        IF EXISTS (SELECT 1 FROM [$(schema)].[batch_additions]
            WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (batch_additions_part (batch_id, part)))
                   WHERE batch_id = @part_of AND part = @part AND part IS NOT NULL)
        BEGIN
            IF @is_own = 1
                COMMIT TRANSACTION;
            IF @report = 1
                SELECT i.ordinal, i.own_id AS job_id, CAST(0 AS bit) AS duplicate, @full AS refused FROM @numbered AS i
                    WHERE i.ordinal IS NULL;
            RETURN 0;
        END;
        INSERT [$(schema)].[batch_additions] WITH (ROWLOCK) (batch_id, jobs, part) VALUES (@part_of, 0, @part);
    END;
    INSERT [$(schema)].[jobs] WITH (ROWLOCK)
        (job_id, queue_id, state, priority, max_attempts, enqueued_at, due_at, correlation_id, kind,
         payload_utf16, payload, time_limit_ms, headers, batch_id, group_key, needs, start_by, held, plain)
    SELECT i.own_id, @queue_id,
           CASE WHEN i.held = 1 THEN 6 WHEN n.due_at > @now OR n.delay_ms > 0 THEN 1 WHEN i.group_key IS NOT NULL THEN 6 ELSE 0 END,
           ISNULL(n.priority, 0), n.max_attempts, @now,
           COALESCE(CASE WHEN n.due_at > @now THEN n.due_at END,
               DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now),
           n.correlation_id, n.kind, CASE WHEN n.text IS NULL THEN 0 ELSE 1 END,
           ISNULL(n.payload, CAST(n.text AS varbinary(max))), i.time_limit_ms, i.headers, i.batch_id, i.group_key,
           i.needs, i.start_by, i.held, CASE WHEN @has_details = 0 AND @part IS NULL AND n.correlation_id IS NULL AND i.held IS NULL
                           THEN 1 END
    FROM @jobs AS n
    INNER JOIN @numbered AS i ON i.ordinal = n.ordinal
    WHERE n.dedup_key IS NULL
    OPTION (MAXDOP 1, KEEPFIXED PLAN);

    -- Each step seeks, so that the list is not scanned for each job. The lookup also finds earlier jobs of this call.
    WHILE @place <= @keys AND @again = 0
    BEGIN
        SELECT @ordinal = k.ordinal, @job_id = j.job_id
        FROM @keyed AS k
        LEFT LOOP JOIN [$(schema)].[jobs] AS j
            WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (jobs_dedup (queue_id, dedup_key)))
            ON j.queue_id = @queue_id AND j.dedup_key = k.dedup_key AND j.dedup_key IS NOT NULL AND j.ended = 0
        WHERE k.place = @place
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        -- As in enqueue.
        IF @job_id IS NOT NULL AND @looked < @place
            SELECT TOP (1) @late = 1
            FROM [$(schema)].[jobs] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK, FORCESEEK (jobs_pk (job_id)))
            WHERE job_id = @job_id AND start_by <= @now AND ended = 0 AND state <> 2 AND group_key IS NULL
                AND batch_id IS NULL
            OPTION (MAXDOP 1, KEEPFIXED PLAN);
        IF @late = 1
        BEGIN
            EXEC [$(schema)].[cancel_expired] @queue_id, 0, @expired OUTPUT, @job_id;
            SELECT @late = 0, @looked = @place;
            CONTINUE;
        END;
        IF @job_id IS NOT NULL
        BEGIN
            UPDATE @numbered SET found_id = @job_id WHERE ordinal = @ordinal;
            SET @place = @place + 1;
        END;
        ELSE
        BEGIN
            SET XACT_ABORT OFF;
            BEGIN TRY
                INSERT [$(schema)].[jobs] WITH (ROWLOCK)
                    (job_id, queue_id, state, priority, max_attempts, enqueued_at, due_at, correlation_id, kind,
                     dedup_key, payload_utf16, payload, time_limit_ms, headers, batch_id, group_key, needs, start_by,
                     held)
                SELECT i.own_id, @queue_id,
                    CASE WHEN i.held = 1 THEN 6 WHEN n.due_at > @now OR n.delay_ms > 0 THEN 1 WHEN i.group_key IS NOT NULL THEN 6 ELSE 0 END,
                    ISNULL(n.priority, 0), n.max_attempts, @now,
                    COALESCE(CASE WHEN n.due_at > @now THEN n.due_at END,
                        DATEADD(MILLISECOND, n.delay_ms % 1000, DATEADD(SECOND, n.delay_ms / 1000, @now)), @now),
                    n.correlation_id, n.kind, n.dedup_key, CASE WHEN n.text IS NULL THEN 0 ELSE 1 END,
                    ISNULL(n.payload, CAST(n.text AS varbinary(max))), i.time_limit_ms, i.headers, i.batch_id,
                    i.group_key, i.needs, i.start_by, i.held
                FROM @jobs AS n
                INNER LOOP JOIN @numbered AS i ON i.ordinal = n.ordinal
                WHERE n.ordinal = @ordinal
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
                SET @place = @place + 1;
            END TRY
            BEGIN CATCH
                -- Handles the duplicate key as enqueue does.
                SET XACT_ABORT ON;
                SET @tries = @tries + 1;
                IF ERROR_NUMBER() <> 2601 OR XACT_STATE() = -1 OR @tries = 100
                    THROW;
                IF @is_own = 1
                BEGIN
                    ROLLBACK TRANSACTION;
                    UPDATE @numbered SET found_id = NULL WHERE found_id IS NOT NULL;
                    SET @again = 1;
                END;
            END CATCH;
            SET XACT_ABORT ON;
        END;
    END;
    -- As in enqueue: the queue may have been deleted.
    IF @again = 0 AND NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
        WHERE queue_id = @queue_id)
    BEGIN
        SET XACT_ABORT OFF;
        BEGIN TRY
            IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues]
                WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                           WHERE queue_id = @queue_id)
                SET @is_gone = 1;
        END TRY
        BEGIN CATCH
            IF XACT_STATE() = -1 OR ERROR_NUMBER() <> 1222
                THROW;
        END CATCH;
        SET XACT_ABORT ON;
        IF @is_gone = 1
        BEGIN
            IF @@TRANCOUNT = 0
                DELETE j
                FROM @numbered AS i
                INNER LOOP JOIN [$(schema)].[jobs] AS j WITH (ROWLOCK, FORCESEEK, INDEX (jobs_pk))
                    ON j.job_id = i.own_id
                OPTION (MAXDOP 1, KEEPFIXED PLAN);
            EXEC [$(schema)].[unknown_queue] @queue;
        END;
    END;
    IF @has_members = 1 AND @again = 0
    BEGIN
        INSERT [$(schema)].[batch_additions] WITH (ROWLOCK) (batch_id, jobs)
        SELECT i.batch_id, COUNT(*) FROM @numbered AS i WHERE i.batch_id IS NOT NULL AND i.found_id IS NULL
            GROUP BY i.batch_id;
        INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
        SELECT @queue_id, i.group_key, 0, MIN(i.own_id) FROM @numbered AS i
            WHERE i.group_key IS NOT NULL AND i.found_id IS NULL AND i.held IS NULL GROUP BY i.group_key;
    END;
    IF @has_edges = 1 AND @again = 0
    BEGIN
        -- The queue of the children: see note_edges.
        EXEC [$(schema)].[link_queue] @queue_id;
        INSERT @added (parent_id, child_id, on_dead)
        SELECT a.parent_id, a.child_id, MIN(a.on_dead)
        FROM (SELECT COALESCE(e.parent_id, p.found_id, p.own_id) AS parent_id, i.own_id AS child_id,
                  CASE e.on_dead WHEN 'cancel' THEN 1 WHEN 'run' THEN 2 ELSE 0 END AS on_dead
              FROM @edges AS e
              INNER JOIN @numbered AS i ON i.ordinal = e.ordinal
              LEFT JOIN @numbered AS p ON p.ordinal = e.parent_ordinal
              WHERE i.found_id IS NULL) AS a
        GROUP BY a.parent_id, a.child_id;
        INSERT [$(schema)].[edges] WITH (ROWLOCK) (parent_id, child_id, on_dead)
        SELECT a.parent_id, a.child_id, a.on_dead FROM @added AS a
        OPTION (MAXDOP 1, KEEPFIXED PLAN);
        INSERT @parents (job_id) SELECT DISTINCT a.parent_id FROM @added AS a;
        EXEC [$(schema)].[watch_parents] @parents;
    END;
    IF @is_own = 1 AND @again = 0
        COMMIT TRANSACTION;
END;
IF @has_members = 1
    EXEC [$(schema)].[advance_groups] @queue_id;
IF @has_edges = 1
    EXEC [$(schema)].[advance_edges];

-- As in enqueue: claims may have passed these ids, and an error must not fail the call.
IF @@TRANCOUNT = 0
BEGIN
    SET XACT_ABORT OFF;
    BEGIN TRY
        IF EXISTS (SELECT 1 FROM [$(schema)].[marks] WITH (NOLOCK) WHERE queue_id = @queue_id AND job_id > @first_id)
            EXEC [$(schema)].[lower_marks] @queue_id, @first_id;
    END TRY
    BEGIN CATCH
        SET @again = 0;  -- the next sweep finds them
    END CATCH;
END;

IF @report = 0
    RETURN 0;

SELECT i.ordinal, ISNULL(i.found_id, i.own_id) AS job_id,
    CAST(CASE WHEN i.found_id IS NULL THEN 0 ELSE 1 END AS bit) AS duplicate, CAST(NULL AS nvarchar(2048)) AS refused
FROM @numbered AS i
UNION ALL
SELECT n.ordinal, NULL, CAST(0 AS bit), @full
FROM @jobs AS n
WHERE n.ordinal >= @refused_from;
RETURN 0;
GO
