-- For those who enqueue jobs of batches or groups, in their transaction: notes that the queue has such jobs (see linked_queues).
CREATE OR ALTER PROCEDURE [$(schema)].[link_queue]
    @queue_id int
AS
SET NOCOUNT ON;
-- READPAST: a row that is not committed may be taken back.
IF NOT EXISTS (SELECT 1 FROM [$(schema)].[linked_queues] WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK) WHERE queue_id = @queue_id)
    INSERT [$(schema)].[linked_queues] (queue_id) VALUES (@queue_id);
GO
