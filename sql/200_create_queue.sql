-- Creates a queue, or changes the settings of an existing one; NULL leaves a setting as it is (for a new queue: the default).
-- Result: queue_id, created.
CREATE OR ALTER PROCEDURE [$(schema)].[create_queue]
    @queue        nvarchar(128),
    @claim_order  varchar(4)  = NULL,  -- fifo (default), lifo, any
    @completion   varchar(8)  = NULL,  -- delete (default), annotate, archive
    @delivery     varchar(13) = NULL,  -- at_least_once (default), at_most_once
    @max_attempts int         = NULL   -- 5 by default; 1 and more
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @message nvarchar(2048);

IF @queue IS NULL OR LEN(@queue) = 0
    THROW 58003, N'the name of a queue must have 1 to 128 characters', 1;
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

DECLARE @queue_id int, @old_order varchar(4), @created bit = 0;

BEGIN TRANSACTION;
-- HOLDLOCK on the unique name: two sessions that create the same queue meet here, not at a duplicate key.
SELECT @queue_id = queue_id, @old_order = claim_order
FROM [$(schema)].[queues] WITH (UPDLOCK, HOLDLOCK)
WHERE name = @queue;

IF @queue_id IS NULL
BEGIN
    INSERT [$(schema)].[queues] (name, claim_order, completion, delivery, max_attempts)
    VALUES (@queue, ISNULL(@claim_order, 'fifo'), ISNULL(@completion, 'delete'), ISNULL(@delivery, 'at_least_once'), ISNULL(@max_attempts, 5));
    SET @queue_id = CAST(SCOPE_IDENTITY() AS int);
    SET @created = 1;
END;
ELSE
BEGIN
    -- To and from lifo, unfinished jobs would stand in the wrong ready index.
    IF (@old_order = 'lifo' AND @claim_order <> 'lifo' OR @old_order <> 'lifo' AND @claim_order = 'lifo')
        AND (   EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE queue_id = @queue_id AND state = 1)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE queue_id = @queue_id AND state = 2)
             OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WHERE queue_id = @queue_id AND state >= 3))
    BEGIN
        SET @message = CONCAT(N'queue ''', @queue, N''' is ', @old_order, N' and has jobs; work them off and purge before changing it to ', @claim_order);
        THROW 58003, @message, 1;
    END;
    UPDATE [$(schema)].[queues]
    SET claim_order  = ISNULL(@claim_order, claim_order),
        completion   = ISNULL(@completion, completion),
        delivery     = ISNULL(@delivery, delivery),
        max_attempts = ISNULL(@max_attempts, max_attempts)
    WHERE queue_id = @queue_id;
END;
COMMIT TRANSACTION;

SELECT @queue_id AS queue_id, @created AS created;
GO
