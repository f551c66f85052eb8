-- Creates a batch in the caller's transaction. Jobs of any queues are added with its id (@batch_id of enqueue, batch_id
-- in @details of enqueue_batch). When the batch is sealed (seal_batch) and all its jobs have finished, its follow-up is
-- enqueued once, with the counts in the header readpast-batch. No result set: the id is returned in @batch_id.
--
-- The follow-up can belong to another batch, the parent (@parent_id), which then cannot complete before the follow-up
-- has finished. The parent must exist, so that there are no cycles. If the call is repeated after a lost response, it
-- creates a second batch. If that has a parent, the parent does not complete until the second batch is sealed or
-- cancelled.
CREATE OR ALTER PROCEDURE [$(schema)].[create_batch]
    @queue          nvarchar(129),            -- the queue of the follow-up
    @name           nvarchar(129)    = NULL,  -- for people: up to 128 characters
    -- The follow-up, as for enqueue. Without payload and text, there is no follow-up.
    @payload        varbinary(max)   = NULL,
    @text           nvarchar(max)    = NULL,
    @priority       smallint         = 0,
    @max_attempts   int              = NULL,
    @correlation_id uniqueidentifier = NULL,
    @kind           nvarchar(65)     = NULL,
    @time_limit_ms  bigint           = NULL,
    @headers        nvarchar(1301)   = NULL,
    @parent_id      bigint           = NULL,
    @batch_id       bigint           = NULL OUTPUT,
    @needs          nvarchar(1001)   = NULL
AS
SET NOCOUNT ON;
-- adopt: refuse
SET XACT_ABORT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @queue_id int, @delivery varchar(13);

SELECT @queue_id = queue_id, @delivery = delivery FROM [$(schema)].[queues] WITH (FORCESEEK (queues_name (name)))
    WHERE name = @queue;
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF DATALENGTH(@name) > 256
    THROW 58003, N'name must have at most 128 characters', 1;
EXEC [$(schema)].[check_text] N'name', @name;
IF @payload IS NOT NULL AND @text IS NOT NULL
    THROW 58003, N'a follow-up must have either a payload or a text', 1;
-- The same checks as in enqueue, which would otherwise fail when the batch completes.
EXEC [$(schema)].[check_job] @max_attempts, NULL, @kind, @time_limit_ms, @headers, NULL, @needs;
IF @parent_id IS NOT NULL AND @payload IS NULL AND @text IS NULL
    THROW 58003, N'parent_id requires a payload or a text, because the follow-up belongs to the parent', 1;
IF @parent_id IS NOT NULL AND @delivery = 'at_most_once'
    THROW 58003,
        N'a queue with delivery at_most_once cannot have groups or batches, because its claims delete the jobs', 1;

BEGIN TRANSACTION;
EXEC [$(schema)].[lock_batch] @parent_id;
INSERT [$(schema)].[batches] WITH (ROWLOCK)
    (queue_id, name, parent_id, created_at, priority, max_attempts, time_limit_ms, kind, correlation_id, headers,
     needs, payload_utf16, payload)
VALUES
    (@queue_id, @name, @parent_id, @now, ISNULL(@priority, 0), @max_attempts, @time_limit_ms, @kind, @correlation_id,
     @headers, @needs, CASE WHEN @text IS NULL THEN 0 ELSE 1 END, ISNULL(@payload, CAST(@text AS varbinary(max))));
SET @batch_id = CAST(SCOPE_IDENTITY() AS bigint);
INSERT [$(schema)].[batch_counts] WITH (ROWLOCK) (batch_id, queue_id) VALUES (@batch_id, @queue_id);
-- As in enqueue: the queue may have been deleted.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (NOLOCK, FORCESEEK (queues_pk (queue_id)))
    WHERE queue_id = @queue_id)
    SET @queue_id = (SELECT queue_id
        FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK, FORCESEEK (queues_pk (queue_id)))
                     WHERE queue_id = @queue_id);
IF @queue_id IS NULL
    EXEC [$(schema)].[unknown_queue] @queue;
IF @parent_id IS NOT NULL
BEGIN
    INSERT [$(schema)].[batch_additions] WITH (ROWLOCK) (batch_id, jobs) VALUES (@parent_id, 1);
    EXEC [$(schema)].[link_queue] @queue_id;
END;
COMMIT TRANSACTION;
GO
