-- For those who enqueue jobs of batches or groups, in their transaction: notes that the queue has such jobs (see
-- linked_queues).
CREATE OR ALTER PROCEDURE [$(schema)].[link_queue]
    @queue_id int
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
-- READPAST: a row that is not committed may be taken back.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id)
BEGIN
    INSERT [$(schema)].[linked_queues] WITH (ROWLOCK) (queue_id) VALUES (@queue_id);
    -- The caller has looked before; since then somebody may have set it, or be about to (create_queue, which sees this
    -- row from now on).
    IF EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK)
        WHERE queue_id = @queue_id AND delivery = 'at_most_once')
        THROW 58003, N'a queue with delivery at_most_once has no groups and no jobs of batches: its jobs are not acknowledged', 1;
END;
GO
