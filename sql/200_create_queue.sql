-- Creates a queue, or changes the settings of an existing one. NULL keeps a setting, or means the default for a new
-- queue. Inside a transaction, such as a migration, the call can only create a queue, because a change would block the
-- queue until the commit. Result: queue_id, created. Parameters are wider than the longest value, so that a longer one
-- is rejected, not cut.
CREATE OR ALTER PROCEDURE [$(schema)].[create_queue]
    @queue        nvarchar(129),
    @claim_order  varchar(32)   = NULL,  -- fifo (default), lifo, any
    @completion   varchar(32)   = NULL,  -- delete (default), annotate, archive
    @delivery     varchar(32)   = NULL,  -- at_least_once (default), at_most_once
    @max_attempts int           = NULL,  -- 5 by default; 1 and more
    @keep_done_s  int           = NULL,  -- how many seconds done jobs are kept, up to ten years; 0 (default): for ever
    @keep_dead_s  int           = NULL,  -- how many seconds dead jobs are kept, as @keep_done_s
    @sink         nvarchar(517) = NULL,  -- schema.name of the procedure for done jobs; empty (default): none
    @group_limit  int           = NULL,  -- how many jobs of a group may have a turn: 1 (default) to 1000
    @retry_passes bit           = NULL,  -- 1: a retried job passes its turn on; 0 (default): it keeps the turn
    @max_running  int           = NULL,  -- how many jobs all workers may hold, up to 100000; 0 (default): no limit
    @rate_jobs    int           = NULL,  -- how many jobs may be claimed in any @rate_ms; 0 (default): no limit
    @rate_ms      bigint        = NULL,  -- with @rate_jobs: 100 to 86400000 (a day)
    @dead_queue   nvarchar(129) = NULL,  -- the queue that dead jobs go to; empty (default): they stay
    @max_depth    int           = NULL,  -- how many unfinished jobs enqueue allows; 0 (default): no limit
    @halt_groups  bit           = NULL,  -- 1: a dead job of a group keeps its turn until it is requeued, skipped or
                                         -- deleted; 0 (default): the next one has it
    @age_after_ms bigint        = NULL,  -- a ready job counts as one priority higher for each such time that it has
                                         -- waited: 1000 to 31536000000 (a year); 0 (default): never
    @fair         bit           = NULL,   -- 1: groups share the queue by their weights, and take no turns; 0 (default)
    @audit_id     bigint = NULL  -- the caller's entry in the audit (begin_audit); NULL: this call adds one
AS
SET NOCOUNT, CONCAT_NULL_YIELDS_NULL ON;
-- adopt: refuse_options
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048), @sink_id int, @is_inside bit = 0, @dead_delivery varchar(13),
    @dead_name nvarchar(128);

SET IMPLICIT_TRANSACTIONS OFF;  -- a client's setting would leave a transaction open after this call
IF @@TRANCOUNT > 0
BEGIN
    SET @is_inside = 1;
    IF EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_name (name)))
        WHERE name = @queue)
        THROW 58003, N'create_queue cannot change a queue inside a transaction; COMMIT or ROLLBACK it first', 1;
END;

IF @queue IS NULL OR LEN(@queue) = 0 OR DATALENGTH(@queue) > 256
    OR DATALENGTH(@queue) <> DATALENGTH(LTRIM(RTRIM(@queue)))
    THROW 58003, N'queue must have 1 to 128 characters, with no leading or trailing spaces', 1;
EXEC [$(schema)].[check_text] N'the name of a queue', @queue;
-- Stores the words in lower case, however the caller spells them: the database's collation may ignore case.
SET @claim_order = CASE @claim_order WHEN 'fifo' THEN 'fifo' WHEN 'lifo' THEN 'lifo' WHEN 'any' THEN 'any'
    ELSE @claim_order END;
SET @completion = CASE @completion WHEN 'delete' THEN 'delete' WHEN 'annotate' THEN 'annotate'
    WHEN 'archive' THEN 'archive' ELSE @completion END;
SET @delivery = CASE @delivery WHEN 'at_least_once' THEN 'at_least_once' WHEN 'at_most_once' THEN 'at_most_once'
    ELSE @delivery END;
IF @claim_order NOT IN ('fifo', 'lifo', 'any')
    EXEC [$(schema)].[refuse] N'claim_order', @claim_order, N'fifo, lifo or any';
IF @completion NOT IN ('delete', 'annotate', 'archive')
    EXEC [$(schema)].[refuse] N'completion', @completion, N'delete, annotate or archive';
IF @delivery NOT IN ('at_least_once', 'at_most_once')
    EXEC [$(schema)].[refuse] N'delivery', @delivery, N'at_least_once or at_most_once';
IF @max_attempts < 1
    EXEC [$(schema)].[refuse] N'max_attempts', @max_attempts, N'1 or more';
IF @keep_done_s < 0 OR @keep_done_s > 315360000
    EXEC [$(schema)].[refuse] N'keep_done_s', @keep_done_s, N'1 to 315360000 (ten years), or 0 for ever';
IF @keep_dead_s < 0 OR @keep_dead_s > 315360000
    EXEC [$(schema)].[refuse] N'keep_dead_s', @keep_dead_s, N'1 to 315360000 (ten years), or 0 for ever';
IF @group_limit < 1 OR @group_limit > 1000
    EXEC [$(schema)].[refuse] N'group_limit', @group_limit, N'1 to 1000';
IF @max_running < 0 OR @max_running > 100000
    EXEC [$(schema)].[refuse] N'max_running', @max_running, N'1 to 100000, or 0 for no limit';
IF @max_depth < 0
    EXEC [$(schema)].[refuse] N'max_depth', @max_depth, N'1 or more, or 0 for no limit';
IF @age_after_ms <> 0 AND @age_after_ms NOT BETWEEN 1000 AND 31536000000
    EXEC [$(schema)].[refuse] N'age_after_ms', @age_after_ms, N'1000 to 31536000000 (a year), or 0 for never';
IF @rate_jobs < 0 OR @rate_jobs > 0 AND ISNULL(@rate_ms, 0) NOT BETWEEN 100 AND 86400000 OR ISNULL(@rate_jobs, 0) = 0
    AND @rate_ms IS NOT NULL
BEGIN
    SET @message = CONCAT(N'rate_jobs is ', @rate_jobs, N', rate_ms ', @rate_ms, N'; rate_jobs must be 1 or more ',
        N'with rate_ms 100 to 86400000 (a day), or 0 for no limit without rate_ms');
    THROW 58003, @message, 1;
END;
-- BIN2, as the column: in other collations, different names may be equal, and emoji may be equal to N''.
IF @dead_queue COLLATE Latin1_General_100_BIN2 = @queue COLLATE Latin1_General_100_BIN2
    EXEC [$(schema)].[refuse] N'dead_queue', @dead_queue, N'another queue';
IF DATALENGTH(@dead_queue) > 0
BEGIN
    -- Stores the name as that queue has it, without the trailing spaces that a comparison ignores.
    SELECT @dead_name = name, @dead_delivery = delivery
    FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name))) WHERE name = @dead_queue;
    IF @dead_name IS NULL
        EXEC [$(schema)].[unknown_queue] @dead_queue;
    IF @dead_delivery = 'at_most_once'
        EXEC [$(schema)].[refuse] N'dead_queue', @dead_queue, N'a queue with delivery at_least_once';
END;
-- The catalog shows only objects that the caller may use or see. Setting a sink therefore requires EXECUTE or VIEW
-- DEFINITION.
IF @sink <> N''
BEGIN
    SET @sink_id = OBJECT_ID(@sink, N'P');
    IF @sink_id IS NULL
        EXEC [$(schema)].[refuse] N'sink', @sink,
            N'a procedure of this database on which you have EXECUTE or VIEW DEFINITION';
    IF (SELECT COUNT(*) FROM sys.parameters WHERE object_id = @sink_id) <> 1
        OR NOT EXISTS (SELECT 1 FROM sys.parameters
            WHERE object_id = @sink_id AND user_type_id = TYPE_ID(N'[$(schema)].[sink_list]'))
        EXEC [$(schema)].[refuse] N'sink', @sink, N'a procedure with one parameter, a [$(schema)].[sink_list] READONLY';
    SET @sink = CONCAT(QUOTENAME(OBJECT_SCHEMA_NAME(@sink_id)), N'.', QUOTENAME(OBJECT_NAME(@sink_id)));
END;

DECLARE @queue_id int, @old_order varchar(4), @old_delivery varchar(13), @old_sink nvarchar(517), @old_running int,
    @old_rate int, @old_dead_queue nvarchar(128), @old_age bigint, @old_fair bit,
    @old_limit int, @old_halts bit, @created bit = 0, @same bit = 0, @own bigint,
    @action varchar(32), @members nvarchar(max);

BEGIN TRANSACTION;
-- HOLDLOCK: sessions that create the same queue wait here instead of failing with a duplicate key. It is not used in a
-- caller's transaction, where it would also lock the neighbouring name. The second session then fails with error 2627.
IF @is_inside = 0
    SELECT @queue_id = queue_id, @old_order = claim_order, @old_delivery = delivery, @old_sink = sink,
           @old_running = max_running, @old_rate = rate_jobs, @old_dead_queue = dead_queue,
           @old_age = age_after_ms, @old_fair = fair, @old_limit = group_limit, @old_halts = halt_groups,
           @same = CASE WHEN ISNULL(@claim_order, claim_order) = claim_order
               AND ISNULL(@completion, completion) = completion AND ISNULL(@delivery, delivery) = delivery
               AND ISNULL(@max_attempts, max_attempts) = max_attempts
               AND COALESCE(@keep_done_s, keep_done_s, 0) = ISNULL(keep_done_s, 0)
               AND COALESCE(@keep_dead_s, keep_dead_s, 0) = ISNULL(keep_dead_s, 0)
               AND COALESCE(@sink, sink, N'') COLLATE Latin1_General_100_BIN2
                   = ISNULL(sink, N'') COLLATE Latin1_General_100_BIN2 AND ISNULL(@group_limit, group_limit) = group_limit
               AND ISNULL(@retry_passes, retry_passes) = retry_passes
               AND COALESCE(@max_running, max_running, 0) = ISNULL(max_running, 0)
               AND COALESCE(@rate_jobs, rate_jobs, 0) = ISNULL(rate_jobs, 0)
               AND COALESCE(@rate_ms, rate_ms, 0) = ISNULL(rate_ms, 0)
               AND COALESCE(@dead_queue, dead_queue, N'') = ISNULL(dead_queue, N'')
               AND COALESCE(@max_depth, max_depth, 0) = ISNULL(max_depth, 0)
               AND ISNULL(@halt_groups, halt_groups) = halt_groups
               AND COALESCE(@age_after_ms, age_after_ms, 0) = ISNULL(age_after_ms, 0) AND ISNULL(@fair, fair) = fair
               THEN 1 ELSE 0 END
    FROM [$(schema)].[queues] WITH (UPDLOCK, HOLDLOCK, FORCESEEK (queues_name (name)))
    WHERE name = @queue;

IF COALESCE(@delivery, @old_delivery) = 'at_most_once' AND COALESCE(@sink, @old_sink) <> N''
    THROW 58003, N'a queue with delivery at_most_once cannot have a sink, because its claims delete the jobs', 1;

IF COALESCE(@delivery, @old_delivery) = 'at_most_once' AND DATALENGTH(COALESCE(@dead_queue, @old_dead_queue)) > 0
    THROW 58003, N'a queue with delivery at_most_once cannot have a dead_queue, because its claims delete the jobs', 1;

IF COALESCE(@delivery, @old_delivery) = 'at_most_once'
    AND (COALESCE(@max_running, @old_running) > 0 OR COALESCE(@rate_jobs, @old_rate) > 0)
    THROW 58003, N'a queue with delivery at_most_once cannot have limits, because its claims delete the jobs', 1;

IF COALESCE(@age_after_ms, @old_age) > 0
    AND (COALESCE(@claim_order, @old_order) = 'lifo' OR COALESCE(@delivery, @old_delivery) = 'at_most_once'
         OR COALESCE(@max_running, @old_running) > 0 OR COALESCE(@rate_jobs, @old_rate) > 0)
    THROW 58003,
        N'a queue with age_after_ms cannot have claim_order lifo, delivery at_most_once, max_running or rate_jobs', 1;

IF COALESCE(@fair, @old_fair) = 1
BEGIN
    SET @message = CASE WHEN COALESCE(@claim_order, @old_order) = 'lifo' THEN N'claim_order lifo'
        WHEN COALESCE(@delivery, @old_delivery) = 'at_most_once' THEN N'delivery at_most_once'
        WHEN COALESCE(@max_running, @old_running) > 0 THEN N'max_running'
        WHEN COALESCE(@rate_jobs, @old_rate) > 0 THEN N'rate_jobs'
        WHEN COALESCE(@age_after_ms, @old_age) > 0 THEN N'age_after_ms'
        WHEN COALESCE(@halt_groups, @old_halts) = 1 THEN N'halt_groups'
        WHEN COALESCE(@group_limit, @old_limit) > 1 THEN N'a group_limit above 1' END;
    IF @message IS NOT NULL
    BEGIN
        SET @message = CONCAT(N'a fair queue cannot have ', @message);
        THROW 58003, @message, 1;
    END;
END;

-- Programs may call this at each start, so an unchanged queue adds no entry.
IF @same = 0
BEGIN
    SET @action = CASE WHEN @queue_id IS NULL THEN 'create_queue' ELSE 'set_queue' END;
    SET @members = CONCAT(N',"claim_order":"' + @claim_order + N'"',
        N',"completion":"' + @completion + N'"', N',"delivery":"' + @delivery + N'"',
        N',"max_attempts":' + CAST(@max_attempts AS varchar(20)),
        N',"keep_done_s":' + CAST(@keep_done_s AS varchar(20)), N',"keep_dead_s":' + CAST(@keep_dead_s AS varchar(20)),
        N',"sink":"' + STRING_ESCAPE(@sink, 'json') + N'"', N',"group_limit":' + CAST(@group_limit AS varchar(20)),
        N',"retry_passes":' + CAST(@retry_passes AS varchar(20)), N',"max_running":' + CAST(@max_running AS varchar(20)),
        N',"rate_jobs":' + CAST(@rate_jobs AS varchar(20)), N',"rate_ms":' + CAST(@rate_ms AS varchar(20)),
        N',"dead_queue":"' + STRING_ESCAPE(@dead_queue, 'json') + N'"',
        N',"max_depth":' + CAST(@max_depth AS varchar(20)), N',"halt_groups":' + CAST(@halt_groups AS varchar(20)),
        N',"age_after_ms":' + CAST(@age_after_ms AS varchar(20)), N',"fair":' + CAST(@fair AS varchar(20)));
    EXEC [$(schema)].[note_action] @audit_id, @action, @queue, @own OUTPUT, @members;
END;

IF @queue_id IS NULL
BEGIN
    INSERT [$(schema)].[queues] (name, claim_order, completion, delivery, max_attempts, keep_done_s, keep_dead_s, sink,
                                   group_limit, retry_passes, max_running, rate_jobs, rate_ms, dead_queue,
                                   max_depth, halt_groups, age_after_ms, fair)
    VALUES (@queue, ISNULL(@claim_order, 'fifo'), ISNULL(@completion, 'delete'), ISNULL(@delivery, 'at_least_once'),
            ISNULL(@max_attempts, 5), NULLIF(@keep_done_s, 0), NULLIF(@keep_dead_s, 0), NULLIF(@sink, N''),
            ISNULL(@group_limit, 1), ISNULL(@retry_passes, 0), NULLIF(@max_running, 0), NULLIF(@rate_jobs, 0),
            @rate_ms, @dead_name, NULLIF(@max_depth, 0), ISNULL(@halt_groups, 0),
            NULLIF(@age_after_ms, 0), ISNULL(@fair, 0));
    SET @queue_id = CAST(SCOPE_IDENTITY() AS int);
    INSERT [$(schema)].[duties] (queue_id) VALUES (@queue_id);
    INSERT [$(schema)].[depths] (queue_id) VALUES (@queue_id);
    SET @created = 1;
END;
ELSE
BEGIN
    UPDATE [$(schema)].[queues]
    SET claim_order  = ISNULL(@claim_order, claim_order),
        completion   = ISNULL(@completion, completion),
        delivery     = ISNULL(@delivery, delivery),
        max_attempts = ISNULL(@max_attempts, max_attempts),
        keep_done_s  = CASE WHEN @keep_done_s IS NULL THEN keep_done_s ELSE NULLIF(@keep_done_s, 0) END,
        keep_dead_s  = CASE WHEN @keep_dead_s IS NULL THEN keep_dead_s ELSE NULLIF(@keep_dead_s, 0) END,
        sink         = CASE WHEN @sink IS NULL THEN sink ELSE NULLIF(@sink, N'') END,
        group_limit  = ISNULL(@group_limit, group_limit),
        retry_passes = ISNULL(@retry_passes, retry_passes),
        max_running  = CASE WHEN @max_running IS NULL THEN max_running ELSE NULLIF(@max_running, 0) END,
        limited_at   = CASE WHEN @max_running <> ISNULL(max_running, 0) THEN SYSUTCDATETIME() ELSE limited_at END,
        places_known = CASE WHEN @max_running <> ISNULL(max_running, 0) THEN 0 ELSE places_known END,
        rate_jobs    = CASE WHEN @rate_jobs IS NULL THEN rate_jobs ELSE NULLIF(@rate_jobs, 0) END,
        rate_ms      = CASE WHEN @rate_jobs IS NULL THEN rate_ms ELSE @rate_ms END,
        dead_queue   = CASE WHEN @dead_queue IS NULL THEN dead_queue ELSE @dead_name END,
        max_depth    = CASE WHEN @max_depth IS NULL THEN max_depth ELSE NULLIF(@max_depth, 0) END,
        halt_groups  = ISNULL(@halt_groups, halt_groups),
        age_after_ms = CASE WHEN @age_after_ms IS NULL THEN age_after_ms ELSE NULLIF(@age_after_ms, 0) END,
        fair         = ISNULL(@fair, fair)
    WHERE queue_id = @queue_id;
    -- This check follows the change. link_queue also writes first and then reads this setting, so at least one of two
    -- concurrent sessions sees the other's change.
    IF @delivery = 'at_most_once' AND @old_delivery <> 'at_most_once'
        AND EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (NOLOCK) WHERE queue_id = @queue_id)
        THROW 58003, N'a queue that has had groups, batches or edges cannot have delivery at_most_once', 1;
END;
-- These checks, too, follow the change, so of two sessions that change a queue and its dead queue (or delete the
-- latter), at least one sees the other's change.
IF @dead_name IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_name (name)))
                    WHERE name = @dead_name AND delivery = 'at_least_once')
    EXEC [$(schema)].[refuse] N'dead_queue', @dead_name, N'a queue with delivery at_least_once';
IF @delivery = 'at_most_once' AND EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK) WHERE dead_queue = @queue)
    THROW 58003,
        N'the dead_queue of another queue cannot have delivery at_most_once, because its claims delete the jobs', 1;
IF @own IS NOT NULL
    EXEC [$(schema)].[end_audit] @own;
COMMIT TRANSACTION;

-- As other queues; after the commit, so that pause_all finds the queue, or this finds the hold.
IF @created = 1 AND EXISTS (SELECT 1 FROM [$(schema)].[holds] WITH (NOLOCK))
    UPDATE [$(schema)].[queues] WITH (ROWLOCK)
    SET paused = paused % 2 + (SELECT ISNULL(SUM(CAST(h.hold AS int)), 0) FROM [$(schema)].[holds] AS h)
    WHERE queue_id = @queue_id;

-- Resets the marks after a change of the order. Jobs below a lifo queue's gaps are ready, and claims of the other
-- orders must not start above them. Observations of claims and sweeps under the old order no longer count. If the marks
-- are not reset (in a caller's transaction), the next sweep finds such jobs.
IF @old_order <> @claim_order AND 'lifo' IN (@old_order, @claim_order)
    EXEC [$(schema)].[lower_marks] @queue_id, 0;

-- The next promote gives turns to groups whose jobs have waited for their share.
IF @old_fair = 1 AND @fair = 0
    INSERT [$(schema)].[group_events] WITH (ROWLOCK) (queue_id, group_key, ended, job_id)
    SELECT @queue_id, group_key, 0, from_id FROM [$(schema)].[groups] WITH (NOLOCK)
    WHERE queue_id = @queue_id AND in_turn = 0;

SELECT @queue_id AS queue_id, @created AS created;
GO
