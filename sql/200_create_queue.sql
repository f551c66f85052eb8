-- Creates a queue, or changes the settings of an existing one; NULL leaves a setting as it is (for a new queue: the default).
-- What is no longer to be kept is deleted by the workers, see expire.
-- Result: queue_id, created.
-- Parameters are wider than the longest value, so that a longer one is refused and not cut.
CREATE OR ALTER PROCEDURE [$(schema)].[create_queue]
    @queue        nvarchar(129),
    @claim_order  varchar(32)   = NULL,  -- fifo (default), lifo, any
    @completion   varchar(32)   = NULL,  -- delete (default), annotate, archive
    @delivery     varchar(32)   = NULL,  -- at_least_once (default), at_most_once
    @max_attempts int           = NULL,  -- 5 by default; 1 and more
    @keep_done_s  int           = NULL,  -- how many seconds done jobs are kept (annotate, archive), up to ten years; 0: for ever (default)
    @keep_dead_s  int           = NULL,  -- the same of dead jobs
    @sink         nvarchar(517) = NULL   -- the procedure that finish calls with the jobs that are done, as schema.name; empty: none (default)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048), @sink_id int;

IF @queue IS NULL OR LEN(@queue) = 0 OR DATALENGTH(@queue) > 256 OR DATALENGTH(@queue) <> DATALENGTH(LTRIM(RTRIM(@queue)))
    THROW 58003, N'the name of a queue must have 1 to 128 characters, without spaces at its ends', 1;
-- In the words' own spelling, whatever the database's collation takes for equal to them.
SET @claim_order = CASE @claim_order WHEN 'fifo' THEN 'fifo' WHEN 'lifo' THEN 'lifo' WHEN 'any' THEN 'any' ELSE @claim_order END;
SET @completion = CASE @completion WHEN 'delete' THEN 'delete' WHEN 'annotate' THEN 'annotate' WHEN 'archive' THEN 'archive' ELSE @completion END;
SET @delivery = CASE @delivery WHEN 'at_least_once' THEN 'at_least_once' WHEN 'at_most_once' THEN 'at_most_once' ELSE @delivery END;
IF @claim_order NOT IN ('fifo', 'lifo', 'any')
BEGIN
    SET @message = CONCAT(N'claim_order is ''', @claim_order, N'''; it must be fifo, lifo or any');
    THROW 58003, @message, 1;
END;
IF @completion NOT IN ('delete', 'annotate', 'archive')
BEGIN
    SET @message = CONCAT(N'completion is ''', @completion, N'''; it must be delete, annotate or archive');
    THROW 58003, @message, 1;
END;
IF @delivery NOT IN ('at_least_once', 'at_most_once')
BEGIN
    SET @message = CONCAT(N'delivery is ''', @delivery, N'''; it must be at_least_once or at_most_once');
    THROW 58003, @message, 1;
END;
IF @max_attempts < 1
BEGIN
    SET @message = CONCAT(N'max_attempts is ', @max_attempts, N'; it must be 1 or more');
    THROW 58003, @message, 1;
END;
IF @keep_done_s < 0 OR @keep_done_s > 315360000
BEGIN
    SET @message = CONCAT(N'keep_done_s is ', @keep_done_s, N'; it must be between 1 and 315360000 (ten years), or 0 for ever');
    THROW 58003, @message, 1;
END;
IF @keep_dead_s < 0 OR @keep_dead_s > 315360000
BEGIN
    SET @message = CONCAT(N'keep_dead_s is ', @keep_dead_s, N'; it must be between 1 and 315360000 (ten years), or 0 for ever');
    THROW 58003, @message, 1;
END;
-- The catalog shows only what the caller may use or see: so who sets a sink must have the right to call it, or to see its definition.
IF @sink <> N''
BEGIN
    SET @sink_id = OBJECT_ID(@sink, N'P');
    IF @sink_id IS NULL
    BEGIN
        SET @message = CONCAT(N'sink is ''', @sink, N'''; it must be a procedure of this database on which you have EXECUTE or VIEW DEFINITION');
        THROW 58003, @message, 1;
    END;
    IF (SELECT COUNT(*) FROM sys.parameters WHERE object_id = @sink_id) <> 1
        OR NOT EXISTS (SELECT 1 FROM sys.parameters WHERE object_id = @sink_id AND user_type_id = TYPE_ID(N'[$(schema)].[sink_list]'))
    BEGIN
        SET @message = CONCAT(N'sink is ''', @sink, N'''; it must be a procedure with one parameter, a [$(schema)].[sink_list] READONLY');
        THROW 58003, @message, 1;
    END;
    SET @sink = CONCAT(QUOTENAME(OBJECT_SCHEMA_NAME(@sink_id)), N'.', QUOTENAME(OBJECT_NAME(@sink_id)));
END;

DECLARE @queue_id int, @old_order varchar(4), @old_delivery varchar(13), @old_sink nvarchar(517), @created bit = 0;

BEGIN TRANSACTION;
-- HOLDLOCK on the unique name: two sessions that create the same queue meet here, not at a duplicate key.
SELECT @queue_id = queue_id, @old_order = claim_order, @old_delivery = delivery, @old_sink = sink
FROM [$(schema)].[queues] WITH (UPDLOCK, HOLDLOCK)
WHERE name = @queue;

IF COALESCE(@delivery, @old_delivery) = 'at_most_once' AND COALESCE(@sink, @old_sink) <> N''
    THROW 58003, N'a queue with delivery at_most_once cannot have a sink: its jobs are not acknowledged; set one of the two', 1;

IF @queue_id IS NULL
BEGIN
    INSERT [$(schema)].[queues] (name, claim_order, completion, delivery, max_attempts, keep_done_s, keep_dead_s, sink)
    VALUES (@queue, ISNULL(@claim_order, 'fifo'), ISNULL(@completion, 'delete'), ISNULL(@delivery, 'at_least_once'), ISNULL(@max_attempts, 5),
            NULLIF(@keep_done_s, 0), NULLIF(@keep_dead_s, 0), NULLIF(@sink, N''));
    SET @queue_id = CAST(SCOPE_IDENTITY() AS int);
    INSERT [$(schema)].[duties] (queue_id) VALUES (@queue_id);
    SET @created = 1;
END;
ELSE
BEGIN
    -- To and from lifo, unfinished jobs would stand in the wrong ready index.
    IF (@old_order = 'lifo' AND @claim_order <> 'lifo' OR @old_order <> 'lifo' AND @claim_order = 'lifo')
        AND (   EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 1)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state = 2)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (ROWLOCK, READCOMMITTEDLOCK) WHERE queue_id = @queue_id AND state >= 3))
    BEGIN
        SET @message = CONCAT(N'queue ''', @queue, N''' is ', @old_order, N' and has jobs; work them off and purge before changing it to ', @claim_order);
        THROW 58003, @message, 1;
    END;
    UPDATE [$(schema)].[queues]
    SET claim_order  = ISNULL(@claim_order, claim_order),
        completion   = ISNULL(@completion, completion),
        delivery     = ISNULL(@delivery, delivery),
        max_attempts = ISNULL(@max_attempts, max_attempts),
        keep_done_s  = CASE WHEN @keep_done_s IS NULL THEN keep_done_s ELSE NULLIF(@keep_done_s, 0) END,
        keep_dead_s  = CASE WHEN @keep_dead_s IS NULL THEN keep_dead_s ELSE NULLIF(@keep_dead_s, 0) END,
        sink         = CASE WHEN @sink IS NULL THEN sink ELSE NULLIF(@sink, N'') END
    WHERE queue_id = @queue_id;
END;
COMMIT TRANSACTION;

SELECT @queue_id AS queue_id, @created AS created;
GO
