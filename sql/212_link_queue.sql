-- Records a queue in linked_queues. Called by procedures that enqueue jobs of batches or groups, or jobs that wait for
-- others, in their transaction.
CREATE OR ALTER PROCEDURE [$(schema)].[link_queue]
    @queue_id int
AS
SET NOCOUNT, XACT_ABORT ON;
-- READPAST skips an uncommitted row, because it may be rolled back.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
    WHERE queue_id = @queue_id)
BEGIN
    INSERT [$(schema)].[linked_queues] WITH (ROWLOCK) (queue_id) VALUES (@queue_id);
    -- Checks the delivery again, because create_queue may have changed it since the caller's check. From now on,
    -- create_queue sees this row.
    IF EXISTS (SELECT 1 FROM [$(schema)].[queues] WITH (ROWLOCK, READCOMMITTEDLOCK)
        WHERE queue_id = @queue_id AND delivery = 'at_most_once')
        THROW 58003,
            N'a queue with delivery at_most_once cannot have groups, batches or edges, because its claims delete the jobs', 1;
END;
GO
