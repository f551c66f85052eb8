-- Says whether a queue has jobs that are not finished: ready, scheduled or claimed, by whichever worker. For a worker that drains it.
--
-- A few seeks at any depth. Reads without locks (NOLOCK), one state after the other: a job that moves from one to another meanwhile can be
-- in none of them. So "nothing" counts when it was said twice in a row.
-- Result: unfinished.
CREATE OR ALTER PROCEDURE [$(schema)].[unfinished]
    @queue nvarchar(129)
AS
SET NOCOUNT ON;
SET XACT_ABORT ON;
DECLARE @queue_id int, @message nvarchar(2048);

SELECT @queue_id = queue_id FROM [$(schema)].[queues] WHERE name = @queue;
IF @queue_id IS NULL
BEGIN
    SET @message = CONCAT(N'there is no queue ''', @queue, N'''; create it with [$(schema)].[create_queue]');
    THROW 58001, @message, 1;
END;

SELECT CAST(CASE WHEN EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready))
                              WHERE queue_id = @queue_id AND state = 0 AND lifo = 0 AND alone = 0)
                   OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready_lifo))
                              WHERE queue_id = @queue_id AND state = 0 AND lifo = 1 AND alone = 0)
                   OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_ready_alone))
                              WHERE queue_id = @queue_id AND state = 0 AND alone = 1)
                   OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_scheduled))
                              WHERE queue_id = @queue_id AND state = 1)
                   OR EXISTS (SELECT 1 FROM [$(schema)].[jobs] WITH (NOLOCK, INDEX (jobs_claimed))
                              WHERE queue_id = @queue_id AND state = 2)
                 THEN 1 ELSE 0 END AS bit) AS unfinished;
GO
